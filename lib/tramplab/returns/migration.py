"""The fields that handlers at a return are given: by a kretprobe, by its replacements, and by a shim that calls a kretprobe's
handler.

Everything is found by running: structures of registers by the consumers that read them (sparsity/), what else a handler is
told by handlers that write it down, and the context of a program by looking for each register among its words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ..base.errors import TramplabError, unknown
from ..ftrace.meant import kprobes_break
from ..ftrace.ops import Request
from ..isa import Isa
from ..lab.kernel import Kernel
from ..sparsity.consumers.consumers import CONSUMERS
from ..sparsity.consumers.matrix import NOT_ASKED, RIGHT, Matrix, asked, of_samples
from ..sparsity.structures import frames
from ..sparsity.structures.classify import TRUE
from ..sparsity.structures.fields import PT_REGS, WORD
from ..sparsity.structures.frames import FUNCTIONS, Seen, of_seed
from ..sparsity.structures.providers import PROVIDERS, Provider
from ..sparsity.structures.registers import register_of
from ..sparsity.structures.views import ACCESSORS, DIRECT, PARTIAL, PERF, View
from ..trampolines.bpf import Bpf
from ..trampolines.fprobe.request import Fprobe
from ..trampolines.kprobe import Kretprobe

#: Who tells: a kretprobe; an fprobe's exit handler, through the accessors of its ftrace_regs, by ftrace_partial_regs(), and by
#: perf's fill; an fexit program's context; and the shims, by how much they fill.
BEFORE, FEXIT = "kretprobe", "fexit"
WAYS = {"fprobe": ACCESSORS, "partial": PARTIAL, "perf": PERF}
FPROBE, MULTI, PERFS = WAYS
SHIMS = ("value", "where", "all")
TELLERS = (BEFORE, *WAYS, FEXIT, *SHIMS)
#: Field -> the consumer whose conclusion it is.
CONCLUDED = {
    "value": "return-value",
    "ip": "instruction-pointer",
    "sp": "stack-pointer",
    "word": "stack-word",
    "mode": "user-mode",
    "trace": "callchain",
    "irqs": "interrupts",
    "flags": "conditions",
}
#: Field -> the registers that it stands for.
REGISTERS: dict[str, Callable[[Isa], Sequence[str]]] = {
    "wide": lambda isa: isa.returns[:2],
    "fp": lambda isa: (isa.fp,),
    "kept": lambda isa: [r for r in isa.callee_saved if r not in (isa.fp, isa.sp, isa.link)],
    "others": lambda isa: [r for r in (*isa.args, *isa.scratch) if r not in isa.returns[:2]],
}
#: What a handler is told beside registers: which function, where that returns to, and which kprobe this CPU is in.
RECORDED = ("function", "back", "running")
FIELDS = (*CONCLUDED, *REGISTERS, *RECORDED)
_TRAMPOLINES = {"own": "__kretprobe_trampoline", "rethook": "arch_rethook_trampoline"}
_GRAPH, _PROGRAM = "return_to_handler", "lab_bpf_count"


@dataclass(frozen=True)
class Told:
    """The fields that one teller gives a handler.

    right: field -> is it given, and right? None where the ISA has no such thing.
    registers: those that are given.
    """

    right: Mapping[str, bool | None]
    registers: frozenset[str]


def request(
    kernel: Kernel, teller: str, functions: tuple[str, ...] = (), observe: bool = False, entry: bool = False
) -> Request:
    """The request for a teller's handler at the return, and with entry= for one at the entry too. Raises TramplabError for an
    unknown teller."""
    if teller not in TELLERS:
        raise unknown("teller", teller, TELLERS)
    if teller == BEFORE:
        return Kretprobe(filter=functions, breakpoint=kprobes_break(kernel.features), entry=entry, observe=observe)
    if teller == FEXIT:
        return Bpf(filter=functions, fentry=int(entry), fexit=1, observe=observe)
    return Fprobe(filter=functions, entry=entry, exit=True, observe=observe, shim=teller if teller in SHIMS else "")


def told(kernel: Kernel, teller: str) -> Told:
    """Everything that a teller tells of a return, right or not."""
    if teller == FEXIT:
        return _context(kernel)
    seen = samples(kernel, teller)
    found = of_samples(kernel, view(kernel, teller), seen)
    present = registers(kernel, found, seen.values())
    right: dict[str, bool | None] = {}
    cells = {cell.consumer.name: cell for cell in found.cells}
    for field, name in CONCLUDED.items():
        cell = cells[name]
        none = cell.outcome == NOT_ASKED and asked(found.view, CONSUMERS[name])
        right[field] = None if none else cell.outcome == RIGHT
    right |= {field: set(of(kernel.isa)) <= present for field, of in REGISTERS.items()}
    return Told(right | _recorded(kernel, teller), present)


def matrix(kernel: Kernel, teller: str, seeds: Sequence[int] = frames.SEEDS) -> Matrix:
    """The conclusions of all consumers from the registers that a teller passes to its handler, in calls of these seeds."""
    return of_samples(kernel, view(kernel, teller), samples(kernel, teller, seeds))


def view(kernel: Kernel, teller: str) -> View:
    """The way in which a teller's handler reads its structure; raises TramplabError for a program's context, which is none."""
    return View(provider(kernel, teller), WAYS.get(teller, DIRECT))


def samples(kernel: Kernel, teller: str, seeds: Sequence[int] = frames.SEEDS) -> dict[tuple[int, int], Seen]:
    """(seed, poison) -> what a teller passes to its handler."""
    return frames.watched_in_turn(kernel, provider(kernel, teller), seeds)


def provider(kernel: Kernel, teller: str) -> Provider:
    """The provider of a teller's structure of registers; raises TramplabError for a program's context, which has none."""
    if teller in WAYS:
        return PROVIDERS[_GRAPH]
    if teller == BEFORE:
        return PROVIDERS[_TRAMPOLINES[str(kernel.features["kretprobe"])]]
    if teller not in SHIMS:
        raise TramplabError(f"{teller} passes no structure of registers; ask for one of {', '.join((BEFORE, *WAYS, *SHIMS))}.")
    return Provider(
        f"shim, {teller}",
        "a shim, to a kretprobe's handler",
        lambda functions: Fprobe(filter=functions, entry=False, exit=True, shim=teller),
        PROVIDERS[_GRAPH].offered,
        "lab_kretprobe_exit",
        1,
        PT_REGS,
        _GRAPH,
    )


def registers(kernel: Kernel, found: Matrix, seen: Collection[Seen]) -> frozenset[str]:
    """The registers whose original values are in the structure and can be read by their names; none of an ftrace_regs. A zero
    counts only if the register was not zero in all of these calls because of the hook's entry."""
    if found.view.kind != PT_REGS:
        return frozenset()
    original = {register_of(kernel.isa, name) for name, slot in found.frame.slots.items() if slot.kind == TRUE}
    return frozenset(r for r in original if any(one.truth[r] for one in seen))


