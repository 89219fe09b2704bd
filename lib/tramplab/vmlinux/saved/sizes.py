"""How large the traced functions of a real x86-64 kernel are: the distribution in data/function-sizes.yml.

`python -m tramplab.vmlinux sizes IMAGE` prints it for an image, as the file has it.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np

from ...base import streams
from ...base.errors import TramplabError
from ..booted import FIRST_BYTES, Booted, boot, compiled
from ..booted.text import Text
from ..open.image import open_image

#: The padding between functions: INT3, and NOPs of any length.
_PADDING = re.compile(rb"(?:\xcc|\x66*\x90|\x66*\x2e?\x0f\x1f(?:\x00|\x40\x00|\x44\x00\x00|\x80\x00{4}|\x84\x00{5}))+\Z")
#: The percentiles that the file has.
PERCENTS = (0, 1, 2, *range(5, 100, 5), 97, 98, 99, 99.5, 99.9, 100)


def traced(kernel: Booted, text: tuple[int, int]) -> list[int]:
    """Bytes of each function with a patch site between two addresses: the site counts, what lies behind the last instruction up
    to the next symbol does not."""
    image = kernel.image
    places = sorted({s.address for s in image.every if text[0] <= s.address < text[1]})
    read = Text(image).read
    out = []
    for start, end in itertools.pairwise([*places, text[1]]):
        whole = read(start, end - start)
        if compiled(image.isa.name, whole[:FIRST_BYTES], start, kernel.shape) is not None:
            out.append(len(without_padding(whole)))
    return out


def without_padding(code: bytes) -> bytes:
    """A function's bytes without those behind its last instruction.

    >>> without_padding(bytes.fromhex("31c0c3 cc cc")).hex(), without_padding(bytes.fromhex("c3 662e0f1f840000000000 6690")).hex()
    ('31c0c3', 'c3')
    """
    return _PADDING.sub(b"", code)


def percentiles(sizes: list[int]) -> list[tuple[float, int]]:
    """(percent, bytes): so many percent of the functions are not larger than that.

    >>> percentiles(list(range(1, 102)))[:4]
    [(0, 1), (1, 2), (2, 3), (5, 6)]
    """
    return [(percent, round(float(np.percentile(sizes, percent)))) for percent in PERCENTS]


def main(arguments: list[str]) -> int:
    """Print an image's distribution; returns the exit status, as streams.run() says."""

    def command() -> None:
        if len(arguments) != 1:
            raise TramplabError("name one kernel image.")
        opened = open_image(Path(arguments[0]))
        sizes = traced(boot(opened), opened.text)
        print(f"version: {opened.version}\nfunctions: {len(sizes)}\nmean: {np.mean(sizes):.1f}\nsizes:")
        print("\n".join(f"  - [{percent}, {size}]" for percent, size in percentiles(sizes)))

    return streams.run(command)
