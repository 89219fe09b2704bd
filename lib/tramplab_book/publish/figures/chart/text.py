"""Text that fits: numbers, broken lines, and labels moved apart."""

import itertools
import re
from collections.abc import Iterable

from .theme import CHARACTER


def number(value: float) -> str:
    """A number as the tables print it.

    >>> number(12.0), number(0.5), number(1 / 3)
    ('12', '0.50', '0.33')
    """
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def signed(value: float) -> str:
    """A change, with its sign: a minus as wide as the plus.

    >>> signed(3), signed(-0.5), signed(0)
    ('+3', '\N{MINUS SIGN}0.50', '0')
    """
    sign = "+" if value > 0 else "\N{MINUS SIGN}" if value < 0 else ""
    return sign + number(abs(value))


def width(text: str) -> float:
    """Pixels a label in one line may take, whatever sans-serif font a reader has."""
    return CHARACTER * len(text)


def widest(labels: Iterable[list[str]]) -> float:
    """Pixels the longest line of all labels may take."""
    return max(width(line) for lines in labels for line in lines)


def wrap(text: str, characters: int) -> list[str] | None:
    """The text in lines of at most `characters`, broken at spaces and after _ + - / , or None if a piece is longer.

    >>> wrap("ftrace_regs_caller x2", 12)
    ['ftrace_regs_', 'caller x2']
    >>> print(wrap("trampoline", 9))
    None
    """
    lines = [""]
    for piece in re.findall(r"[^ _+/,-]*[ _+/,-]|[^ _+/,-]+", text):
        if len(f"{lines[-1]}{piece}".rstrip()) > characters and lines[-1]:
            lines.append("")
        lines[-1] += piece
    lines = [line.strip() for line in lines]
    return lines if max(map(len, lines)) <= characters else None


def longest_piece(text: str) -> int:
    """The fewest characters a line must have for wrap() to succeed."""
    return next(n for n in range(len(text) + 1) if wrap(text, n))


def fit(text: str, characters: int) -> list[str]:
    """The text in lines of so many characters, or of as many as its longest piece has.

    >>> fit("retry in the trampoline", 8)
    ['retry in', 'the', 'trampoline']
    """
    lines = wrap(text, max(characters, longest_piece(text)))
    assert lines is not None  # the longest piece fits
    return lines


def spread(wanted: list[float], sizes: list[float], low: float, high: float) -> list[float]:
    """Centres of labels between `low` and `high` that do not overlap, as near to the wanted ones as can be.

    Labels that must yield share the move; order is kept, ties in the order given. The labels must fit in together.

    >>> spread([50, 50, 10], [20, 20, 20], 0, 100)
    [40.0, 60.0, 10.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    near = [(sizes[i] + sizes[j]) / 2 for i, j in itertools.pairwise(order)]
    offsets = [0, *itertools.accumulate(near)]  # from the first label's centre, where all stand close together
    groups: list[tuple[float, int]] = []  # (sum of what its labels want for the first label's centre, labels)
    for i, offset in zip(order, offsets, strict=True):
        group = (wanted[i] - offset, 1)
        while groups and groups[-1][0] / groups[-1][1] > group[0] / group[1]:
            before = groups.pop()
            group = (before[0] + group[0], before[1] + group[1])
        groups.append(group)
    first, last = low + sizes[order[0]] / 2, high - sizes[order[-1]] / 2 - offsets[-1]
    starts = [min(max(total / count, first), last) for total, count in groups for _ in range(count)]
    placed = {i: start + offset for i, start, offset in zip(order, starts, offsets, strict=True)}
    return [placed[i] for i in range(len(wanted))]
