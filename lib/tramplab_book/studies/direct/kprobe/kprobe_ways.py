"""The ways to a BPF program that a kprobe is compared with: which calls these are, and what each round published of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.kprobe import Kprobe
from tramplab.vmlinux.saved import saved

from ....publish import published
from ..fprobe.stages import ARGUMENTS, DIRECT, FUNCTION, OPTIMISED, UNOPTIMISED, Stage, run

OPTIMISED_WAY, UNOPTIMISED_WAY, FTRACE, BREAKPOINT = "fprobe, optimised", "fprobe", "kprobe, ftrace", "kprobe, breakpoint"


@dataclass(frozen=True)
class Probe:
    """A kprobe: its name here, the kernel, and whether it is a breakpoint there. usual: what one at the entry of a traced function
    is in that ISA's latest kernels."""

    way: str
    release: str
    breakpoint: bool
    usual: bool = False


PROBES = {
    "x86_64": (Probe(FTRACE, "v6.12", False, True), Probe(BREAKPOINT, "v6.12", True)),
    "arm64": (Probe(BREAKPOINT, "v6.4", True, True),),
    "riscv64": (Probe(FTRACE, "v6.9", False), Probe(BREAKPOINT, "v6.16", True, True)),
}


def usual(isa: str) -> str:
    """The way of a kprobe at the entry of a traced function."""
    return next(p.way for p in PROBES[isa] if p.usual)


@functools.cache
def probed(isa: str, probe: Probe) -> tuple[Run, Run]:
    """A call with a program on such a kprobe, and the same call without."""
    kernel = Kernel(isa, probe.release)
    idle = kernel.call(FUNCTION, *ARGUMENTS)
    with kernel.attached(kernel.function(FUNCTION), Kprobe(breakpoint=probe.breakpoint, bpf=True)):
        return kernel.call(FUNCTION, *ARGUMENTS), idle


def calls(isa: str) -> dict[str, tuple[Run, Run]]:
    """Way -> the call, and the same unhooked."""
    stages: dict[str, Stage | str] = {DIRECT: DIRECT, OPTIMISED_WAY: OPTIMISED, UNOPTIMISED_WAY: UNOPTIMISED}
    return {way: run(isa, stage) for way, stage in stages.items()} | {p.way: probed(isa, p) for p in PROBES[isa]}


# --- As published

#: Round -> way -> what it adds to an event, in a unit of that round. Xu's and Florent's fprobe saved arguments only and declined
#: the return, and Florent's had no list: see ROUNDS of fprobe_losses.
_XU, _FLORENT, _RFC, _M1 = "arm64-pi4-xu-trig-", "arm64-rpi4-florent-trig-", "arm64-rfc-", "ebpf-exporter-m1-"
_NAMES = {
    "RFC": {
        DIRECT: f"{_RFC}direct-calls",
        OPTIMISED_WAY: f"{_RFC}fprobe-all-optimisations",
        UNOPTIMISED_WAY: f"{_RFC}fprobe-no-optimisation",
        BREAKPOINT: f"{_RFC}kprobe",
    },
    "Xu": {DIRECT: f"{_XU}fentry-direct", OPTIMISED_WAY: f"{_XU}fentry-indirect", BREAKPOINT: f"{_XU}kprobe"},
    "Florent": {DIRECT: f"{_FLORENT}fentry-direct", OPTIMISED_WAY: f"{_FLORENT}fentry-indirect", BREAKPOINT: f"{_FLORENT}kprobe"},
    "M1": {DIRECT: f"{_M1}fentry-empty", BREAKPOINT: f"{_M1}kprobe-empty"},
}
_BASES = {"Xu": f"{_XU}base", "Florent": f"{_FLORENT}base", "M1": f"{_M1}none"}
#: The published rounds, and the ISA of all their machines; the first one is what d4 says.
ROUNDS, MEASURED_ON = tuple(_NAMES), "arm64"


def ratios(name: str) -> dict[str, float]:
    """Way -> what it adds as a multiple of what the direct call adds, in a published round."""
    added = {way: _added(name, figure) for way, figure in _NAMES[name].items()}
    return {way: value / added[DIRECT] for way, value in added.items()}


#: Copying a million blocks to nowhere, with a program on vfs_write(): one of the rounds has that, too, in seconds.
_COPIES = {
    DIRECT: "arm64-rpi4-florent-dd-4185",
    OPTIMISED_WAY: "arm64-rpi4-florent-dd-4926",
    BREAKPOINT: "arm64-rpi4-florent-dd-5804",
}


def copies() -> dict[str, float]:
    """Way -> what it adds to copying, as a multiple of what the direct call adds."""
    added = {way: published.get(name).value - published.get("arm64-rpi4-florent-dd-3943").value for way, name in _COPIES.items()}
    return {way: value / added[DIRECT] for way, value in added.items()}


def apart() -> float:
    """How many times as fast the event is without any probe in the one of two rounds on the same board as in the other."""
    return published.get(_BASES["Florent"]).ns / published.get(_BASES["Xu"]).ns


def _added(name: str, figure: str) -> float:
    found = published.get(figure)
    if name in _BASES:
        return found.ns - published.get(_BASES[name]).ns
    return found.value / (100 - found.value)  # of the event without it; the figure is the loss of events per second in percent


# --- Real kernels


@functools.cache
def real_breakpoints() -> dict[str, int]:
    """ISA -> instructions of entry, handlers and return of a breakpoint kprobe in Debian's plain kernel of v6.12."""
    by_name = {}
    for found in saved.plain():
        if found["kernel"]["release"] == "v6.12":
            row = next(r for r in found["hooks"] if r["hook"] == "kprobe-brk")
            if row["status"] == "measured":
                by_name[found["kernel"]["isa"]] = row["components"]["core"]["instructions"]
    return by_name
