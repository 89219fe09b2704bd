"""Where the calling convention is tried: every hook, and every kernel that differs, with what each is known to have had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.abi.abi_calls import FUNCTIONS
from tramplab import Direct, Ops
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.ftrace.releases import LATEST, features, parse
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.trampolines.single import WAYS

#: What the studies show, and the releases whose trampolines no shown release has.
RELEASES = tuple(sorted({*releases.shown(), "v6.2", "v6.3", "v6.8"}, key=parse))
_HALF = FUNCTIONS[::2]


def observing(**changes) -> Ops:
    """An ops on all functions whose callback records what it sees and then spoils every register it may."""
    return Ops(**{"callback": "lab_observe_clobber", "filter": FUNCTIONS, **changes})


#: Save sets of trampolines that no kernel has -> what their frame tells a callback besides the arguments.
OWN_SETS = {
    "ip": {"ip"},
    "ip+sp": {"ip", "sp"},
    "live": set(),
    "clobbered": set(),
    "own-args": {"ip", "sp"},
    "own-regs": {"ip", "sp"},
}
#: Functions that get an ops of their own each, as many as there is room for.
_EACH = ("one_arg", "three_args", "big_struct_return", "eight_args")


def _direct(**changes) -> Direct:
    return Direct(observe=True, filter=FUNCTIONS, **changes)


#: hook -> its requests, in the order they are attached.
HOOKS: dict[str, Callable[[], tuple[Request, ...]]] = {
    "none": lambda: (),
    "ops": lambda: (observing(),),
    "ops-regs": lambda: (observing(save="regs"),),
    "ops-x2": lambda: (observing(), observing()),
    "ops-x10": lambda: tuple(observing() for _ in range(10)),
    "ops-everywhere": lambda: (observing(filter=()),),
    "ops-mixed": lambda: (
        observing(),
        observing(filter=_HALF),
        observing(notrace=_HALF),
        observing(filter=("four_args",)),
    ),
    "ops-guarded": lambda: (observing(recursion=True, rcu=True),),
    "ops-static": lambda: (observing(dynamic=False),),
    "ops-static-guarded": lambda: (observing(dynamic=False, recursion=True),),
    "ops-static-regs": lambda: (observing(dynamic=False, save="regs"),),
    "ops+ops-regs": lambda: (observing(), observing(save="regs")),
    **{f"ops-{save}": (lambda save=save: (observing(save=save),)) for save in OWN_SETS},
    "ops-live-each": lambda: tuple(observing(save="live", filter=(name,)) for name in _EACH),
    "ops-ip-guarded": lambda: (observing(save="ip", recursion=True, rcu=True),),
    "ops+ops-ip": lambda: (observing(), observing(save="ip")),
    "direct": lambda: (_direct(),),
    "direct-far": lambda: (_direct(far=True),),
    "direct+ops": lambda: (_direct(), observing()),
    "direct-each": lambda: tuple(Direct(observe=True, far=bool(n % 2), filter=(f,)) for n, f in enumerate(FUNCTIONS)),
}

#: When an ISA had a trampoline that saves all registers, an ftrace_regs, and direct calls: first and last
#: release.
EVER = {
    "args": {"x86_64": ("v5.17", LATEST), "arm64": ("v6.2", LATEST), "riscv64": ("v6.10", LATEST)},
    "regs": {"x86_64": ("v5.17", LATEST), "arm64": ("v5.17", "v6.1"), "riscv64": ("v5.17", "v6.9")},
    "direct": {"x86_64": ("v5.17", LATEST), "arm64": ("v6.4", LATEST), "riscv64": ("v6.8", LATEST)},
}


def _kind(request: Request) -> tuple[type, str]:
    """What tells requests of different hooks apart: their type, and the save set, of which those that no kernel has are one."""
    save = getattr(request, "save", "")
    return type(request), "own" if save in OWN_SETS else save


def needs(request: Request) -> str:
    """The feature that the lab's hook of such a request alone states."""
    found = [hook.needs for hook in hooks.HOOKS.values() if list(map(_kind, hook.requests(1))) == [_kind(request)]]
    assert found, f"no hook of tramplab.lab.hooks is one {type(request).__name__} alone, and says what that needs"
    return found[0]


@dataclass(frozen=True)
class Place:
    """A kernel to test: ISA, release, and what is overridden."""

    isa: str
    release: str
    overrides: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        return "-".join([self.isa, self.release, *(f"{k}={v}" for k, v in self.overrides)])

    def had(self, feature: str) -> bool:
        """Did it have a feature? Of those in EVER by that table, of any other by the release's own."""
        if feature not in EVER:
            return bool(features(ISAS[self.isa], self.release, dict(self.overrides))[feature])
        first, last = EVER[feature][self.isa]
        if feature == "direct" and {("direct", False), ("call_ops", False)} & set(self.overrides):
            return False  # the ISAs that have call_ops build direct calls on it
        return parse(first) <= parse(self.release) <= parse(last)

    def allows(self, hook: str) -> bool:
        """Can the hook be attached there? By what its requests need."""
        return all(self.had(needs(request)) for request in HOOKS[hook]())

    @property
    def passed(self) -> frozenset[str]:
        """What ftrace_caller's frame tells a callback: "registers", and among them "sp".

        riscv64 before v6.8 passes a pointer to something else, v6.8 and v6.9 a pt_regs without sp.
        """
        if self.isa == "riscv64" and parse(self.release) <= parse("v6.9"):
            return frozenset({"registers"} if parse(self.release) >= parse("v6.8") else ())
        return frozenset({"registers", "sp"})


#: Every ISA in every release, and the trampolines that only an unusual configuration has.
PLACES = (
    *(Place(isa, release) for isa in ISAS for release in RELEASES),
    Place("x86_64", "v6.1", (("frame_pointer", True),)),
    Place("x86_64", "v6.12", (("frame_pointer", True),)),
    Place("riscv64", "v6.16", (("call_ops", False),)),
    Place("riscv64", "v6.16", (("direct", False),)),
    # a landing pad before the pair, and sites of four-byte NOPs
    Place("arm64", LATEST, (("bti", True),)),
    Place("riscv64", LATEST, (("compressed", False),)),
    # no kernel has it: without and with landing pads, and with frame pointers
    Place("x86_64", "v6.1", (("call_ops", True),)),
    Place("x86_64", LATEST, (("call_ops", True),)),
    Place("x86_64", LATEST, (("call_ops", True), ("frame_pointer", True))),
)

#: The newest kernels with one ops for all direct calls, in each way that an ISA can have it (trampolines/single), and the hooks
#: that are tried there: those that come by what a way changes.
SINGLE = tuple(Place(isa, LATEST, (("slow_path", way.name),)) for way in WAYS.values() for isa in way.isas)
SINGLE_HOOKS = ("none", "ops", "ops-mixed", "ops-guarded", "direct", "direct-far", "direct-each", "direct+ops")


def distinct() -> dict[Place, tuple[str, ...]]:
    """The first place of each different kernel -> the names of all places that have this kernel.

    The same features give the same guest and the same bookkeeping. What releases.yml says of them must be the same too, so that a
    release cannot hide behind another one by a mistake in its features.
    """
    groups: dict[tuple, list[Place]] = {}
    for place in PLACES:
        values = features(ISAS[place.isa], place.release, dict(place.overrides)).values
        expected = place.had("args"), place.had("regs"), place.had("direct"), place.passed
        groups.setdefault((place.isa, expected, *sorted(values.items())), []).append(place)
    return {group[0]: tuple(map(str, group)) for group in groups.values()}
