"""Where the target of a direct call is kept: the kernels that are compared, as they are and as they could be."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops
from tramplab.trampolines.single import WAYS

from ....publish.phrases import marked

#: What a kernel is called in which each trampoline has an ops of its own, which names it.
IN_OPS = "in-ops"
#: The last release of x86-64 that has its targets in the ops.
X86_IN_OPS = "v6.19"


@dataclass(frozen=True)
class Setup:
    """A kernel to compare: its ISA and release, and IN_OPS or the name of a way of trampolines/single."""

    isa: str
    release: str
    way: str

    @property
    def hypothetical(self) -> bool:
        """Is it a way that no kernel has?"""
        return self.way != IN_OPS and WAYS[self.way].hypothetical

    @property
    def single(self) -> str:
        """The way, as Kernel(slow_path=) takes it."""
        return "" if self.way == IN_OPS else self.way

    def kernel(self, meter: str = "record") -> Kernel:
        """A kernel of this setup, booted."""
        return Kernel(self.isa, self.release, slow_path=self.single, meter=meter)

    @property
    def head(self) -> dict[str, object]:
        """The first columns of a setup's rows."""
        return {"isa": self.isa, "release": self.release, "way": self.way, "hypothetical": self.hypothetical}


@functools.cache
def setups() -> tuple[Setup, ...]:
    """x86-64 as it was and as it is, then arm64 and riscv64 as they are and in each way that they could have."""
    latest = releases.LATEST
    x86 = [Setup("x86_64", X86_IN_OPS, IN_OPS), Setup("x86_64", latest, "one-ops")]
    others = [w.name for w in WAYS.values() if w.hypothetical]
    return (*x86, *(Setup(isa, latest, way) for isa in ("arm64", "riscv64") for way in (IN_OPS, *others)))


#: Which call is compared -> what is attached: a target that the site reaches, one that it does not (on x86-64 it does), that one
#: with an ops on the same function, and an ops alone, which has nothing to do with direct calls.
CASES: dict[str, tuple[type[Request], ...]] = {"near": (Direct,), "far": (Direct,), "shared": (Direct, Ops), "ops": (Ops,)}


def requests(case: str) -> list[Request]:
    """The requests to attach for a case."""
    return [Ops() if kind is Ops else Direct(far=case != "near") for kind in CASES[case]]


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows as figures have them: the ways of x86-64 with their release, and the mark behind what no kernel has; without the
    columns that say so."""
    names = [
        marked(f"{way} {release}" if isa == "x86_64" else way, bool(is_so))
        for isa, release, way, is_so in zip(frame["isa"], frame["release"], frame["way"], frame["hypothetical"], strict=True)
    ]
    plotted = frame.assign(way=names).drop(columns=["release", "hypothetical"])
    plotted.attrs = dict(frame.attrs)
    return plotted
