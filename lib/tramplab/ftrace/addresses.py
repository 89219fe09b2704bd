"""Where a kernel's allocators may put code that is made at run time, from data/addresses.yml: facts with their sources."""

from __future__ import annotations

import functools
from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from ..base.entries import Entry, IsaName, Natural, Positive, Release, Source, Sure, Text, facts
from ..base.errors import TramplabError, unknown
from .releases import known, parse

FILE = "addresses.yml"
Code = Literal["modules", "bpf"]
MODULES, BPF = get_args(Code)


class Edge(Entry, frozen=True):
    """One end of a range: so many bytes from `of`, which is "zero", or the "start" or "end" of the kernel's image."""

    of: Literal["zero", "start", "end"]
    plus: int

    def at(self, image: tuple[int, int]) -> int:
        """The address, for an image that lies there."""
        return {"zero": 0, "start": image[0], "end": image[1]}[self.of] + self.plus


class Range(Entry, frozen=True):
    """A range of addresses that an allocator uses.

    code: the kinds of code that are allocated there.
    layout: the range's name.
    start, end: the range, end not included.
    image: the lowest and the highest address at which the kernel's image may start.
    fits: the second of these bounds the image's end instead.
    holds: bytes that the image must fit into, or there is no such range; None if it need not.
    source: a name in the file's `sources`.
    sure: as in releases.yml.
    """

    isa: IsaName
    code: Annotated[tuple[Code, ...], Meta(min_length=1)]
    layout: Text
    since: Release
    image: tuple[Natural, Natural]
    source: str
    sure: Sure
    start: Edge = field(name="from")
    end: Edge = field(name="to")
    fits: bool = False
    holds: Positive | None = None

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


class Table(Entry, frozen=True):
    """The content of the file."""

    sources: dict[str, Source]
    ranges: Annotated[tuple[Range, ...], Meta(min_length=1)]


@functools.cache
def data() -> Table:
    """The content of the file; raises TramplabError that names what is wrong in it."""
    content = facts(FILE, Table)
    for r in content.ranges:
        name, (first, last) = f"{FILE}: {r.isa} {r.layout}", r.image
        if r.source not in content.sources:
            raise TramplabError(f"{name}: {unknown('source', r.source, content.sources)}")
        if r.since not in known():
            raise TramplabError(f"{name}: since {r.since} is not from {known()[0]} to {known()[-1]}.")
        if first > last or (r.start.of == r.end.of and r.start.plus >= r.end.plus):
            raise TramplabError(f"{name}: the lower address comes first, of the range and of its image.")
    return content


def of(isa: str, release: str) -> list[Range]:
    """The ranges of an ISA's kernel, as far as they are known of this release.

    >>> [r.layout for r in of("arm64", "v6.8")]
    ['modules', 'modules, when full']
    """
    return [r for r in data().ranges if r.isa == isa and parse(r.since) <= parse(release)]
