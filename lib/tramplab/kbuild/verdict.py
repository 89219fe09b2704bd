"""What a patch changes: two kernels' looks side by side, as rows, and as a text of at most 72 columns to paste into a thread."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..base.width import WIDTH
from ..vmlinux.results import differ

#: Functions that are named of a hook whose path changes.
_NAMED = 2
#: What look.looked() finds -> what it is called.
_SIZES = {"text": "bytes of text", "sites": "patch sites"}
_NAMES = {
    "explored": "ways of patching, explored",
    "probes": "probes in a boot, instructions",
    "trials": "readings of trials in boots",
}


@dataclass(frozen=True)
class Part:
    """One thing that was looked at. compared: how many of it. changes: what differs, (name, before, after, and more words)."""

    name: str
    compared: int
    changes: tuple[tuple[str, Any, Any, str], ...]

    @property
    def growth(self) -> int:
        """The most that a number grows by."""
        return max((after - before for _, before, after, _ in self.changes if _numbers(before, after)), default=0)


def parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Part]:
    """What differs between two kernels of one ISA, part by part; a part that was not looked at in both is not there."""
    hooks = differ.changes(before["result"], after["result"])
    changed = tuple((c.hook, *_instructions(c), _functions(c)) for c in hooks if c.differs)
    found = [
        *(Part(name, 1, tuple(_differing({"all": before[key]}, {"all": after[key]}))) for key, name in _SIZES.items()),
        Part("hooks in the image, instructions", len(hooks), changed),
    ]
    for key, name in _NAMES.items():
        if key in before and key in after:
            found.append(Part(name, len(after[key]), tuple(_differing(before[key], after[key]))))
    return found


def text(of: Mapping[str, tuple[str, list[Part]]], room: int) -> list[str]:
    """The lines of a verdict: ISA -> (its compiler, what differs). room: how many there may be; what is left out is counted."""
    lines: list[str] = []
    for most in range(room, 0, -1):
        lines = [line for isa, (compiler, found) in of.items() for line in ("", f"{isa}, {compiler}", *_lines(found, most))]
        if len(lines) <= room:
            break
    return lines


def _lines(found: Iterable[Part], most: int) -> Iterator[str]:
    for part in found:
        changed = len(part.changes)
        said = [f"{part.compared} compared"] * (part.compared > 1) + [f"{changed or 'no'} change{'s' * (changed > 1)}"]
        yield f"  {part.name}: {', '.join(said + [f'the first {most}'] * (changed > most))}"
        for name, before, after, more in part.changes[:most]:
            line = f"{name}: {before} -> {after}{f' ({more})' * bool(more)}"
            yield "    " + textwrap.shorten(line, WIDTH - 4, break_on_hyphens=False, placeholder=" ...")


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, str]]:
    """(name, before, after, "") of what two have under a name and that is not the same; a list is shown item by item."""
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            yield from ((name, a, b, "") for a, b in zip(one, other, strict=True) if a != b)
        elif one != other:
            yield name, _shown(one), _shown(other), ""


def _shown(value: Any) -> Any:
    return " / ".join(value) if isinstance(value, list) else "not there" if value is None else value


def _instructions(change: differ.Change) -> tuple[Any, Any]:
    counts = [of["instructions"] if of else "not measured" for of in (change.before, change.after)]
    return counts[0], counts[1]


def _functions(change: differ.Change) -> str:
    """The functions whose share changed most, in words; else what has changed without the number."""
    if not (change.before and change.after):
        return change.said
    if change.symbols:
        shown = [f"{name} {before} -> {after}" for name, before, after in change.symbols[:_NAMED]]
        return ", ".join(shown) + ", ..." * (len(change.symbols) > _NAMED)
    return ", ".join(
        f"{heading} {change.before[name]} -> {change.after[name]}"
        for name, heading in differ.FIELDS.items()
        if change.before.get(name) != change.after.get(name)
    )


def _numbers(*values: object) -> bool:
    return all(isinstance(value, int | float) for value in values)
