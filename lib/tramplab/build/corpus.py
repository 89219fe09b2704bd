"""A text of many functions whose sizes are those of a real kernel's, in C: what patch sites add to it is counted, none of it runs.

How large they are is in data/function-sizes.yml. A function begins and ends with C, with calls or without; the bytes that it lacks
are reserved in between (`.space`), so that two thousand are compiled in a moment. Which bytes those are does not matter: sites,
literals and alignment lie around them.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from msgspec import Meta

from ..base.arguments import whole
from ..base.cache import publish
from ..base.entries import Entry, IsaName, Natural, Positive, Sha256, Text, facts
from ..base.errors import TramplabError
from ..isa import Isa
from .symbols import FUNCTION, symbols
from .toolchain import run_tool, version

FILE = "function-sizes.yml"
_Size = Annotated[float, Meta(ge=0)]
#: How many functions, and what decides their order.
FUNCTIONS, SEED = 2048, 20240306
#: Functions at most: more take the compiler minutes.
_MOST = 1 << 18
_HEAD = """\
extern void other(void);
#define FILL(bytes) __asm__ volatile (".space %c0" : : "i" ((bytes) & -STEP) : "memory")
"""
#: Kind -> (bytes that its C takes on x86-64, about; of a hundred functions how many are of the kind; its body).
_KINDS = {
    "leaf": (5, 30, "FILL({fill});"),
    "caller": (18, 70, "other(); FILL({fill}); other();"),
}
#: Without optimisation, as there is nothing to optimise: two thousand functions then take a third of the time.
_FLAGS = (
    "-O0 -std=gnu11 -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -fno-pic -fno-common -fomit-frame-pointer"
    " -Wall -Wextra -Werror -Wno-unused-parameter"
).split()


class _Source(Entry, frozen=True):
    package: Text
    version: Text
    path: Text
    sha256: Sha256


class _Sizes(Entry, frozen=True):
    isa: IsaName
    source: _Source
    functions: Positive
    mean: Annotated[float, Meta(ge=1)]
    site: Natural
    sizes: Annotated[tuple[tuple[_Size, _Size], ...], Meta(min_length=2)]


@dataclass(frozen=True)
class Function:
    """A function of the compiled corpus.

    start: the address of its symbol in the section.
    size: that of its symbol, in bytes.
    """

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Compiled:
    """The corpus as compiled: the bytes of its section of text, and its functions by address."""

    text: bytes
    functions: tuple[Function, ...]


def sizes(functions: int = FUNCTIONS) -> list[int]:
    """Bytes of each function without its site: evenly spread over the distribution, in an order drawn with SEED.

    >>> sizes() == sizes(), min(sizes()), len(sizes(100))
    (True, 1, 100)
    """
    percentiles = facts(FILE, _Sizes)
    percents, limits = zip(*percentiles.sizes, strict=True)
    rising = all(a < b for each in (percents, limits) for a, b in itertools.pairwise(each))
    if not rising or (percents[0], percents[-1]) != (0, 100):
        raise TramplabError(f"{FILE}: sizes go from 0 to 100 percent, and percents and bytes rise from line to line.")
    if not percentiles.site <= limits[0] <= percentiles.mean <= limits[-1]:
        raise TramplabError(f"{FILE}: the site fits into the smallest function, and the mean is a size between the ends.")
    functions = whole(functions, "functions", 1, _MOST)
    drawn = [100 * (n + 0.5) / functions for n in range(functions)]
    drawn_sizes = [round(float(size)) - percentiles.site for size in np.interp(drawn, percents, limits)]
    random.Random(SEED).shuffle(drawn_sizes)
    return drawn_sizes


def source(wanted: list[int]) -> str:
    """The corpus in C, with functions of about these sizes."""
    draw, lines = random.Random(SEED), [_HEAD]
    for number, size in enumerate(wanted):
        kinds = {name: share for name, (least, share, _) in _KINDS.items() if least <= size} or {"leaf": 1}
        least, _, body = _KINDS[draw.choices([*kinds], [*kinds.values()])[0]]
        lines.append(f"void f{number}(void) {{ {body.format(fill=max(0, size - least))} }}\n")
    return "".join(lines)


def compiled(isa: Isa, step: int, flags: tuple[str, ...]) -> Compiled:
    """The corpus for an ISA whose instructions are multiples of `step` bytes, with these flags behind the ISA's own (cached)."""
    text = source(sizes())
    command = [f"--target={isa.triple}", *_FLAGS, *isa.cflags, f"-DSTEP={step}", *flags]
    name = hashlib.sha256(repr((command, version(), text)).encode()).hexdigest()[:24]

    def make(folder: Path) -> Path:
        (folder / "corpus.c").write_text(text, "utf-8")
        run_tool("clang", *command, "-c", "corpus.c", "-o", "corpus.o", cwd=folder)
        return folder / "corpus.o"

    return _read(publish(make, f"corpus-{name}.o"))


def _read(path: Path) -> Compiled:
    """The section of text of an object, and the functions in it."""
    with path.open("rb") as f:
        elf = ELFFile(f)
        # .text is near the start of ~10,000 section headers (one per patch site), .symtab near the end: search from both ends
        numbers = range(elf.num_sections())
        number = next((n for n in numbers if elf.get_section(n).name == ".text"), None)
        table = next((s for s in map(elf.get_section, reversed(numbers)) if isinstance(s, SymbolTableSection)), None)
        if number is None or table is None:
            raise TramplabError(f"the compiler left no text or no symbols in {path.name}; remove it from the cache.")
        found = [Function(s.name, s.value, s.size) for s in symbols(table) if s.kind == FUNCTION and s.section == number]
        return Compiled(elf.get_section(number).data(), tuple(sorted(found, key=lambda entry: entry.start)))
