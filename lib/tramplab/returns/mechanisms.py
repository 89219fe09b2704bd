"""Who can see a function return: kretprobe, fprobe, the function graph tracer, BPF's fexit, each in the kernels that this chapter
compares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from .. import isa as isas
from ..base.arguments import of_name
from ..base.errors import TramplabError
from ..emulate.machine import RECORD
from ..ftrace import releases
from ..ftrace.meant import kprobes_break
from ..ftrace.ops import Request
from ..lab import hooks, names
from ..lab.hooks import Hook
from ..lab.kernel import Kernel
from ..trampolines.bpf import Bpf
from ..trampolines.fprobe import Fgraph, Fprobe
from ..trampolines.kprobe import Kretprobe

KRETPROBE, RETHOOK, FGRAPH, FPROBE, FEXIT = "kretprobe", "fprobe, rethook", "fgraph", "fprobe, fgraph", "BPF fexit"
#: Mechanisms with a BPF program, which comes there by perf or by a link of kprobe_multi; fexit is a program itself.
KRETPROBE_BPF, MULTI = "BPF kretprobe", "BPF kprobe_multi"
#: Mechanism -> as the lab calls it, but for breakpoints.
HOOKS = {
    KRETPROBE: "kretprobe",
    RETHOOK: "fprobe-exit",
    FGRAPH: "fgraph",
    FPROBE: "fprobe-exit",
    FEXIT: "bpf-fexit",
    KRETPROBE_BPF: "kretprobe-bpf",
    MULTI: "kretprobe-multi",
}
LATEST = releases.LATEST
_WHAT = "mechanism that sees returns"


@dataclass(frozen=True)
class Build:
    """A kernel, and the mechanism that hooks a return there.

    mechanism: a name of MECHANISMS.
    """

    isa: str
    mechanism: str
    release: str

    def kernel(self, meter: str = RECORD) -> Kernel:
        """A kernel of this build, booted; meter: as for Kernel()."""
        return Kernel(self.isa, self.release, meter=meter)

    def request(self, entry: bool = False) -> Request:
        """The request for the mechanism: one probe that sees returns, and with entry= entries too."""
        return of_name(_WHAT, self.mechanism, MECHANISMS)(self, entry)

    @property
    def hook(self) -> Hook:
        """The lab's."""
        return hooks.of_release(HOOKS[self.mechanism], releases.features(isas.get(self.isa), self.release, {}))

    @property
    def image(self) -> str:
        """As images of real kernels call it."""
        return names.image(self.hook.name)

    @property
    def name(self) -> str:
        """The mechanism as charts and tables call it: with its release where that is not the newest."""
        return self.mechanism if self.release == LATEST else f"{self.mechanism} {self.release}"


def breaks(isa: str, release: str) -> bool:
    """Is a kprobe at the entry of a traced function a breakpoint there?"""
    return kprobes_break(releases.features(isas.get(isa), release, {}))


#: Mechanism -> its request.
MECHANISMS: dict[str, Callable[[Build, bool], Request]] = {
    KRETPROBE: lambda build, entry: Kretprobe(breakpoint=breaks(build.isa, build.release), entry=entry),
    KRETPROBE_BPF: lambda build, entry: Kretprobe(breakpoint=breaks(build.isa, build.release), entry=entry, bpf=True),
    RETHOOK: lambda build, entry: Fprobe(entry=entry, exit=True),
    FGRAPH: lambda build, entry: Fgraph(),
    FPROBE: lambda build, entry: Fprobe(entry=entry, exit=True),
    MULTI: lambda build, entry: Fprobe(entry=entry, exit=True, multi=True),
    FEXIT: lambda build, entry: Bpf(fentry=int(entry), fexit=1),
}
#: ISA -> the releases in which its kretprobe is shown: one with instances of its own or a trampoline that is no exception, and the
#: newest; and the last with fprobes on return hooks.
_KRETPROBES = {"x86_64": ("v5.17", "v6.12", LATEST), "arm64": ("v6.1", "v6.12", LATEST), "riscv64": ("v6.1", "v6.9", LATEST)}
_RETHOOKS = {"x86_64": "v6.12", "riscv64": "v6.9"}


@functools.cache
def builds(isa: str) -> tuple[Build, ...]:
    """All builds of an ISA, only those that kernels have, in order, with bare handlers except for fexit's program; raises
    TramplabError for an unknown ISA."""
    isas.get(isa)
    rethooks = [Build(isa, RETHOOK, _RETHOOKS[isa])] if isa in _RETHOOKS else []
    newest = (Build(isa, mechanism, LATEST) for mechanism in (FGRAPH, FPROBE, FEXIT))
    return (*(Build(isa, KRETPROBE, release) for release in _KRETPROBES[isa]), *rethooks, *newest)


@functools.cache
def programs(isa: str) -> tuple[Build, ...]:
    """What runs a BPF program at the return beside fexit, in order: on the same kernels' kretprobes and fprobes."""
    runs = {KRETPROBE: KRETPROBE_BPF, RETHOOK: MULTI, FPROBE: MULTI}
    return tuple(Build(isa, runs[build.mechanism], build.release) for build in builds(isa) if build.mechanism in runs)


def newest(isa: str) -> dict[str, Build]:
    """Mechanism -> the newest of its kernels, in order."""
    return {build.mechanism: build for build in builds(isa)}


def get(isa: str, mechanism: str) -> Build:
    """The newest kernel of an ISA with a mechanism; raises TramplabError for an unknown one, and for one that the ISA never had."""
    of_name(_WHAT, mechanism, MECHANISMS)
    found = newest(isa) | {build.mechanism: build for build in programs(isa)}
    if mechanism not in found:
        raise TramplabError(f"{isa} never had {mechanism}; it has {', '.join(found)}.")
    return found[mechanism]
