"""A call to read step by step, as plain data: code with symbols, what every step read and changed, and its milestones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...base.errors import TramplabError
from ...emulate import walk as _walk
from ...emulate.walk import Access, Moment
from ..boot import boot
from ..kernel import Kernel
from ..run import Run
from ..view import Function
from .wording import Wording

#: The parts of a hooked call, in order; a call without a part has no such milestone.
MILESTONES = ("site", "save", "callback", "restore", "body", "return")
_MARK = 0x5EED_0000_0000_0000  # what registers hold that the caller gives no value, plus their number


def walk(kernel: Kernel, function: Function | str, *arguments: int) -> dict:
    """One call of a function in the kernel as it is.

    Every register that the caller may choose and that carries no argument holds a value of its own, so that what is
    saved and restored can be told apart. Returns a dictionary for JSON, with values as wording.py writes them:

    isa, sp, config: names of the ISA, of its stack pointer, and of the kernel.
    call: the call with its result.
    symbols: [name, component] of each.
    code: [index in symbols, offset in the symbol, instruction] of each.
    registers, memory: what they held at the start; memory only where the call reads it before it writes there.
    fields: what the words of the trampoline's register frame are.
    steps: [index in code, registers changed and places that lie across what is written, memory written, places read] of each.
    milestones: name -> step.

    Raises GuestFault, StepLimit, and TramplabError if a second call does not run the same instructions.
    """
    isa, function = kernel.isa, kernel.function(function)
    free = [r for r in isa.registers if r not in {*isa.fixed, isa.sp, isa.fp, isa.link, *isa.args[: len(arguments)]}]
    marks = {r: _MARK + n for n, r in enumerate(free)}
    start, moments = _stepped(kernel, function, arguments, marks)
    run = kernel.call(function, *arguments, registers=marks)
    require_same(function, [m.pc for m in moments], run)
    say = _wording(kernel, run, moments, start[isa.sp], {value: r for r, value in marks.items()})
    symbols, code = _code(kernel, run, moments, say)
    marks_at, begin = milestones(run), _start(moments)
    return {
        "isa": isa.name,
        "sp": isa.sp,
        "config": run.config,
        "call": f"{function.name}({', '.join(map(str, arguments))}) = {run.value}",
        "symbols": symbols,
        "code": list(code.values()),
        "registers": {name: say.value(value) for name, value in start.items() if name != isa.pc},
        "memory": _told(_read_first(moments, begin), say),
        "fields": _fields(kernel, say, start, moments[: marks_at.get("callback", 0)]),
        "steps": _steps(moments, list(code), begin, say),
        "milestones": marks_at,
    }


def _stepped(
    kernel: Kernel, function: Function, arguments: tuple[int, ...], marks: dict[str, int]
) -> tuple[dict[str, int], list[Moment]]:
    """The call step by step: the registers at its start, and what each step did."""
    try:
        return _walk.walk(kernel.machine, function.address, *kernel.passed(arguments, marks, function.name))
    except TramplabError:
        boot(kernel.machine, kernel.cpus[0])  # the call may have ended with a guard held or preemption off
        raise


def _code(kernel: Kernel, run: Run, moments: list[Moment], say: Wording) -> tuple[list[list[str]], dict[int, list]]:
    """Each symbol with its component, and by address what the call executed."""
    symbols: dict[tuple[str, str], int] = {}
    code: dict[int, list] = {}
    for pc in dict.fromkeys(m.pc for m in moments):
        symbol, _, offset = (run.name_of(pc) or f"{pc:#x}").partition("+")
        index = symbols.setdefault((symbol, run.component_of(pc)), len(symbols))
        code[pc] = [index, int(offset or "0", 16), say.instruction(kernel.machine.instruction_at(pc).text, pc)]
    return [list(symbol) for symbol in symbols], code


def _steps(moments: list[Moment], code: list[int], begin: dict[int, int], say: Wording) -> list[list]:
    places = {pc: i for i, pc in enumerate(code)}
    return [
        [
            places[m.pc],
            {name: say.value(value) for name, value in m.changed.items()} | _told(across, say),
            _told(m.stores, say),
            [say.place(address, size) for address, size, _ in m.loads],
        ]
        for m, across in zip(moments, _across(moments, begin), strict=True)
    ]


def require_same(function: Function, stepped: list[int], run: Run) -> None:
    """Raise TramplabError unless a call made step by step ran the instructions of a recorded one."""
    if stepped != [s.pc for s in run.steps]:
        raise TramplabError(
            f"two calls of {function.name} did not run the same instructions; its state changed between."
        )


def milestones(run: Run) -> dict[str, int]:
    """Milestone -> the step at which a recorded call passes it, in order; found from the run itself.

    site: the function's first byte.
    save: the first trampoline instruction.
    callback: the first instruction of a callback.
    restore: the first trampoline instruction after the last callback.
    body: the first instruction of the function's own body; what the body itself calls is the body's.
    return: the instruction that returns to the caller.
    """
    parts = [run.component_of(s.pc) for s in run.steps]
    body = parts.index("function") if "function" in parts else len(parts) - 1
    before = parts[:body]
    last = max((i for i, part in enumerate(before) if part in ("core", "callback")), default=body)
    steps = {
        "site": 0,
        "save": _first(before, "trampoline", 0),
        "callback": _first(before, "callback", 0),
        "restore": _first(before, "trampoline", last),
        "body": body,
        "return": len(parts) - 1,
    }
    return {name: step for name, step in steps.items() if step is not None}


def _first(parts: list[str], wanted: str, start: int) -> int | None:
    return next((i for i in range(start, len(parts)) if parts[i] == wanted), None)


def _told(accesses: tuple[Access, ...], say: Wording) -> dict[str, str]:
    return {say.place(address, size): say.value(value) for address, size, value in accesses if value is not None}


def _start(moments: list[Moment]) -> dict[int, int]:
    """Bytes of memory at the start, as far as the call finds out: its loads from where it has not stored yet."""
    start: dict[int, int] = {}
    written: set[int] = set()
    for m in moments:
        for address, size, value in m.loads:
            if value is not None:
                bytes_ = enumerate(value.to_bytes(size, "little"), address)
                start = {**{at: byte for at, byte in bytes_ if at not in written}, **start}
        written |= {address + n for address, size, _ in m.stores for n in range(size)}
    return start


def _whole(held: Mapping[int, int], address: int, size: int) -> Access | None:
    """A place with the value that these bytes make; None if one of them is not known."""
    found = [held.get(address + n) for n in range(size)]
    return None if None in found else (address, size, int.from_bytes(bytes(b for b in found if b is not None), "little"))


def _read_first(moments: list[Moment], start: dict[int, int]) -> tuple[Access, ...]:
    """What the places held at the start that are loaded from before anything is stored just there."""
    first: dict[tuple[int, int], Access | None] = {}
    for m in moments:
        for address, size, _ in m.loads:
            first.setdefault((address, size), _whole(start, address, size))
        for address, size, _ in m.stores:
            first.setdefault((address, size), None)
    return tuple(access for access in first.values() if access)


def _across(moments: list[Moment], start: dict[int, int]) -> Iterator[tuple[Access, ...]]:
    """Per moment, the other places that its stores change, which are larger or smaller ones at the same bytes."""
    places = {(address, size) for m in moments for address, size, _ in (*m.stores, *m.loads)}
    held = dict(start)
    for m in moments:
        changed: list[Access | None] = []
        for address, size, value in m.stores:
            assert value is not None
            held |= dict(enumerate(value.to_bytes(size, "little"), address))
            others = [(a, n) for a, n in places if a < address + size and address < a + n and (a, n) != (address, size)]
            changed += [_whole(held, a, n) for a, n in sorted(others)]
        yield tuple(access for access in changed if access)


def _wording(kernel: Kernel, run: Run, moments: list[Moment], top: int, old: dict[int, str]) -> Wording:
    """Names for everything the call can meet, the ops pointers beside functions and behind trampolines included."""
    names = {
        r.site.literal: f"{r.site.function}-{r.site.entry - r.site.literal:#x}"
        for r in kernel.slowpath.records.values()
        if r.site.literal is not None
    }
    for ops in kernel.slowpath.everyone:
        literal = (ops.trampoline + ops.trampoline_size + 7) & ~7
        behind = ops.trampoline and kernel.image.component_at(ops.trampoline) is None  # made in the module area
        names |= {literal: f"ftrace_trampoline[{ops.index}]+{literal - ops.trampoline:#x}"} if behind else {}
        names |= ops.structs
    met = {m.pc for m in moments} | {kernel.machine.return_to}
    met |= {m.pc + kernel.machine.instruction_at(m.pc).size for m in moments}
    return Wording(top, old, names, met, run.name_of, kernel.machine.is_text)


def _fields(kernel: Kernel, say: Wording, start: dict[str, int], before: list[Moment]) -> dict[str, str]:
    """Place -> member of the registers that the first callback is handed, where these are an ftrace_regs on the stack."""
    registers = dict(start)
    for m in before:
        registers |= m.changed
    base = registers[kernel.isa.args[3]]
    if not kernel.features["args"] or not registers[kernel.isa.sp] <= base < start[kernel.isa.sp]:
        return {}
    structs = kernel.image.structs
    layout = structs["ftrace_regs"]
    whole = layout.fields.get("regs")
    if whole and not whole.elements:  # an ftrace_regs that is a pt_regs
        layout = structs["pt_regs"]
    fields = {}
    for name, field in layout.fields.items():
        for n in range(max(field.elements, 1)):
            label = f"{name}[{n}]" if field.elements else name
            fields[say.place(base + field.offset + 8 * n, 8)] = label
    return fields
