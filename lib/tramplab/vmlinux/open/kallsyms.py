"""The kernel's own table of symbols, found in its data without knowing where it lies.

What scripts/kallsyms.c writes: the number of names, the names, each a length and that many tokens, a marker for each 256 of them,
the 256 tokens with an index, and for each name a value. The values come first, until v6.3, or last. Four kinds are known: 64-bit
addresses, and in 32 bits distances from a base that follows them, the same with per-CPU symbols kept as they are (x86-64), and
distances from each entry's own place to the place it names. Which kind it is shows in the values: the table is sorted by address.
Markers have 32 bits, as since v4.20.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

_TOKENS, _PER_MARKER = 256, 256
#: The tokens of the digits stand side by side in every table, as themselves.
_DIGITS = b"".join(b"%d\0" % n for n in range(10))
#: Bytes of a name with the zero after it, or with the letter of its kind in front, and so tokens, and those of a token:
#: KSYM_NAME_LEN of include/linux/kallsyms.h, up to v6.0 128.
LONGEST = 512
_RATIO = 8  # characters of all names to bytes of all there is; in kernels there are fewer than bytes
_STEP = LONGEST + 2  # bytes of a name's tokens with their number
_FEWEST = 1000  # symbols: no kernel has less
_FARTHEST = 4 << 20  # bytes from the markers to the tokens
_TRIES = 50  # places of each kind that are looked at; in a kernel the first ones are right
_KERNEL = 1 << 63  # addresses from here on are the kernel's


@dataclass(frozen=True)
class Table:
    """All symbols, in the order of the table, which is that of their addresses.

    layout: in words how values were kept.
    based: does the table say itself for which addresses the kernel was linked? If not, values count from where the data was said
        to lie. That of a per-CPU symbol of x86-64 may count from the CPU's own area, in any case.
    """

    names: list[str]
    values: list[int]
    layout: str
    based: bool


def read(data: bytes | bytearray, address: int = 0) -> Table | None:
    """The table in these bytes; None if there is none, or none that is whole. address: of the first byte."""
    for start, behind, tokens in itertools.islice(_token_tables(data), _TRIES):
        for at, markers in itertools.islice(_markers(data, start), _TRIES):
            for head, first, number in itertools.islice(_heads(data, at, markers), _TRIES):
                names = _names(data, first, markers[: -(-number // _PER_MARKER)], number, tokens)
                placed = _values(data, head, behind, number, address) if names else None
                if names and placed:
                    return Table(names, *placed)
    return None


def _token_tables(data: bytes | bytearray) -> Iterator[tuple[int, int, list[str]]]:
    """(where tokens begin, where their index ends, the tokens), wherever both agree."""
    at = -1
    for _ in range(_TRIES):
        at = end = data.find(_DIGITS, at + 1)
        for _ in range(_TOKENS - ord("0")):  # the digits are tokens 48 to 57
            end = data.find(b"\0", end) + 1 if end >= 0 else 0
            if not end:
                return
        for align in (2, 4, 8):
            index = end + -end % align
            if index + 2 * _TOKENS > len(data):
                break
            offsets = struct.unpack_from(f"<{_TOKENS}H", data, index)
            start = at - offsets[ord("0")]
            parts = bytes(data[max(start, 0) : end]).split(b"\0")[:_TOKENS]
            if start >= 0 and _begin(parts) == offsets and max(map(len, parts)) <= LONGEST:
                yield start, index + 2 * _TOKENS, [p.decode("latin-1") for p in parts]
                break


def _begin(parts: list[bytes]) -> tuple[int, ...]:
    """The offset at which each of these begins when they follow each other with a zero behind each."""
    return tuple(itertools.accumulate((len(p) + 1 for p in parts[:-1]), initial=0))


def _markers(data: bytes | bytearray, end: int) -> Iterator[tuple[int, list[int]]]:
    """(offset, markers) of what may be the markers in front of `end`, the nearest first: zero, then steps of 256 names each.

    From v6.2 to v6.3, and in stable trees of v6.1, three or four bytes for each symbol lie between (an index for looking up by
    name), which may look like more markers.
    """
    first = max(0, end - _FARTHEST) & ~3
    words = np.frombuffer(data, "<u4", (end - first) // 4, first).astype(np.int64)
    steps = np.diff(words)
    breaks = np.flatnonzero((steps < 2 * _PER_MARKER) | (steps > _PER_MARKER * _STEP))
    for at in np.flatnonzero(words[:-1] == 0)[::-1].tolist():
        stop = int(breaks[np.searchsorted(breaks, at)]) if len(breaks) and breaks[-1] >= at else len(steps)
        if (stop + 1 - at) * _PER_MARKER >= _FEWEST:
            yield first + 4 * at, words[at : stop + 1].tolist()


def _heads(data: bytes | bytearray, markers: int, values: list[int]) -> Iterator[tuple[int, int, int]]:
    """(where the number of names may be, where the names begin, the number): names of so many markers end before the markers.

    Among the names there are hundreds of words that may be such a number, so those come first that leave the fewest markers over.
    """
    low = max(0, markers - values[-1] - _PER_MARKER * _STEP) + 3 & ~3
    words = np.frombuffer(data, "<u4", max(0, markers - low) // 4, low).astype(np.int64)
    number = np.clip(words, _FEWEST, len(values) * _PER_MARKER)
    needed = -(-number // _PER_MARKER)
    room = markers - low - 4 * np.arange(len(words)) - np.array(values)[needed - 1]
    near = np.flatnonzero((number == words) & (room > 4) & (room <= 8 + _PER_MARKER * _STEP))[::-1]
    for n in near[np.argsort(-needed[near], kind="stable")].tolist():
        head = low + 4 * n
        yield from ((head, first, int(words[n])) for first in (head + 8, head + 4))


def _names(data: bytes | bytearray, first: int, markers: list[int], number: int, tokens: list[str]) -> list[str] | None:
    """Every symbol's name, without the letter of its kind in front; None where they are not as the markers say.

    A length has two bytes where the first one's highest bit is set (since v6.1).
    """
    names: list[str] = []
    token, at, room = tokens.__getitem__, first, _RATIO * len(data)
    try:
        for n in range(number):
            if n % _PER_MARKER == 0 and at - first != markers[n // _PER_MARKER]:
                return None
            length = data[at]
            at += 1
            if length & 0x80:
                length = length & 0x7F | data[at] << 7
                at += 1
            name = "".join(map(token, data[at : at + length])) if length <= LONGEST else ""
            at, room = at + length, room - len(name)
            if not 0 < len(name) <= LONGEST or room < 0:
                return None
            names.append(name[1:])
    except IndexError:  # the data ends
        return None
    return names if at <= len(data) else None


def _values(data: bytes | bytearray, head: int, behind: int, number: int, address: int) -> tuple[list[int], str, bool] | None:
    """The values of symbols, how they are stored, and whether they are addresses: of the known forms, the one that is in order."""
    size = 4 * number
    early = head - 8 - (size + -size % 8)
    for at in (early, *(behind + -behind % 4 + n for n in (0, 4))):
        if at < 0 or at + size > len(data):
            continue
        raw = np.frombuffer(data, "<i4", number, at).astype(np.int64)
        base_at = head - 8 if at == early else at + size + -(at + size) % 8
        base = int.from_bytes(data[base_at : base_at + 8], "little")
        unsigned, relative = raw & 0xFFFFFFFF, raw + 4 * np.arange(number)
        whole = base_at + 8 <= len(data)
        if whole and raw[0] == 0 and _in_order(unsigned):  # the base is the lowest symbol
            return [base + v for v in unsigned.tolist()], "distances from a base", base >= _KERNEL
        if whole and raw[0] in (0, -1) and raw.min() < 0 and _in_order(-1 - raw[raw < 0]):
            values = [v if v >= 0 else base - 1 - v for v in raw.tolist()]
            return values, "distances from a base, per-CPU symbols as they are", base >= _KERNEL
        if at != early and raw[0] < 0 and _in_order(relative):  # the table lies behind the text
            return [address + at + v for v in relative.tolist()], "distances from their own places", False
    for at in (head - 2 * size, behind + -behind % 8):
        if at >= 0 and at + 2 * size <= len(data):
            words = np.frombuffer(data, "<u8", number, at)
            if words[-1] >= _KERNEL and _in_order(words):
                return words.tolist(), "addresses", True
    return None


def _in_order(values: np.ndarray) -> bool:
    """Are values in order, as a table's are but for a few symbols that have no place in the text?"""
    return len(values) > 1 and values[-1] > values[0] and float((values[1:] >= values[:-1]).mean()) > 0.999
