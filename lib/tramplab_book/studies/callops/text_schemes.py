"""The patch sites whose bytes are counted: of each ISA none, plain ones, and such with a pointer before the function.

Their flags are those with which the lab's kernel of a release is built, which are the kernel's; what no kernel has is written here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tramplab.ftrace import arch, releases
from tramplab.ftrace.releases import LATEST
from tramplab.isa import ISAS, Isa

NONE, PLAIN, CALL_OPS = "none", "site", "CALL_OPS"
#: riscv64's plain site up to v6.15, and since v6.16 without CALL_OPS: one instruction to patch, which must not cross 4 bytes.
PAIR, FIXED = "pair", "fixed AUIPC"
#: x86-64 with the room before each function in which mitigations put code (CONFIG_CALL_PADDING, bea75b33895f).
PADDED = "call padding"
#: Builds of one ISA beside the usual: arm64 with landing pads, riscv64 without compressed instructions.
USUAL, BTI, LONG = "", "BTI", "no RVC"
_PATCHABLE, _ALIGNED = "-fpatchable-function-entry", "-falign-functions"


@dataclass(frozen=True)
class Scheme:
    """The sites that one corpus is compiled with.

    build: of BUILDS.
    name: as figures call it.
    release, call_ops: the lab's kernel that has such sites, and that feature where it is overridden; "" where there are no sites.
    flags: instead of that kernel's, for sites that no kernel has, or not the lab's.
    hypothetical: no kernel has it.
    """

    isa: str
    build: str
    name: str
    release: str = ""
    call_ops: bool | None = None
    flags: tuple[str, ...] = ()
    hypothetical: bool = False


#: (ISA, build) -> flags that all its schemes have, and bytes of the shortest instruction, in which sites are counted.
BUILDS: dict[tuple[str, str], tuple[tuple[str, ...], int]] = {
    ("x86_64", USUAL): (("-fcf-protection=branch",), 1),
    ("arm64", USUAL): (("-mbranch-protection=pac-ret",), 4),
    ("arm64", BTI): (("-mbranch-protection=pac-ret+bti",), 4),
    ("riscv64", USUAL): ((), 2),
    ("riscv64", LONG): (("-march=rv64ima_zicsr_zifencei",), 4),
}

SCHEMES = (
    Scheme("x86_64", USUAL, NONE),
    Scheme("x86_64", USUAL, PLAIN, LATEST),
    Scheme("x86_64", USUAL, CALL_OPS, LATEST, flags=(f"{_PATCHABLE}=13,8",), hypothetical=True),
    Scheme("x86_64", USUAL, PADDED, LATEST, flags=(f"{_PATCHABLE}=21,16",)),
    Scheme("arm64", USUAL, NONE),
    Scheme("arm64", USUAL, PLAIN, LATEST, False),
    Scheme("arm64", USUAL, CALL_OPS, LATEST),
    Scheme("arm64", BTI, NONE),
    Scheme("arm64", BTI, PLAIN, LATEST, False),
    Scheme("arm64", BTI, CALL_OPS, LATEST),
    Scheme("riscv64", USUAL, NONE),
    Scheme("riscv64", USUAL, PAIR, "v6.12"),
    Scheme("riscv64", USUAL, FIXED, LATEST, False),
    Scheme("riscv64", USUAL, CALL_OPS, LATEST),
    Scheme("riscv64", LONG, NONE),
    Scheme("riscv64", LONG, PAIR, "v6.12"),
    Scheme("riscv64", LONG, CALL_OPS, LATEST),
)


def flags(scheme: Scheme) -> tuple[str, ...]:
    """The compiler's flags for a scheme: the build's, and those of its sites, counted in the build's shortest instruction."""
    build, step = BUILDS[scheme.isa, scheme.build]
    return (*build, *(_counted(flag, ISAS[scheme.isa], step) for flag in _sites(scheme)))


def _sites(scheme: Scheme) -> tuple[str, ...]:
    """The flags of a scheme's sites alone, as the ISA's usual build counts them."""
    if scheme.flags or not scheme.release:
        return scheme.flags
    isa = ISAS[scheme.isa]
    override: dict[str, object] = {} if scheme.call_ops is None else {"call_ops": scheme.call_ops}
    given = arch.of(isa).config(releases.features(isa, scheme.release, override)).site_flags
    return tuple(flag for flag in given if flag.startswith((_PATCHABLE, _ALIGNED)))


def _counted(flag: str, isa: Isa, step: int) -> str:
    if not flag.startswith(_PATCHABLE):
        return flag
    counts = [int(n) * min(isa.nops) // step for n in re.findall(r"\d+", flag)]
    return f"{_PATCHABLE}={','.join(map(str, counts))}"


def reserved(scheme: Scheme) -> tuple[int, int]:
    """Bytes that the compiler is asked to reserve before the entry and at it.

    >>> reserved(Scheme("riscv64", USUAL, CALL_OPS, LATEST)), reserved(Scheme("riscv64", LONG, PAIR, "v6.12"))
    ((8, 8), (0, 8))
    """
    step = BUILDS[scheme.isa, scheme.build][1]
    for flag in flags(scheme):
        if flag.startswith(_PATCHABLE):
            every, before = ([*map(int, re.findall(r"\d+", flag)), 0])[:2]
            return before * step, (every - before) * step
    return 0, 0
