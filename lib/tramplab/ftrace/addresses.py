"""Where a kernel's allocators may put code that is made at run time, from data/addresses.yml: facts with their sources."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..base.errors import TramplabError, unknown
from ..base.schema import facts
from .releases import known, parse

FILE = "addresses.yml"
MODULES, BPF = "modules", "bpf"


@dataclass(frozen=True)
class Edge:
    """One end of a range: so many bytes from `of`, which is "zero", or the "start" or "end" of the kernel's image."""

    of: str
    plus: int

    def at(self, image: tuple[int, int]) -> int:
        """The address, for an image that lies there."""
        return {"zero": 0, "start": image[0], "end": image[1]}[self.of] + self.plus


@dataclass(frozen=True)
class Range:
    """A range of addresses that an allocator uses.

    code: the kind of code that is allocated there.
    layout: its name.
    start, end: the range, end not included.
    image: the lowest and the highest address at which the kernel's image may start.
    fits: the second bounds the image's end instead.
    holds: bytes that the image must fit into, or there is no such range; 0 if it need not.
    source: an entry of the file's.
    sure: as in releases.yml.
    """

    isa: str
    code: tuple[str, ...]
    layout: str
    since: str
    start: Edge
    end: Edge
    image: tuple[int, int]
    fits: bool
    holds: int
    source: str
    sure: str

    def images(self, size: int) -> list[tuple[int, int]]:
        """(start, end) of an image of so many bytes, at the lowest and at the highest place that it may have."""
        low, high = self.image[0], self.image[1] - (size if self.fits else 0)
        return [(start, start + size) for start in dict.fromkeys((low, high))]

    def places(self, image: tuple[int, int]) -> list[tuple[int, int]]:
        """(start, end) of what the allocator may give beside an image, from low to high; nothing if the image is too large."""
        if self.holds and image[1] - image[0] >= self.holds:
            return []
        start, end = self.start.at(image), self.end.at(image)
        parts = [(start, min(end, image[0])), (max(start, image[1]), end)]
        return [(a, b) for a, b in parts if a < b]


@functools.cache
def ranges() -> tuple[Range, ...]:
    """All of them, in the order of the file."""
    content = facts(FILE, "addresses")
    for r in content["ranges"]:
        name, (first, last) = f"{FILE}: {r['isa']} {r['layout']}", r["image"]
        if r["source"] not in content["sources"]:
            raise TramplabError(f"{name}: {unknown('source', r['source'], content['sources'])}")
        if r["since"] not in known():
            raise TramplabError(f"{name}: since {r['since']} is not from {known()[0]} to {known()[-1]}.")
        if first > last or (r["from"]["of"] == r["to"]["of"] and r["from"]["plus"] >= r["to"]["plus"]):
            raise TramplabError(f"{name}: the lower address comes first, of the range and of its image.")
    return tuple(
        Range(
            r["isa"],
            tuple(r["code"]),
            r["layout"],
            r["since"],
            Edge(**r["from"]),
            Edge(**r["to"]),
            (r["image"][0], r["image"][1]),
            r.get("fits", False),
            r.get("holds", 0),
            r["source"],
            r["sure"],
        )
        for r in content["ranges"]
    )


def of(isa: str, release: str) -> list[Range]:
    """The ranges of an ISA's kernel, as far as they are known of this release.

    >>> [r.layout for r in of("arm64", "v6.8")]
    ['modules', 'modules, when full']
    """
    return [r for r in ranges() if r.isa == isa and parse(r.since) <= parse(release)]
