"""What a real kernel's own unwinder says of a hooked call's stack: in a handler, and asleep in what the function calls.

The kernel is made to run a system call on a task's stack, from where its own entry code calls C. Where the handler begins the
unwinder is called in its place, so that no code of ours is on the stack. The kernel's own consumer keeps the entries. A task that
sleeps in what the function calls is one that unwinds itself where that begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...emulate.counting.counters import RawRun
from ...emulate.counting.trace import Recording
from ...estimate import returnstack
from ...ftrace.ops import Generated
from ...lab.call import RecordedCall
from ...lab.view import Function
from ...unwind import recovery
from ...unwind.chain import WORD, Chain
from ...unwind.orc import RECORD, TABLES
from ...unwind.stacks import DOUBLED, RETURNED, Frame, found
from ...unwind.unwind import live
from ..hooks.hook import Absent
from . import layout
from .machine import RealMachine

#: What is called by the function that is traced, so that a task can sleep there.
CALLS = "__task_pid_nr_ns"
#: The walks: one says what it finds, the other whether that is all there is as well. The consumer, and its struct.
WALK, RELIABLE, _CONSUMER, _COOKIE = "arch_stack_walk", "arch_stack_walk_reliable", "stack_trace_consume_entry", "stacktrace_cookie"
#: Where exceptions enter: what stands behind them in a chain is no return address.
_EXCEPTIONS = ("asm_exc_int3", "el1h_64_sync", "handle_exception", "ret_from_exception")
#: How many callers are looked for.
_CALLERS = 2
#: Bytes of a task's stack, entries that the consumer has room for, and instructions of entry code before its call of C at most.
_STACK, _ROOM, _FAR = 16 << 10, 64, 200
#: Bytes of text for which the ORC lookup table has an entry (LOOKUP_BLOCK_SIZE, arch/x86/include/asm/orc_lookup.h).
_BLOCK = 256
#: ESR_EL1 of an SVC in AArch64: its EC, and the bit for a 32-bit instruction.
_SVC = 0x15 << 26 | 1 << 25
#: The type of the record at which an arm64 stack ends, where records of pt_regs have one (FRAME_META_TYPE_FINAL,
#: arch/arm64/include/asm/stacktrace/frame.h).
_FINAL = 1


@dataclass(frozen=True)
class _SystemCall:
    """getppid(2) of an ISA.

    function: the function that is traced.
    first, entry: the first function in C, and the code that calls it.
    regs: members of pt_regs as entry code leaves it: (name, index of the word, value).
    """

    function: str
    first: str
    entry: str
    regs: tuple[tuple[str, int, int], ...]


_CALLS = {
    "x86_64": _SystemCall(
        "__do_sys_getppid",
        "do_syscall_64",
        "entry_SYSCALL_64_after_hwframe",
        (("orig_ax", 0, 110), ("cs", 0, 0x33), ("ip", 0, 0x40_0000)),
    ),
    "arm64": _SystemCall(
        "__arm64_sys_getppid", "el0t_64_sync_handler", "el0t_64_sync", (("regs", 8, 173), ("pc", 0, 0x40_0000))
    ),
    "riscv64": _SystemCall("__riscv_sys_getppid", "do_trap_ecall_u", "ret_from_exception", (("a7", 0, 173), ("epc", 0, 0x40_0000))),
}


@dataclass(frozen=True)
class Walk:
    """What the unwinder passes to its consumer.

    symbols: of all entries, innermost first.
    frames: what is found of the function, its caller and that one's, of unwind.stacks.STATES; an address that is none of theirs,
        where the next of them should be, gives that one a wrong name.
    over: has the function returned?
    asleep: is the task in what the function calls?
    reliable: does the kernel say so? None where it has no walk that does.
    """

    symbols: tuple[str, ...]
    frames: tuple[str, ...]
    over: bool
    asleep: bool
    reliable: bool | None


class Caller:
    """Makes the system call on one real kernel. function: the one that is to be hooked."""

    def __init__(self, machine: RealMachine) -> None:
        self._machine, self._of = machine, _CALLS[machine.isa.name]
        opened, regs = machine.opened, machine.opened.struct("pt_regs")
        self._back, self._calls = _behind(machine, self._of), opened.address(CALLS)
        self._regs, self._record = [0] * (regs.size // WORD), regs.fields.get("stackframe")
        for member, word, value in self._of.regs:
            self._regs[regs.fields[member].offset // WORD + word] = value
        if self._record and self._record.size == 3 * WORD:
            self._regs[self._record.offset // WORD + 2] = _FINAL
        _set_up_task(machine)
        if machine.isa.name == "arm64":
            machine.machine.set_register("esr_el1", _SVC)
        if machine.isa.name in TABLES:
            _fill_lookup(machine)
        machine.machine.keep()
        self.function = machine.function(self._of.function)
        self._truth = self._callers()
        hooked = [opened.address(name) for name in recovery.SYMBOLS.values() if opened.has(name)]
        self._stand_ins = frozenset(hooked)

    def walks(self, attach: Callable[[RealMachine, Function], object]) -> Iterator[Walk]:
        """The walks of a hook: in each handler of ours that it runs, and last of the sleeping task. Raises Absent."""
        machine = self._machine
        attach(machine, self.function)
        handlers = machine.handlers(self.function)
        machine.reset()
        for address in (*handlers, self._calls):
            try:
                attach(machine, self.function)
                for made in machine.made:
                    if made.name == "bpf_trampoline":
                        self._make_known(made)
                over = self._start(address).tally.has(self._calls)
                yield self._walk(over, address == self._calls)
            finally:
                machine.reset()

    # inside

    def _callers(self) -> tuple[int, ...]:
        """The return addresses in use at the function's body, innermost first, as a call without a hook tells."""
        m = self._machine.machine
        executed = m.instructions(self._start(self.function.site.body).tally.issued)
        recording = Recording(m.events(), executed, [pc for pc, i in executed.items() if i.repeated])
        call = RecordedCall(m.isa, recording, executed, self._back, self._machine.name_of)
        self._machine.reset()
        return live(call)[-1][:-1]

    def _start(self, until: int) -> RawRun:
        """The system call from entry code on, up to an address."""
        m, isa = self._machine.machine, self._machine.isa
        regs = m.stack_top - WORD * len(self._regs) & ~15
        m.enter({isa.sp: m.stack_top, isa.fp: regs + self._record.offset if self._record else 0}, self._regs)
        if isa.link:
            m.set_registers({isa.link: self._back})
        else:
            m.write_u64(m.register(isa.sp), self._back)
        m.set_registers(dict(zip(isa.args, (regs, self._of.regs[0][2]), strict=False)))
        m.engine.forget_all()  # translations made before do not end there
        return m.run(self._machine.address(self._of.first), until)

    def _walk(self, over: bool, asleep: bool) -> Walk:
        here, opened = self._machine.machine.registers(), self._machine.opened
        addresses, _ = self._unwound(WALK, here)
        answer = self._unwound(RELIABLE, here)[1] if opened.has(RELIABLE) else None
        names = tuple((self._machine.name_of(a) or hex(a)).partition("+")[0] for a in addresses)
        states = self._found(addresses, names)
        frames = (RETURNED, *states[1:]) if over and states[0] != DOUBLED else states
        return Walk(names, frames, over, asleep, None if answer is None else not answer)

    def _found(self, addresses: tuple[int, ...], names: tuple[str, ...]) -> tuple[str, ...]:
        """The states of the frames in a chain, see Walk."""
        traced = Frame(self.function.address, self.function.address + self.function.size)
        made = {made.name for made in self._machine.made}
        inside = [n for n, a in enumerate(addresses) if traced.low <= a <= traced.high]
        false = {a for a, name in zip(addresses, names, strict=True) if a not in self._truth and name not in made}
        behind = set(addresses[inside[0] + 1 :]) if inside else set()
        strays = {a for a in false & behind if not traced.low <= a <= traced.high}
        exact = {n for n, before in enumerate(names, 1) if before in _EXCEPTIONS}
        frames = (traced, *map(Frame.returning_to, self._truth[:_CALLERS]))
        return found(Chain(addresses), frames, self._stand_ins | strays, exact)

    def _unwound(self, walk: str, registers: dict[str, int]) -> tuple[tuple[int, ...], int]:
        """The entries of a walk that is called with these registers, of the current task, and the int that it returns."""
        machine, m, isa = self._machine, self._machine.machine, self._machine.isa
        entries = machine.block(bytes(WORD * _ROOM))
        cookie = machine.block(layout.fields(machine, _COOKIE, {"store": entries, "size": _ROOM}))
        back = registers[isa.link] if isa.link else m.read_u64(registers[isa.sp])
        m.set_registers({name: value for name, value in registers.items() if name != isa.pc})
        m.set_registers(dict(zip(isa.args, (machine.address(_CONSUMER), cookie, machine.cpu.task, 0), strict=False)))
        m.engine.forget_all()
        value = m.run(machine.address(walk), back).registers[isa.returns[0]]
        count = machine.opened.struct(_COOKIE).fields["len"]
        kept = int.from_bytes(m.read(cookie + count.offset, count.size), "little")
        return tuple(m.read_u64(entries + WORD * n) for n in range(kept)), value & 0xFFFF_FFFF

    def _make_known(self, made: Generated) -> None:
        """Have the kernel note generated code as BPF's, and where its frame pointer points to a record."""
        machine, known = self._machine, {"start": made.address, "end": made.address + made.size}
        if machine.isa.name in TABLES:
            read = machine.machine.instruction_at
            framed = [at for at, how in TABLES[machine.isa.name](read, made.address, made.size).items() if how == RECORD]
            last = max(framed)
            known |= {"fp_start": min(framed) - made.address, "fp_end": last + read(last).size - made.address}
        ksym = machine.block(layout.fields(machine, "bpf_ksym", known))
        node = ksym + machine.opened.struct("bpf_ksym").fields["lnode"].offset
        machine.machine.write(node, node.to_bytes(WORD, "little") * 2)
        machine.machine.call(machine.address("bpf_ksym_add"), {machine.isa.args[0]: ksym})


