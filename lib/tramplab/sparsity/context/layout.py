"""Where a light structure has what a program takes for a field of struct pt_regs: at an offset, as a constant, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...base.errors import unknown
from ...build.dwarf import Struct
from ..structures.classify import CONSTANT, DERIVED, GARBAGE, TRUE

#: What a slot holds where it was found by running.
VERDICTS = (TRUE, DERIVED, CONSTANT, GARBAGE)
_WHY = {CONSTANT: "its slot holds a constant and not the register", GARBAGE: "nobody fills its slot"}


@dataclass(frozen=True)
class Slot:
    """One scalar of a struct, "regs[3]" of an array: offset and size in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class At:
    """The place of a slot that the light structure has: its offset in bytes."""

    offset: int


@dataclass(frozen=True)
class Always:
    """The place of a slot for which the provider guarantees a value, as wide as the slot."""

    value: int


@dataclass(frozen=True)
class Nowhere:
    """The place of a slot that nobody provides, and why."""

    why: str


Place = At | Always | Nowhere


@dataclass(frozen=True)
class Layout:
    """The places of the slots of a pt_regs in a light structure.

    places: every slot of pt_regs, by offset, and where it is.
    context: bytes of pt_regs.
    size: bytes of the light structure.
    """

    places: tuple[tuple[Slot, Place], ...]
    context: int
    size: int

    def covering(self, offset: int, size: int) -> list[tuple[Slot, Place]]:
        """The slots that these bytes of pt_regs touch."""
        return [(s, p) for s, p in self.places if s.offset < offset + size and offset < s.offset + s.size]

    def as_it_was(self, offset: int, size: int) -> bool:
        """Are these bytes, as far as slots have them, where pt_regs has them?"""
        return offset + size <= self.size and all(p == At(s.offset) for s, p in self.covering(offset, size))

    @property
    def whole(self) -> bool:
        """Is the structure a pt_regs of which every slot is filled?"""
        return self.as_it_was(0, self.context)


def slots(struct: Struct) -> tuple[Slot, ...]:
    """Every scalar of a struct by its offset, elements of arrays one by one."""
    all_slots = []
    for name, f in struct.fields.items():
        each = f.size // f.elements if f.elements else f.size
        all_slots += [
            Slot(f"{name}[{n}]" if f.elements else name, f.offset + n * each, each) for n in range(f.elements or 1)
        ]
    return tuple(sorted(all_slots, key=lambda s: s.offset))


def light_slots(light: Struct, pt_regs: Struct) -> tuple[Slot, ...]:
    """The slots of a light structure; of x86-64's ftrace_regs, which is a pt_regs with another name, those of the pt_regs."""
    members = [(f.offset, f.size, f.elements) for f in light.fields.values()]
    return slots(pt_regs if members == [(0, pt_regs.size, 0)] else light)


def layout(
    pt_regs: Struct,
    light: Struct,
    filled: Mapping[str, str],
    renamed: Mapping[str, str] | None = None,
    promised: Mapping[str, int] | None = None,
) -> Layout:
    """The layout of a light structure.

    filled: what its slots hold, one of VERDICTS by the slot's name in the light structure; one of which nothing is said is garbage.
    renamed: pt_regs' name of a slot -> the light structure's, where they differ; a structure that is a pt_regs renames nothing.
    promised: constants that a provider vouches for, by pt_regs' names; they go before slots. Raises TramplabError for a verdict or
    a name that there is not.
    """
    light_slot = {s.name: s for s in light_slots(light, pt_regs)}
    wanted = slots(pt_regs)
    names, promised = [s.name for s in wanted], promised or {}
    renamed = {} if renamed is None or list(light_slot) == names else renamed
    for kind, given, known in (
        (f"slot of {light.name}", [*filled, *renamed.values()], list(light_slot)),
        ("slot of pt_regs", [*renamed, *promised], names),
        ("verdict", list(filled.values()), list(VERDICTS)),
    ):
        for name in given:
            if name not in known:
                raise unknown(kind, name, known)

    def place(slot: Slot) -> Place:
        if slot.name in promised:
            return Always(promised[slot.name] & (1 << 8 * slot.size) - 1)
        slot_in_light = light_slot.get(renamed.get(slot.name, slot.name))
        if slot_in_light is None or slot_in_light.size != slot.size:
            return Nowhere(f"{light.name} has no slot for it")
        verdict = filled.get(slot_in_light.name, GARBAGE)
        return At(slot_in_light.offset) if verdict in (TRUE, DERIVED) else Nowhere(_WHY[verdict])

    return Layout(tuple((s, place(s)) for s in wanted), pt_regs.size, light.size)


def whole(pt_regs: Struct) -> Layout:
    """The layout of a pt_regs that is filled."""
    return Layout(tuple((s, At(s.offset)) for s in slots(pt_regs)), pt_regs.size, pt_regs.size)
