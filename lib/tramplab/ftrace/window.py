"""The range of addresses that a patch site can call by itself, found by asking the slow path about one address after another."""

from __future__ import annotations

from ..isa import Isa
from . import arch
from .arch.protocol import FeatureTable, Symbols
from .site import Site

#: Bytes of the address space, and bytes to either side of a site in which an end is looked for first: no branch of these ISAs goes
#: further.
SPACE, NEAR = 1 << 64, 1 << 33


def step(isa: Isa, features: FeatureTable) -> int:
    """Bytes from one place that a direct call can have as its target to the next: instructions of arm64 lie at multiples of
    four and those of riscv64 of two; from v6.19 on an odd target of x86-64 is one that is jumped to."""
    return max(min(isa.nops), 2 if features["direct_jmp"] else 1)


def window(isa: Isa, site: Site, features: FeatureTable, symbols: Symbols) -> tuple[int, int]:
    """The lowest and the highest address that a site can call by itself, both inclusive; 0, or the last place that there is, where
    the address space ends first. Each end is found by halving, as the window has no holes, and has ftrace_caller in it, or the site
    itself where the text is too large for that."""
    wide, module = step(isa, features), arch.of(isa)
    caller = symbols("ftrace_caller")
    inside = (caller if module.reaches(site, caller, features, symbols) else site.ip) // wide
    ends = []
    for outside in (0, SPACE // wide - 1):
        near, far = inside, outside
        back = 1 if far < near else -1
        first = inside - back * (NEAR // wide)
        if (first - far) * back > 0 and not module.reaches(site, first * wide, features, symbols):
            far = first + back
        while near != far:
            middle = (near + far + (far > near)) // 2
            if module.reaches(site, middle * wide, features, symbols):
                near = middle
            else:
                far = middle + back
        ends.append(near * wide)
    return ends[0], ends[1]
