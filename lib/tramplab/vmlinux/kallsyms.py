"""The kernel's own table of symbols, found in its data without knowing where it lies.

What scripts/kallsyms writes: the number of names, the names, each a length and that many tokens, a marker for each 256 of them,
the 256 tokens with an index, and for each name a 32-bit value. Three layouts of the values are known: distances from a base
that follows them (until about v6.4 it precedes the number of names, and so do they), the same with per-CPU symbols kept as
they are (x86-64), and, in newer kernels, distances from each entry to the place it names. Which one is there shows in the
values: the table is sorted by address.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

TOKENS, PER_MARKER = 256, 256
#: The tokens of the digits stand side by side in every table, as themselves.
_DIGITS = b"".join(b"%d\0" % n for n in range(10))
#: Names have at most so many tokens; from marker to marker there are at most that many bytes for each of 256.
_LONGEST = 1024
_FEWEST = 1000  # symbols: no kernel has less
_FARTHEST = 4 << 20  # bytes from the markers to the tokens


@dataclass(frozen=True)
class Named:
    """A symbol: its kind, as nm's letter, its name, and its value.

    value: its address, as far as the table knows: where its base is filled in at boot, or entries count from their own places,
    all are off by the same number of bytes.
    """

    kind: str
    name: str
    value: int


@dataclass(frozen=True)
class Table:
    """All symbols, in the order of the table; `layout` says in words how their values were kept."""

    symbols: tuple[Named, ...]
    layout: str


def read(data: bytes, address: int = 0) -> Table | None:
    """The table in these bytes; None if there is none, or none that is whole. address: of the first byte."""
    for start, behind, tokens in _token_tables(data):
        found = next(filter(None, (_names(data, *markers) for markers in _markers(data, start))), None)
        if not found:
            continue
        head, first, number = found
        placed = _values(data, head, behind, number, address)
        names = list(_expanded(data, first, number, tokens)) if placed else []
        if placed and len(names) == number:
            layout, values = placed
            return Table(tuple(Named(n[:1], n[1:], v) for n, v in zip(names, values, strict=True)), layout)
    return None


def _token_tables(data: bytes) -> Iterator[tuple[int, int, list[str]]]:
    """(where tokens begin, where their index ends, the tokens), wherever both agree."""
    at = data.find(_DIGITS)
    while at >= 0:
        end = at  # the digits are tokens 48 to 57
        for _ in range(TOKENS - ord("0")):
            end = data.find(b"\0", end) + 1
            if not end:
                return
        for align in (2, 4, 8):
            index = end + -end % align
            if index + 2 * TOKENS > len(data):
                return
            offsets = struct.unpack_from(f"<{TOKENS}H", data, index)
            start = at - offsets[ord("0")]
            parts = data[max(start, 0) : end].split(b"\0")[:TOKENS]
            if start >= 0 and len(parts) == TOKENS and _begin(parts) == list(offsets):
                yield start, index + 2 * TOKENS, [p.decode("latin-1") for p in parts]
                break
        at = data.find(_DIGITS, at + 1)


def _begin(parts: list[bytes]) -> list[int]:
    """Where each of these begins when a zero stands behind each."""
    at, out = 0, []
    for part in parts:
        out.append(at)
        at += len(part) + 1
    return out


def _markers(data: bytes, end: int) -> Iterator[tuple[int, list[int]]]:
    """Where markers may begin in front of `end`, and what they are, the nearest first: zero, then steps of 256 names each.

    Since v6.2, and in stable trees of v6.1, three bytes for each symbol lie between (an index for looking up by name), which may
    look like more markers.
    """
    first = max(0, end - _FARTHEST) & ~3
    words = np.frombuffer(data, "<u4", (end - first) // 4, first).astype(np.int64)
    steps = np.diff(words)
    breaks = np.flatnonzero((steps < 2 * PER_MARKER) | (steps > PER_MARKER * _LONGEST))
    for at in np.flatnonzero(words[:-1] == 0)[::-1].tolist():
        stop = int(breaks[np.searchsorted(breaks, at)]) if len(breaks) and breaks[-1] >= at else len(steps)
        if (stop + 1 - at) * PER_MARKER >= _FEWEST:
            yield first + 4 * at, words[at : stop + 1].tolist()


def _names(data: bytes, markers: int, values: list[int]) -> tuple[int, int, int] | None:
    """(where the number of names is, where the names begin, the number): those of a marker end where the next says."""
    most = len(values) * PER_MARKER
    low = max(0, markers - values[-1] - PER_MARKER * _LONGEST)
    for head in range(markers - values[1] & ~3, low, -4):
        number = int.from_bytes(data[head : head + 4], "little")
        if not _FEWEST <= number <= most:
            continue
        for first in (head + 8, head + 4):
            at = first
            for _ in range(PER_MARKER):
                at += sum(_length(data, at))
            if at == first + values[1]:
                return head, first, number
    return None


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A name's number of tokens, and of the bytes that say so: two where the first one's highest bit is set (since v6.1)."""
    first = data[at]
    return (first & 0x7F | data[at + 1] << 7, 2) if first & 0x80 else (first, 1)


def _expanded(data: bytes, at: int, number: int, tokens: list[str]) -> Iterator[str]:
    """Every symbol as its kind and name in one."""
    token = tokens.__getitem__
    for _ in range(number):
        length, head = _length(data, at)
        at += head
        if not length or at + length > len(data):
            return
        yield "".join(map(token, data[at : at + length]))
        at += length


def _values(data: bytes, head: int, behind: int, number: int, address: int) -> tuple[str, list[int]] | None:
    """How values are kept, and what they are: of the layouts that are known the one whose values are in order."""
    size = 4 * number
    early = head - 8 - (size + -size % 8)
    for at in (early, *(behind + -behind % 4 + n for n in (0, 4))):
        if at < 0 or at + size > len(data):
            continue
        raw = np.frombuffer(data, "<i4", number, at).astype(np.int64)
        base_at = head - 8 if at == early else at + size + -(at + size) % 8
        base = int.from_bytes(data[base_at : base_at + 8], "little")
        unsigned, own = raw & 0xFFFFFFFF, raw + 4 * np.arange(number)
        if raw[0] == 0 and _in_order(unsigned):  # the base is the lowest symbol
            return "distances from a base", [base + v for v in unsigned.tolist()]
        if raw[0] == 0 and (raw < 0).any() and _in_order(-1 - raw[raw < 0]):
            return "distances from a base, per-CPU symbols as they are", [v if v >= 0 else base - 1 - v for v in raw.tolist()]
        if _in_order(own):
            return "distances from their own places", [address + at + v for v in own.tolist()]
    return None


def _in_order(values: np.ndarray) -> bool:
    """A table's values are, but for a few symbols that have no place in the text."""
    return len(values) > 1 and float((np.diff(values) >= 0).mean()) > 0.999 and int(values.max()) > int(values.min())
