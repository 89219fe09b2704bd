"""The schemes whose interleavings are explored, by name: which kernel, what comes and goes on it, and what is taken for granted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.arguments import of_name
from ...ftrace.ops import Request
from ...lab.kernel import Kernel
from ...trampolines.bpf.request import Bpf
from ...trampolines.direct import Direct
from ...trampolines.plain import Ops
from ..model.fetches import STALE, TORN
from ..subject import Subject
from . import by_hand, stores
from .play import LED, OFF, ON, Stage, in_lab, subject
from .tasks import configured

#: Ops with callbacks of their own, so that one that is called with the other's ops is seen. A dynamic one, as a module has, is
#: always called through the list where it shares its trampoline with others.
REQUESTS: dict[str, Callable[[], Request]] = {
    "a": lambda: Ops(dynamic=False),
    "b": lambda: Ops(dynamic=False, callback="lab_observe"),
    "c": lambda: Ops(dynamic=False),
    "module": Ops,
    "another": lambda: Ops(callback="lab_observe"),
    "near": Direct,
    "far": lambda: Direct(far=True),
    "fexit": lambda: Bpf(fexit=1, kaslr=False),
}
#: The lives of a function, as plays: ops come and go, and come again. Static ones, as the function tracer's, dynamic ones, as a
#: module's, and a direct call, which the site makes itself where it is near.
LIVES = {
    "one": ("+a", "-a", "+a"),
    "again": ("+module", "-module", "+module"),
    "static": ("+a", "+b", "-a", "-b", "+c"),
    "reverse": ("+a", "+b", "-b", "-a", "+c"),
    "dynamic": ("+module", "+another", "-module", "-another", "+a"),
    "near": ("+near", "+a", "-near", "-a", "+b"),
    "far": ("+far", "+a", "-far", "-a", "+b"),
    "beside": ("+a", "+near", "-a", "-near", "+b"),
    "modify": ("+near", "+module", "~near", "-module", "-near", "+a"),
    "batch": ("+a", "+b", "-a", "-b", "+c"),
}
#: The life in which each ops is for another function as well, whose site changes in the same update.
_ALSO = {"batch": ("two_args",)}


@dataclass(frozen=True)
class Scheme:
    """A way to patch a site.

    does: a short description.
    plays, before: the ops that are added and removed, see play.subject().
    fetch: what a CPU may fetch there at worst, one of fetches.MODELS.
    preemptible: can a thread be preempted inside the function and the trampolines?
    hypothetical: why no kernel has it, or "".
    traps: are breakpoints taken by the guest's handler?
    changed: changes that are made to the plan by hand.
    also: functions that its ops are for beside the one that is called.
    """

    name: str
    isa: str
    release: str
    does: str
    plays: tuple[str, ...]
    before: tuple[str, ...] = ()
    fetch: str = STALE
    preemptible: bool = True
    hypothetical: str = ""
    traps: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    changed: Callable[[Subject], Subject] | None = None
    also: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Are all that come and go ops with a callback, and none a direct call?"""
        return all(isinstance(REQUESTS[play.strip(ON + OFF + LED)](), Ops) for play in (*self.plays, *self.before))

    def lived(self, life: str) -> Scheme:
        """The scheme with another of LIVES on the same kernel; raises TramplabError with near matches for a name that is none."""
        return replace(self, plays=of_name("life", life, LIVES), before=(), also=_ALSO.get(life, ()))

    def subject(self, stage: Stage | None = None) -> Subject:
        """The plan, on a lab kernel of its own or on another stage."""
        stage = stage or in_lab(Kernel(self.isa, self.release, traps=self.traps, **self.overrides), self.traps)
        requests = {name: make() for name, make in REQUESTS.items()}
        made = subject(stage, self.plays, requests, self.before, self.preemptible, self.also)
        return configured(self.changed(made) if self.changed else made, self.release)