# inside


def _recorded(kernel: Kernel, teller: str) -> dict[str, bool | None]:
    """The fields that a recording handler is given: a kretprobe's, which a shim calls too, or an fprobe's."""
    old = teller not in WAYS
    struct, entered, back = ("lab_kretprobed", "addr", "ret_addr") if old else ("lab_returned", "entry_ip", "ret_ip")
    handler = "lab_kretprobe_observe_exit" if old else "lab_fprobe_observe_exit"
    image, machine = kernel.image, kernel.machine
    layout, right = image.struct(struct), dict.fromkeys(RECORDED, True)
    current = kernel.cpus[0].pcpu + image.struct("lab_pcpu").fields["current_kprobe"].offset
    for name in FUNCTIONS:
        count, running, function = machine.read_u64(image.address(f"{struct}_count")), [], kernel.function(name)
        with (
            kernel.attached(function, request(kernel, teller, observe=True)),
            machine.watching(image.address(handler), lambda: running.append(machine.read_u64(current))),  # noqa: B023
        ):
            kernel.call(function, 1, 2, 3, 4)
        last = image.address(struct) + count % (image.symbol(struct).size // layout.size) * layout.size
        says = {field: machine.read_u64(last + layout.fields[field].offset) for field in (entered, back)}
        right["function"] &= function.address <= says[entered] < function.address + function.size
        right["back"] &= says[back] == machine.return_to
        right["running"] &= running[0] != 0
    return {**right}


def _context(kernel: Kernel) -> Told:
    """The fields among the words of a program's context: those in the same place in every call, as in a kretprobe's handler."""
    words = {seed: _words(kernel, seed) for seed in frames.SEEDS}
    truth = {seed: seen.truth for (seed, poison), seen in samples(kernel, BEFORE).items() if not poison}

    def there(register: str) -> bool:
        # counted from the last word, which is what the function returned, as functions take different numbers of arguments
        numbers = range(-min(map(len, words.values())), 0)
        return any(all(words[seed][n] == truth[seed][register] for seed in words) for n in numbers)

    isa = kernel.isa
    registers_there = frozenset(r for r in (*isa.registers, "pc") if r in truth[0] and there(r))
    right: dict[str, bool | None] = dict.fromkeys(FIELDS)
    right |= {"value": isa.returns[0] in registers_there, "ip": "pc" in registers_there, "sp": isa.sp in registers_there}
    return Told(right | {field: set(of(isa)) <= registers_there for field, of in REGISTERS.items()}, registers_there)


def _words(kernel: Kernel, seed: int) -> list[int]:
    """The words of one call: the number of arguments, the arguments, and the return value."""
    machine, function, found = kernel.machine, kernel.function(of_seed(seed)), []

    def begins() -> None:
        at = machine.register(kernel.isa.args[0])
        count = machine.read_u64(at - WORD)
        found.append([machine.read_u64(at + WORD * n) for n in range(-1, count + 1)])

    start = frames.registers(machine, seed) | frames.idle(kernel, seed)
    with (
        kernel.attached(function, request(kernel, FEXIT)),
        machine.watching(kernel.image.address(_PROGRAM), begins),
    ):
        kernel.call(function, *(seed * 16 + n for n in range(1, 5)), registers=start)
    return found[0]
