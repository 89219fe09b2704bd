"""The outcome of one executed instruction: where the thread is then, and whether that is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ..subject import Subject, overlap
from .cpu import LEFT_OVER, Cpu, Executed
from .locals import IDLE, Interned, Local
from .verdicts import MISSED, PAIR, STATE, TARGET, Violation

_MASK = (1 << 64) - 1
#: Bytes that an instruction reaches at most from the address in a register.
_NEAR = 1 << 16


@dataclass(frozen=True)
class Step:
    """One instruction's outcome, whatever the moment.

    next: the thread's state after it, IDLE if the call has returned.
    reads: (address, size) of its loads.
    called: the ops that it called, 0 for none.
    wrong: the violation that it is at any moment.
    """

    next: int
    reads: tuple[tuple[int, int], ...]
    called: int = 0
    wrong: Violation | None = None


class Judge:
    """Judges each executed instruction of one subject's threads.

    start: the registers with which a thread begins a call.
    led_to: addresses outside the function at which a breakpoint's handler may let a thread go on: the targets of the instruction
        that the breakpoint replaces.
    """

    def __init__(
        self, subject: Subject, cpu: Cpu, start: tuple[int, ...], interned: Interned, led_to: frozenset[int] = frozenset()
    ) -> None:
        self._subject, self._cpu, self._start, self._locals, self._led_to = subject, cpu, start, interned, led_to
        stack = subject.machine.stack
        self._own = [(stack.address, stack.size), *subject.private, *subject.scratch]
        self._isa = subject.machine.isa
        self._index = {name: n for n, name in enumerate(cpu.names)}
        self._returns = {subject.body, subject.machine.return_to}

    def outcome(self, local: Local, size: int, done: Executed) -> Step:
        """The outcome of an instruction, whenever it is executed."""
        if done.pc is None:
            how = "stops the CPU" if done.lost is None else f"leads to {self._anywhere(done.lost)}"
            return Step(IDLE, done.reads, wrong=Violation(TARGET, f"{self._where(local.pc)} {how}"))
        for address in done.stores:
            if not any(overlap((address, 8), area) for area in self._own):
                raise TramplabError(
                    f"{self._where(local.pc)} writes {self._where(address)}, which is no thread's own: the explorer takes threads "
                    "to share nothing that they write."
                )
        behind = local.pc + size
        self._note_call(behind, done)
        wrong = self._strays(local.pc, behind, done.pc)
        if wrong:
            return Step(IDLE, done.reads, wrong=wrong)
        after = Local(done.pc, done.registers, done.memory, local.called, local.due)
        if done.pc == self._subject.machine.return_to:
            return Step(IDLE, done.reads, wrong=self._at_return(after))
        if done.pc in self._subject.callbacks:
            return self._callback(after, done)
        if done.pc in self._subject.direct:
            ops = self._subject.direct[done.pc]
            return Step(self._locals.number(after._replace(called=(*after.called, ops))), done.reads, ops)
        return Step(self._locals.number(after), done.reads)

    def _note_call(self, behind: int, done: Executed) -> None:
        """Note the address behind a call if the call has left it where returns find it: returns may go there."""
        isa = self._isa
        links = [r for r in isa.return_stack.link_registers or (isa.link,) if r]
        left = [done.registers[self._index[r]] for r in links]
        if isa.link is None and done.stores:
            left.append(self._cpu.word(done.registers[self._index[isa.sp]]))
        if behind in left:
            self._returns.add(behind)

    def _strays(self, pc: int, behind: int, to: int) -> Violation | None:
        """The violation if control goes where it may not."""
        subject = self._subject
        site = subject.entry <= pc < subject.body
        if to == behind or (to in self._returns and not site):
            return None
        inside = subject.entry <= to < subject.end
        if site and not inside and to not in subject.targets and not self._trap(to):
            return Violation(TARGET, f"{self._where(pc)} leads to {self._where(to)}")
        name = subject.name_of(to)
        if not subject.machine.is_text(to):
            return Violation(TARGET, f"{self._where(pc)} leads to {name}")
        if self._trap(pc, leaving=True):  # nowhere else, whatever the handler was told
            fine = inside or to in self._led_to or to in subject.skips.values()
        else:
            fine = "+" not in name or name.partition("+")[0] == subject.name_of(pc).partition("+")[0]
        if fine:
            return None
        return Violation(TARGET, f"{self._where(pc)} leads to {name}")

    def _trap(self, address: int, leaving: bool = False) -> bool:
        vector = self._subject.vector
        return vector is not None and address == (vector.leaves if leaving else vector.entry)

    def _callback(self, after: Local, done: Executed) -> Step:
        """The outcome of a callback, by what it is called with. It returns at once, and has changed every register that it may."""
        subject, isa = self._subject, self._isa
        registers = list(after.registers)
        ip, parent, ops = (registers[self._index[r]] for r in isa.args[:3])
        wrong = None
        if ops not in subject.callbacks[after.pc]:
            wrong = Violation(PAIR, f"{self._where(after.pc)} is called with ops {subject.ops_name(ops)}")
        elif (ip, parent) != (subject.ip, subject.machine.return_to):
            wrong = Violation(STATE, f"a callback is told ip {self._where(ip)}, parent {self._where(parent)}")
        back = registers[self._index[isa.link]] if isa.link else self._cpu.word(registers[self._index[isa.sp]])
        kept = {*isa.callee_saved, isa.sp, *isa.fixed, *(r for r in isa.registers if r == isa.fp)}
        for n, name in enumerate(self._cpu.names):
            if name in isa.registers and name not in kept:
                registers[n] = LEFT_OVER - n
        if isa.link is None:
            registers[self._index[isa.sp]] += 8
        low = registers[self._index[isa.sp]]
        stack = subject.machine.stack
        memory = tuple((a, v) for a, v in after.memory if not stack.address <= a < low)
        called = after._replace(pc=back, registers=tuple(registers), memory=memory, called=(*after.called, ops))
        return Step(self._locals.number(called), done.reads, ops, wrong)

    def _at_return(self, after: Local) -> Violation | None:
        """The violation if something is not as a caller expects it, or an ops was not called that must be."""
        isa, subject = self._isa, self._subject
        off = [r for r in (*isa.callee_saved, isa.sp) if after.registers[self._index[r]] != self._expected(r)]
        if off:
            return Violation(STATE, f"{', '.join(off)} not as before the call")
        value = after.registers[self._index[isa.returns[0]]]
        if value != subject.call.value & _MASK:
            return Violation(STATE, f"it returns {value:#x}, not {subject.call.value:#x}")
        kept = [a for a, _ in after.memory if not any(overlap((a, 8), area) for area in subject.scratch)]
        left = [a for a in kept if any(overlap((a, 8), area) for area in subject.private)]
        if left:
            return Violation(STATE, f"{self._where(left[0])} is not as before the call")
        for ops in sorted(after.due):
            if after.called.count(ops) != 1:
                times = after.called.count(ops)
                often = f"{times} times" if times else "not at all"
                return Violation(MISSED, f"{subject.ops_name(ops)} is attached and called {often}")
        return None

    def _expected(self, register: str) -> int:
        shift = 8 if register == self._isa.sp and self._isa.link is None else 0
        return self._start[self._index[register]] + shift

    def _anywhere(self, address: int) -> str:
        """The name of an address, which may be in no code."""
        return "wherever a register points that nobody set" if abs(address - LEFT_OVER) < _NEAR else self._where(address)

    def _where(self, address: int) -> str:
        return self._subject.name_of(address)