_LIFE = LIVES["static"]
_ON_OFF_ON = ("+module", "-module", "+another")
_BPF = ("+fexit", "-fexit", "+a")
_PREEMPTION = "kernels with this site are not preemptible; this one is"
_NEVER_WRITTEN = "proposed, and never written"
_NO_BREAKPOINT = "every kernel puts a breakpoint there first"
_SCHEMES = (
    Scheme("arm64-bl", "arm64", "v6.1", "BL or NOP", _ON_OFF_ON),
    Scheme(
        "arm64-common", "arm64", "v6.1", "BL or NOP, and one trampoline that knows its ops from a variable", ("+b", "-a"), ("a",)
    ),
    Scheme("arm64-call-ops", "arm64", "v6.16", "BL or NOP, and a pointer to the ops beside the function", _LIFE),
    Scheme("arm64-direct", "arm64", "v6.16", "the same with a direct call that the BL reaches", LIVES["near"]),
    Scheme("arm64-direct-far", "arm64", "v6.16", "the same with a direct call out of its reach", LIVES["far"]),
    Scheme("arm64-fexit", "arm64", "v6.16", "the same with a BPF trampoline that calls the function and is freed", _BPF),
    Scheme(
        "riscv64-pair16",
        "riscv64",
        "v6.1",
        "AUIPC and JALR between a store and a load of ra, or four NOPs, with the machine stopped",
        _ON_OFF_ON,
        preemptible=False,
    ),
    Scheme("riscv64-pair16-preempt", "riscv64", "v6.1", "the same in a preemptible kernel", _ON_OFF_ON),
    Scheme(
        "riscv64-pair",
        "riscv64",
        "v6.12",
        "AUIPC and JALR or two NOPs, with the machine stopped",
        _ON_OFF_ON,
        preemptible=False,
    ),
    Scheme(
        "riscv64-pair-preempt",
        "riscv64",
        "v6.12",
        "the same in a preemptible kernel",
        _ON_OFF_ON,
        hypothetical=_PREEMPTION,
    ),
    Scheme(
        "riscv64-pair-target",
        "riscv64",
        "v6.12",
        "AUIPC and JALR led from ftrace_caller to a direct call's target, with the machine stopped, in a preemptible kernel",
        (),
        ("module",),
        hypothetical=_PREEMPTION,
        changed=by_hand.leading_elsewhere,
    ),
    Scheme(
        "riscv64-trap",
        "riscv64",
        "v6.12",
        "C.EBREAK in place of both instructions while they change, parcel by parcel; the guest's handler goes on behind them",
        _ON_OFF_ON,
        hypothetical=_NEVER_WRITTEN,
        traps=True,
        changed=by_hand.trapping,
    ),
    Scheme(
        "riscv64-trap-whole",
        "riscv64",
        "v6.12",
        "EBREAK in place of the JALR while the AUIPC changes, each instruction written as a whole",
        _ON_OFF_ON,
        hypothetical=_NEVER_WRITTEN,
        traps=True,
        changed=by_hand.trapping_whole,
    ),
    Scheme(
        "riscv64-trap-stopped",
        "riscv64",
        "v6.12",
        "C.EBREAK in place of the JALR while the AUIPC changes, each step with the machine stopped, and a wait for tasks between",
        _ON_OFF_ON,
        hypothetical=_NEVER_WRITTEN,
        traps=True,
        changed=by_hand.trapping_stopped,
    ),
    Scheme(
        "riscv64-saved-pc",
        "riscv64",
        "v6.12",
        "with the machine stopped, threads between AUIPC and JALR are put back before both, in every set of saved registers",
        _ON_OFF_ON,
        hypothetical=_NEVER_WRITTEN,
        changed=by_hand.putting_back,
    ),
    Scheme(
        "riscv64-newest-pc",
        "riscv64",
        "v6.12",
        "the same, in the newest set of saved registers only",
        _ON_OFF_ON,
        hypothetical=_NEVER_WRITTEN,
        changed=by_hand.putting_back_newest,
    ),
    Scheme(
        "riscv64-fixed-auipc",
        "riscv64",
        "v6.16",
        "the AUIPC written at boot, JALR or NOP behind it",
        _ON_OFF_ON,
        overrides={"call_ops": False},
    ),
    Scheme(
        "riscv64-common",
        "riscv64",
        "v6.16",
        "the same, and one trampoline that knows its ops from a variable",
        ("+b", "-a"),
        ("a",),
        overrides={"call_ops": False},
    ),
    Scheme(
        "riscv64-call-ops", "riscv64", "v6.16", "the AUIPC written at boot, JALR or NOP behind it, and a pointer to the ops", _LIFE
    ),
    Scheme("riscv64-direct", "riscv64", "v6.16", "the same with a direct call that the trampoline makes", LIVES["far"]),
    Scheme("riscv64-fexit", "riscv64", "v6.16", "the same with a BPF trampoline that calls the function and is freed", _BPF),
    Scheme(
        "x86_64-int3",
        "x86_64",
        "v6.12",
        "CALL or NOP under a breakpoint, and a trampoline for each ops",
        ("+a", "-a", "+c"),
        fetch=TORN,
        traps=True,
    ),
    Scheme(
        "x86_64-store",
        "x86_64",
        "v6.12",
        "CALL or NOP with one store of up to eight aligned bytes and no breakpoint, the site within such eight",
        ("+a", "-a", "+c"),
        fetch=TORN,
        hypothetical=_NO_BREAKPOINT,
        overrides={"ibt": False},
        changed=stores.storing,
    ),
    Scheme(
        "x86_64-store-crossing",
        "x86_64",
        "v6.12",
        "the same where a landing pad lies before the site, so that it ends in the next eight bytes",
        ("+a", "-a", "+c"),
        fetch=TORN,
        hypothetical=_NO_BREAKPOINT,
        changed=stores.storing,
    ),
    Scheme(
        "x86_64-common",
        "x86_64",
        "v6.12",
        "the same, and one trampoline that knows its ops from a variable where there are two",
        ("+b", "-a"),
        ("a",),
        fetch=TORN,
        traps=True,
    ),
)
SCHEMES = {s.name: s for s in _SCHEMES}


def scheme(name: str) -> Scheme:
    """The scheme of this name; raises TramplabError with near matches."""
    return of_name("scheme", name, SCHEMES)
