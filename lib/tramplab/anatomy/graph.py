"""A call in the form of the function_graph tracer, with instructions where that has times; and two calls beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from ..base.width import WIDTH
from .tree import Box

#: A box, and how often it is there.
_Folded = tuple[Box, int]

HEADING = """\
#  INSNS     FUNCTION CALLS
#    |       |   |   |   |   !: its own return is mispredicted"""
TWO = """\
#     A      B    FUNCTION CALLS
#     |      |    |   |   |   |   !: they differ, -: not there"""


def graph_text(boxes: Iterable[Box]) -> str:
    """The boxes as lines of at most 72 columns: at the end of a function its instructions, those of what it calls included.

    What a function calls several times one after another, with the same instructions, is there once, with how often.
    """
    return "\n".join([HEADING, *_lines(boxes, 0)])


def compared_text(one: Iterable[Box], other: Iterable[Box]) -> str:
    """Two calls as one graph, with the instructions of each; functions are matched by name and order."""
    return "\n".join([TWO, *_two(_folded(one), _folded(other), 0)])


def _lines(level: Iterable[Box], depth: int) -> Iterator[str]:
    for box, times in _folded(level):
        counts = f"{'!' if box.mispredicted else ' '} {box.length:>5}"
        yield from _shown(counts, depth, box.name, _note(box, depth, times), list(_lines(box.inner, depth + 1)))


def _two(one: Sequence[_Folded], other: Sequence[_Folded], depth: int) -> Iterator[str]:
    for left, right in _pairs(one, other):
        box, times = left or right  # type: ignore[misc]  # there is one of them
        before, after = (_folded(found[0].inner) if found else [] for found in (left, right))
        same = left and right and _alike(left[0], right[0]) and left[1] == right[1]
        counts = "  ".join(f"{found[0].length:>5}" if found else "    -" for found in (left, right))
        note = f" /* x{left[1]}, x{right[1]} */" if left and right and left[1] != right[1] else _note(box, depth, times)
        yield from _shown(f"{' ' if same else '!'} {counts}", depth, box.name, note, list(_two(before, after, depth + 1)))


def _pairs(one: Sequence[_Folded], other: Sequence[_Folded]) -> Iterator[tuple[_Folded | None, _Folded | None]]:
    """The boxes of two levels in pairs: those of one function together, and in between those that one call alone has."""
    matcher = SequenceMatcher(None, [_source(box) for box, _ in one], [_source(box) for box, _ in other], autojunk=False)
    for how, a, a_end, b, b_end in matcher.get_opcodes():
        if how == "equal":
            yield from zip(one[a:a_end], other[b:b_end], strict=True)
        else:
            yield from ((found, None) for found in one[a:a_end])
            yield from ((None, found) for found in other[b:b_end])


def _source(box: Box) -> tuple[str, str]:
    """A box's function without what a compiler appends, such as .isra.0, and its component."""
    return box.name.split(".")[0], box.component


def _shown(counts: str, depth: int, name: str, note: str, inner: list[str]) -> list[str]:
    """The lines of a function, around those of what it calls."""
    if not inner:
        return [_line(counts, depth, name, f"();{note}")]
    return [_line(" " * len(counts), depth, name, f"() {{{note}"), *inner, _line(counts, depth, "", "}")]


def _line(counts: str, depth: int, name: str, text: str) -> str:
    start = f"{counts}  |  {'  ' * depth}"
    return start + _cut(name, WIDTH - len(start) - len(text)) + text


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: max(most - 3, 0)]}..."


def _note(box: Box, depth: int, times: int) -> str:
    """The text behind a name: at depth 0 the component, as one function may have boxes of two, and how often a box is there."""
    notes = [box.component] * (depth == 0) + [f"x{times}"] * (times > 1)
    return f" /* {', '.join(notes)} */" if notes else ""


def _folded(level: Iterable[Box]) -> list[_Folded]:
    """(box, number) for each row of equal boxes that follow one another."""
    found: list[_Folded] = []
    for box in level:
        if found and _alike(found[-1][0], box):
            found[-1] = box, found[-1][1] + 1
        else:
            found.append((box, 1))
    return found


def _alike(one: Box, other: Box) -> bool:
    return _shape(one) == _shape(other)


def _shape(box: Box) -> tuple:
    return _source(box), box.own, box.mispredicted, tuple(map(_shape, box.inner))
