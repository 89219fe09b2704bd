"""A kernel's own list of its pointers: where it is linked to lie, by that, and its pointers as they are then.

A kernel that can be moved at boot carries a list of the pointers to adjust: RELA, three words each, place, kind and pointer (what
lies at the place may be zero), or RELR, addresses and bitmaps, with the pointers in their places. What RELR cannot say stands as
RELA right in front of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

#: Per ISA: the kind of a RELA entry that says "add the distance moved" (R_*_RELATIVE).
_RELATIVE = {"x86_64": 8, "arm64": 1027, "riscv64": 3}
_ENTRY = 3  # words of a RELA entry
_FEWEST, _MOST = 1000, 1 << 20  # entries or words of a list that is not known by name: a kernel has tens of thousands
_TRIES = 10  # runs of words that may be RELR
_SAMPLE = 4000  # places by which the link address is told
_MEANT = 0.1  # of all words that may be pointers so many lead to symbols; by a wrong address it is a third of that at most
_MIXED = 50  # of so many words of RELR at least one is an address, and one a bitmap
_HIGHEST = 1 << 11  # no kind of relocation has a higher number
_KERNEL = np.uint64(0xFF00 << 48)  # addresses from here on are the kernel's


@dataclass(frozen=True)
class Relocations:
    """The list of relocations of an image.

    kind: "RELA" or "RELR".
    places: addresses, as linked, of the pointers.
    adjusted: places that RELA entries name.
    pointers: what is to be at each of these.
    """

    kind: str
    places: np.ndarray
    adjusted: np.ndarray
    pointers: np.ndarray


def find(data: bytes | memoryview, isa: str) -> Relocations | None:
    """The relocations in what is loaded of a kernel; None if there are none."""
    words = np.frombuffer(data, "<u8", len(data) // 8)
    return _rela(words, _RELATIVE[isa]) or _relr(words, _RELATIVE[isa])


def listed(data: bytes, isa: str) -> Relocations:
    """The relocations in a section of RELA; symbols are ignored."""
    table = np.frombuffer(data, "<u8", len(data) // 24 * _ENTRY).reshape(-1, _ENTRY)
    return _of_rela(table[table[:, 1] == _RELATIVE[isa]])


def linked(data: bytes, found: Relocations, align: int, offset: int) -> int | None:
    """The address of the image's first byte that fits its relocations best: a multiple of align plus offset; None if none does."""
    step = max(1, len(found.places) // _SAMPLE)
    places = np.sort(found.places[::step])
    pointers = found.pointers[::step] if found.kind == "RELA" else None
    at = found.places[::step]
    lowest, highest = int(places[len(places) // 100]), int(places[-1 - len(places) // 100])  # a few may be none
    first = max(highest + 8 - len(data), int(_KERNEL)) - offset
    candidates = range(-(-first // align) * align + offset, lowest + 1, align)
    words = np.frombuffer(data, "<u8", len(data) // 8)
    scores = {base: _fits(words, at, pointers, base) for base in candidates}
    best = max(scores, key=lambda base: scores[base], default=None)
    return best if best is not None and scores[best] > 0.5 else None


def pointed(data: bytes, symbols: Iterable[int], align: int, offset: int) -> int | None:
    """The address of the first byte of an image without relocations, whose pointers are as linked: that by which most of them lead
    to symbols; None if too few do. symbols: their distances from the image's first byte. align, offset: as for linked()."""
    words, known = np.frombuffer(data, "<u8", len(data) // 8), np.unique(np.array(list(symbols), np.uint64))
    words = words[words >= _KERNEL]
    if len(words) < _FEWEST:
        return None
    words = words[:: max(1, len(words) // _SAMPLE)]
    blocks, counts = np.unique((words - np.uint64(offset)) // np.uint64(align), return_counts=True)
    bases = [int(block) * align + offset for block, count in zip(blocks, counts, strict=True) if count * _MIXED >= len(words)]
    scores = {base: float(np.isin(words - np.uint64(base), known).mean()) for base in bases}
    best = max(scores, key=lambda base: scores[base], default=None)
    return best if best is not None and scores[best] > _MEANT else None


def adjust(data: bytes | memoryview, found: Relocations, base: int) -> bytearray:
    """A copy of bytes that lie at `base` as they were linked, with the pointers of RELA entries put in their places. Entries in
    front of RELR were found by where they stand, so their pointers replace nothing but zero."""
    out = bytearray(data)
    into = np.frombuffer(out, np.uint8)
    at = (found.adjusted - np.uint64(base)).astype(np.int64)
    inside = (at >= 0) & (at <= len(out) - 8)
    spread, pointers = at[inside][:, None] + np.arange(8), found.pointers[inside].astype("<u8").view(np.uint8).reshape(-1, 8)
    free = ~into[spread].any(axis=1) if found.kind == "RELR" else slice(None)
    into[spread[free]] = pointers[free]
    return out


def _fits(words: np.ndarray, places: np.ndarray, pointers: np.ndarray | None, base: int) -> float:
    """The share of the words at these places that are as they should be: for RELR a pointer into the image; for RELA zero, or the
    pointer."""
    at = (places - np.uint64(base)).astype(np.int64) // 8
    now = words[np.clip(at, 0, len(words) - 1)]
    right = (now - np.uint64(base)) < np.uint64(16 * len(words)) if pointers is None else (now == 0) | (now == pointers)
    return float((right & (at >= 0) & (at < len(words))).mean())


def _of_rela(table: np.ndarray) -> Relocations:
    places, pointers = table[:, 0].copy(), table[:, 2].copy()
    return Relocations("RELA", places, places, pointers)


def _rela(words: np.ndarray, relative: int) -> Relocations | None:
    """The longest run of entries of this kind, at any of the three places a run can begin."""
    places = [(0, 0)]
    for phase in range(_ENTRY):
        table = words[phase : phase + (len(words) - phase) // _ENTRY * _ENTRY].reshape(-1, _ENTRY)
        runs = _runs((table[:, 1] == relative) & (table[:, 0] >= _KERNEL), _FEWEST)
        places += [(length, phase + _ENTRY * start) for start, length in runs]
    length, start = max(places)
    return _of_rela(words[start : start + _ENTRY * length].reshape(-1, _ENTRY)) if length else None


def _relr(words: np.ndarray, relative: int) -> Relocations | None:
    """The list with most places, in the longest runs of addresses of the kernel's half and bitmaps (odd words)."""
    odd = words.view(np.uint8)[::8] & 1 == 1
    address = ~odd & (words >= _KERNEL)
    start, places = 0, np.zeros(0, np.uint64)
    for at, length in sorted(_runs(address | odd, _FEWEST), key=lambda run: -run[1])[:_TRIES]:
        run, addresses = words[at : at + length], address[at : at + length]
        if length <= _MOST and min(count := int(addresses.sum()), length - count) * _MIXED >= length:
            first, last = _longest(run, addresses, 8 * len(words))
            first += int(words[at + first - 1] == relative)  # the last pointer of RELA
            unpacked = _unpacked(run[first:last], addresses[first:last])
            if len(unpacked) > max(len(places), _FEWEST):
                start, places = at + first, unpacked
    rest = _in_front(words, start, relative)
    return Relocations("RELR", places, rest[:, 0].copy(), rest[:, 2].copy()) if len(places) else None


def _longest(run: np.ndarray, address: np.ndarray, size: int) -> tuple[int, int]:
    """The start and the end of the longest list: each of its addresses lies behind the one before, by less than the image's
    size."""
    at = np.flatnonzero(address)
    rises = np.diff(run[at]) - np.uint64(1) < np.uint64(size)
    begins = np.concatenate((at[:1], at[1:][~rises], [len(run)]))
    longest = int(np.diff(begins).argmax())
    return int(begins[longest]), int(begins[longest + 1])


def _unpacked(run: np.ndarray, address: np.ndarray) -> np.ndarray:
    """The places that addresses and bitmaps stand for; a bitmap's 63 bits are for the words behind those already told."""
    at = np.arange(len(run))
    last = np.maximum.accumulate(np.where(address, at, 0))
    firsts = run[last] + (8 + 8 * 63 * (at - last - 1)).astype(np.uint64)
    which, bit = np.nonzero(np.unpackbits(run[~address].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")[:, 1:])
    return np.concatenate((run[address], firsts[~address][which] + (8 * bit).astype(np.uint64)))


def _in_front(words: np.ndarray, end: int, relative: int) -> np.ndarray:
    """The entries of this kind in a RELA table that ends here; those that the linker had no use for in the end are zero."""
    table = words[end % _ENTRY : end].reshape(-1, _ENTRY)[-_MOST:]
    entry = (table[:, 0] >= _KERNEL) & (table[:, 1] & 0xFFFFFFFF <= _HIGHEST) | ~table.any(axis=1)
    other = np.flatnonzero(~entry)
    table = table[other[-1] + 1 if len(other) else 0 :]
    return table[table[:, 1] == relative]


def _runs(true: np.ndarray, least: int) -> list[tuple[int, int]]:
    """(start, length) of each run of at least so many True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], true.astype(np.int8), [0]))))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    long = lengths >= least
    return list(zip(starts[long].tolist(), lengths[long].tolist(), strict=True))
