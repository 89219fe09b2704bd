"""What a patch changes: two kernels' looks side by side, as rows, and as a text of at most 72 columns to paste into a thread."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta

from ..base.entries import Entry, IsaName, Natural, Sha256, Text
from ..base.width import WIDTH
from ..vmlinux.results import differ

#: Functions that are named of a hook whose path changes.
_NAMED = 2
#: What look.looked() finds -> what it is called.
_SIZES = {"text": "bytes of functions", "sites": "patch sites"}
_NAMES = {
    "explored": "ways of patching, explored",
    "probes": "probes in a boot, instructions",
    "trials": "readings of trials in boots",
}


Value = int | float | str


class Part(Entry, frozen=True):
    """One thing that was looked at. compared: how many of it. changes: what differs, (name, before, after, and more words)."""

    name: Text
    compared: Natural
    changes: tuple[tuple[str, Value, Value, str], ...]

    @property
    def growth(self) -> float:
        """The most that a number grows by."""
        return max((b - a for _, a, b, _ in self.changes if not isinstance(a, str) and not isinstance(b, str)), default=0)


class Verdict(Entry, frozen=True):
    """Patches on a kernel: their files' names, the kernel's release and its compiler, the digests of what is booted without and
    with them, what differs, and what could not be looked at."""

    patches: Annotated[tuple[str, ...], Meta(min_length=1)]
    isa: IsaName
    release: Text
    compiler: Text
    before: Sha256
    after: Sha256
    parts: Annotated[tuple[Part, ...], Meta(min_length=1)]
    unseen: tuple[str, ...] = ()

    def part(self, name: str) -> Part:
        """The part of a name that has this in it."""
        return next(part for part in self.parts if name in part.name)


def parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Part]:
    """What differs between two kernels of one ISA, part by part; a part that was not looked at in both is not there."""
    hooks = differ.changes(before["result"], after["result"])
    changed = tuple((c.hook, *_instructions(c), _functions(c)) for c in hooks if c.differs)
    found = [
        *(_part(name, {"all": before[key]}, {"all": after[key]}) for key, name in _SIZES.items()),
        Part(name="hooks in the image, instructions", compared=sum(bool(c.before or c.after) for c in hooks), changes=changed),
    ]
    for key, name in _NAMES.items():
        if key in before and key in after:
            found.append(_part(name, before[key], after[key]))
    return found


def text(verdicts: Iterable[Verdict], room: int) -> list[str]:
    """The lines of verdicts. room: how many there may be; what is left out is counted."""
    lines: list[str] = []
    for most in range(room, 0, -1):
        lines = [line for v in verdicts for line in ("", f"{v.isa}, {v.compiler}", *_lines(v, most))]
        if len(lines) <= room:
            break
    return lines


def _lines(of: Verdict, most: int) -> Iterator[str]:
    for part in of.parts:
        changed = len(part.changes)
        said = [f"{part.compared} compared"] * (part.compared > 1) + [f"{changed or 'no'} change{'s' * (changed > 1)}"]
        yield f"  {part.name}: {', '.join(said + [f'the first {most}'] * (changed > most))}"
        for name, before, after, more in part.changes[:most]:
            half = (WIDTH - len(f"    {name}:  -> ")) // 2
            pair = " -> ".join(_cut(str(value), half) for value in (before, after))
            yield "    " + _cut(f"{name}: {pair}{f' ({more})' * bool(more)}", WIDTH - 4)
    wrapped = textwrap.TextWrapper(WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    for why in of.unseen:
        yield from wrapped.wrap(f"not looked at, {why}")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3].rstrip()}..."


def _part(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Part:
    return Part(name=name, compared=len(after), changes=tuple(_differing(before, after)))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, str]]:
    """(name, before, after, "") of what two have under a name and that is not the same; a list is shown item by item."""
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        pairs = [(one, other)]
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs = list(zip(one, other, strict=True))
        yield from ((name, _shown(a), _shown(b), "") for a, b in pairs if not _same(a, b))


def _same(one: object, other: object) -> bool:
    """Are two the same? What is below one instruction a call is a page of the ring buffer that begins elsewhere."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) < 1
    return one == other


def _shown(value: Any) -> Any:
    return " / ".join(map(str, value)) if isinstance(value, list) else "not there" if value is None else value


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
