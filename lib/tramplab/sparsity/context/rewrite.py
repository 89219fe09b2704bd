"""The rewriter: a program for struct pt_regs made one for a light structure, or refused. Nothing is added to it: the offset of an
access changes in place, or a load of what is always the same becomes a move of that constant.

The pointer that a program was given stays the pointer to the structure, and what it adds to it stays; so the offset of an access
takes up the whole difference. A part of a slot is read at the slot's new place, which is the same part, as all three ISAs are
little-endian; the kernel's own conversion of contexts loads the whole and adds a shift and a mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .arithmetic import loaded, signed
from .encoding import ALU, ALU64, MEMSX, OPERATIONS, Instruction, Program
from .helpers import IDENTITY
from .helping import Handed, Through
from .layout import Always, At, Layout, Nowhere, Slot
from .refusal import HELPER, OUTSIDE, PATHS, RANGE, SPLIT, THROUGH, UNFILLED, Refusal, Refused
from .text import shown
from .verify import Elsewhere, Read, Use, verify


@dataclass(frozen=True)
class Change:
    """One instruction that is another one now: its slot in the program, both, and the slots of pt_regs that it reads."""

    at: int
    before: Instruction
    after: Instruction
    slots: tuple[str, ...]


@dataclass(frozen=True)
class Rewritten:
    """The program for the light structure, of the same length, and what changed. reads: the slots of pt_regs that it reads."""

    program: Program
    changes: tuple[Change, ...]
    reads: tuple[str, ...]


def rewrite(program: Program, layout: Layout) -> Rewritten | Refused:
    """A program for another layout; raises TramplabError for one that uses what is outside the subset."""
    found = verify(program, layout.context)
    if isinstance(found, Refused):
        return found
    uses = [(at, i, _in_order(found[at])) for at, i in enumerate(program) if i is not None and at in found]
    wanted: dict[int, Instruction] = {}
    for step in (_in_fields, _wanted):  # what lies in the program comes before what lies in the layout
        for at, i, of in uses:
            try:
                wanted[at] = _agreed({step(i, use, layout) for use in of})
            except Refusal as e:
                return e.at(at, shown(i))
    touched = {at: tuple(dict.fromkeys(s.name for use in of for s in _slots(use, layout))) for at, _, of in uses}
    changes = tuple(Change(at, i, wanted[at], touched[at]) for at, i, _ in uses if wanted[at] != i)
    new = tuple(wanted.get(at, i) for at, i in enumerate(program))
    return Rewritten(new, changes, tuple(dict.fromkeys(name for names in touched.values() for name in names)))


def _in_order(uses: set[Use]) -> list[Use]:
    """The uses in an order that does not change, so that of two reasons to refuse always the same is given."""
    return sorted(uses, key=repr)


def _in_fields(i: Instruction, use: Use, layout: Layout) -> Instruction:
    """The same instruction; Refusal where a helper is sent past the end of pt_regs, or a load reads what is between its fields."""
    if isinstance(use, Through) and not 0 <= use.offset <= layout.context - use.size:
        raise Refusal(OUTSIDE, f"reads {use.size} bytes at {use.offset} of a context of {layout.context}")
    if isinstance(use, Read):
        first, end = use.offset, use.offset + use.size
        if sum(min(s.offset + s.size, end) - max(s.offset, first) for s in _slots(use, layout)) < use.size:
            raise Refusal(OUTSIDE, f"reads {use.size} bytes at {use.offset} of pt_regs, where no field has them all")
    return i


def _slots(use: Use, layout: Layout) -> list[Slot]:
    if isinstance(use, Read | Through):
        return [slot for slot, _ in layout.covering(use.offset, use.size)]
    return []


def _agreed(wanted: set[Instruction]) -> Instruction:
    """The instruction that all paths agree on."""
    if len(wanted) > 1:
        raise Refusal(PATHS, f"must be {' on one path and '.join(sorted(repr(shown(i)) for i in wanted))} on another")
    return next(iter(wanted))


def _wanted(i: Instruction, use: Use, layout: Layout) -> Instruction:
    """The instruction that one of its uses needs."""
    match use:
        case Elsewhere():
            return i
        case Handed():
            if use.role != IDENTITY and not layout.whole:
                raise Refusal(HELPER, f"{use.helper.name} {use.helper.does}, for which it needs a filled pt_regs")
            return i
        case Through():
            return _through(i, use, layout)
    return _read(i, use, layout)


def _through(i: Instruction, use: Through, layout: Layout) -> Instruction:
    """The same instruction, if what a helper is sent for is where it was; else Refusal."""
    if layout.as_it_was(use.offset, use.size):
        return i
    _filled(use, layout)
    raise Refusal(THROUGH, f"{use.helper.name} reads {use.size} bytes at {use.offset} of pt_regs by itself, and they are elsewhere")


def _filled(use: Read | Through, layout: Layout) -> None:
    for slot, place in layout.covering(use.offset, use.size):
        if isinstance(place, Nowhere):
            raise Refusal(UNFILLED, f"reads {slot.name} of pt_regs: {place.why}", slot.name)


def _read(i: Instruction, use: Read, layout: Layout) -> Instruction:
    covering = layout.covering(use.offset, use.size)
    _filled(use, layout)
    (slot, place), *more = covering
    if isinstance(place, Always) and not more:
        return _constant(i, slot, place.value, use.offset - slot.offset)
    by = {p.offset - s.offset if isinstance(p, At) else None for s, p in covering}
    if len(by) > 1 or None in by:
        raise Refusal(SPLIT, f"reads {' and '.join(s.name for s, _ in covering)} of pt_regs at once, which lie apart")
    assert isinstance(place, At)
    off = use.offset + place.offset - slot.offset - use.moved
    if off == i.off:
        return i
    if not -(1 << 15) <= off < 1 << 15:
        raise Refusal(RANGE, f"would need the offset {off}, which 16 bits do not hold", slot.name)
    return replace(i, off=off)


def _constant(i: Instruction, slot: Slot, value: int, skip: int) -> Instruction:
    """A move of what a load of a part of a constant gives: 32 bits that are extended with zeros, or 64 with their sign."""
    part = (value >> 8 * skip & (1 << 8 * i.size) - 1).to_bytes(i.size, "little")
    held = loaded(part, i.mode == MEMSX)
    if held < 1 << 32:
        return Instruction(ALU | OPERATIONS["="], i.dst, imm=signed(held, 32))
    if held >= (1 << 64) - (1 << 31):
        return Instruction(ALU64 | OPERATIONS["="], i.dst, imm=signed(held, 64))
    raise Refusal(RANGE, f"would need the constant {held:#x}, which no move of 32 bits makes", slot.name)
