"""Where a flat kernel image is linked to lie, from its own relocations, and its pointers as they are then.

A kernel that can be moved at boot carries a list of the pointers to mend: RELA, three words each, of which the last is the
pointer (the word in the image may be zero), or RELR, addresses and bitmaps, with the pointers in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ENTRY = 3  # words of a RELA entry: place, kind, pointer
_FEWEST = 1000  # relocations: a kernel has tens of thousands
_SAMPLE = 4000
_MIXED = 50  # of so many words of RELR at least one is an address, and one a bitmap


@dataclass(frozen=True)
class Relocations:
    """kind: "RELA", "RELR", or "none". places: addresses, as linked, of the pointers; pointers: what they are, of RELA only."""

    kind: str
    places: np.ndarray
    pointers: np.ndarray


NONE = Relocations("none", np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def find(data: bytes, relative: int) -> Relocations:
    """The relocations in a flat image; relative: the number that RELA has for "mend by the distance moved"."""
    words = np.frombuffer(data, "<u8", len(data) // 8)
    return _rela(words, relative) or _relr(words) or NONE


def linked(data: bytes, found: Relocations, align: int) -> int | None:
    """The address of the image's first byte that fits its relocations best, a multiple of align; None if none does."""
    if found.kind == "none":
        return None
    lowest, highest = int(found.places.min()), int(found.places.max())
    first, last = -(-(highest + 8 - len(data)) // align) * align, lowest // align * align
    candidates = range(first, last + 1, align)
    words = np.frombuffer(data, "<u8", len(data) // 8)
    step = max(1, len(found.places) // _SAMPLE)
    places, pointers = found.places[::step], found.pointers[::step]
    scores = {base: _fits(words, places, pointers, base, len(data)) for base in candidates}
    best = max(scores, key=lambda base: scores[base], default=None)
    return best if best is not None and scores[best] > 0.5 else None


def mended(data: bytes, found: Relocations, base: int) -> bytes:
    """The image with its pointers in place, for an image that lies at `base` as it was linked."""
    if found.kind != "RELA":
        return data
    out = np.frombuffer(data, np.uint8).copy()
    at = (found.places - np.uint64(base)).astype(np.int64)
    inside = (at >= 0) & (at + 8 <= len(out))
    spread = at[inside][:, None] + np.arange(8)
    out[spread.ravel()] = found.pointers[inside].astype("<u8").view(np.uint8)
    return out.tobytes()


def _fits(words: np.ndarray, places: np.ndarray, pointers: np.ndarray, base: int, size: int) -> float:
    """How many of the words at these places are what they should be: a pointer of RELR into the image; zero, or the pointer, of
    RELA."""
    at = (places - np.uint64(base)).astype(np.int64)
    now = words[np.clip(at // 8, 0, len(words) - 1)]
    if len(pointers):
        return float(((now == 0) | (now == pointers)).mean())
    return float(((now - np.uint64(base)) < np.uint64(2 * size)).mean())


def _rela(words: np.ndarray, relative: int) -> Relocations | None:
    """The longest run of entries of this kind, at any of the three places a run can begin."""
    runs = [
        (length, phase + _ENTRY * start)
        for phase in range(_ENTRY)
        for start, length in _runs(words[phase + 1 :: _ENTRY] == relative, _FEWEST)
    ]
    if not runs:
        return None
    length, start = max(runs)
    table = words[start : start + _ENTRY * length].reshape(length, _ENTRY)
    return Relocations("RELA", table[:, 0].copy(), table[:, 2].copy())


def _relr(words: np.ndarray) -> Relocations | None:
    """The longest run of addresses of the kernel's half and bitmaps (odd words), with both in it."""
    address, bitmap = (words & 7 == 0) & (words >= np.uint64(0xFF00 << 48)), words & 1 == 1
    for start, length in sorted(_runs(address | bitmap, _FEWEST), key=lambda run: -run[1]):
        here = slice(start, start + length)
        if min(address[here].sum(), bitmap[here].sum()) * _MIXED >= length:
            return _unpacked(words[here][address[here].argmax() :].tolist())
    return None


def _unpacked(run: list[int]) -> Relocations | None:
    """The places that addresses and bitmaps stand for; a bitmap's 63 bits are for the words behind those already told."""
    places: list[int] = []
    at = previous = 0
    for word in run:
        if word & 1 == 0:
            if word <= previous:
                break
            places.append(word)
            at, previous = word + 8, word
        else:
            places += [at + 8 * n for n in range(63) if word >> n + 1 & 1]
            at += 8 * 63
    return Relocations("RELR", np.array(places, np.uint64), np.zeros(0, np.uint64)) if len(places) >= _FEWEST else None


def _runs(true: np.ndarray, least: int) -> list[tuple[int, int]]:
    """(start, length) of each run of at least so many True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], true.astype(np.int8), [0]))))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    long = lengths >= least
    return list(zip(starts[long].tolist(), lengths[long].tolist(), strict=True))
