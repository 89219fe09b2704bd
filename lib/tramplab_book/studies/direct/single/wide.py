"""A guest with many more functions, to attach to: the lab's own sources, with functions and places in its pools added."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tramplab.base.errors import TramplabError

from ...shared.guests import with_functions

#: What the added functions are called: this and a number.
ADDED = "added_"
#: TEXT_POKE_ARRAY_MAX (arch/x86/kernel/alternative.c): so many struct smp_text_poke_loc of 16 bytes as a page has.
POKES = 256
_HEADER = "include/lab.h"


@contextmanager
def wide(functions: int) -> Iterator[Path]:
    """For a `with`: the folder of a guest with so many functions more, a place for an ops and counters of a BPF program for each,
    and as many breakpoints at a time as a kernel has."""
    with with_functions("".join(f"\nlong {ADDED}{n}(long a)\n{{\n\treturn a + {n};\n}}\n" for n in range(functions))) as guest:
        header = (guest / _HEADER).read_text("utf-8")
        for name, number in {"OPS": functions + 8, "COUNTS": 2 * functions + 8, "POKES": POKES}.items():
            header, found = re.subn(rf"(?m)^(#define LAB_NR_{name}) \d+$", rf"\1 {number}", header)
            if found != 1:
                raise TramplabError(f"{_HEADER} of the guest defines LAB_NR_{name} {found} times, not once.")
        (guest / _HEADER).write_text(header, "utf-8")
        yield guest