def _set_up_task(machine: RealMachine) -> None:
    """Give the task its stack, and where it is one of zeros what the system call reads of it: it is its own parent."""
    m, task, of = machine.machine, machine.cpu.task, machine.opened.struct("task_struct").fields
    m.write_u64(task + of["stack"].offset, m.stack_top - _STACK)
    if not m.read_u64(task + of["real_parent"].offset):
        m.write_u64(task + of["real_parent"].offset, task)
        m.write_u64(task + of["signal"].offset, machine.heap.take(machine.opened.struct("signal_struct").size))


def _behind(machine: RealMachine, of: _SystemCall) -> int:
    """The return address of the function in C: behind the call in entry code, or what entry code has put in its place."""
    if machine.isa.name == "riscv64":
        return machine.address(of.entry)
    at, first = machine.address(of.entry), hex(machine.address(of.first))
    for _ in range(_FAR):
        i = machine.machine.instruction_at(at)
        at += i.size
        if returnstack.pushes(machine.isa, i) and i.operands.lstrip("#") == first:
            return at
    raise Absent(f"{machine.opened.version} does not call {of.first}() behind {of.entry}")


def _fill_lookup(machine: RealMachine) -> None:
    """Fill the table that ORC entries are looked up by, as unwind_init() does at boot."""
    m, at = machine.machine, machine.address
    first, lookup = at("__start_orc_unwind_ip"), at("orc_lookup")
    relative = np.frombuffer(m.read(first, at("__stop_orc_unwind_ip") - first), "<i4").astype(np.int64)
    places = relative + 4 * np.arange(len(relative))
    wanted = at("_stext") - first + _BLOCK * np.arange((at("orc_lookup_end") - lookup) // 4)
    wanted[-1] = at("_etext") - first
    m.write(lookup, (np.searchsorted(places, wanted, "right") - 1).astype("<u4").tobytes())
    m.write(at("lookup_num_blocks"), len(wanted).to_bytes(4, "little"))
    m.write(at("orc_init"), b"\1")
