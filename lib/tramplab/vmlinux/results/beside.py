"""The lab kernel of the same ISA, release and build beside a real one: what each executes for the same hook, by component."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ... import isa as isas
from ...base.errors import TramplabError
from ...ftrace import releases
from ...lab.kernel import Kernel
from ...lab.measure import FUNCTIONS
from ...lab.run import Run
from .. import hooks
from .result import MADE

_COPY = re.compile(r"(\.(isra|constprop|part|cold)(\.\d+)*)+$")
#: Parts of a call that are compared: what own code does is nobody's.
COMPARED = ("site", "trampoline", "core")
#: Features that are chosen when a kernel is built -> the option that decides them; those of a group go together, where it is told.
_BUILT = (
    {"call_ops": "DYNAMIC_FTRACE_WITH_CALL_OPS", "direct": "DYNAMIC_FTRACE_WITH_DIRECT_CALLS"},
    {"preemption": "PREEMPTION"},
    {"preempt_rcu": "PREEMPT_RCU"},
    {"ubsan_bounds": "UBSAN_BOUNDS"},
    {"frame_pointer": "FRAME_POINTER"},
    {"ibt": "X86_KERNEL_IBT", "trampoline_endbr": "FTRACE_CALLER_ENDBR"},
    {"call_depth_slots": "CALL_DEPTH_TRACKING"},
    {"bti": "ARM64_BTI_KERNEL"},
    {"compressed": "RISCV_ISA_C"},
)
#: Features that an image may have and the lab's kernel never has.
_NOT_MODELLED = {
    "PREEMPT_LAZY_COUNT": "not modelled: a count of lazy preemption in each task, of the patches for PREEMPT_RT, which "
    "migrate_disable() and the end of each section without preemption look after",
    "DEBUG_LOCK_ALLOC": "not modelled: each lock and each RCU section is told to lockdep",
    "DEBUG_PREEMPT": "not modelled: preemption is counted in functions that look for mistakes",
    "KASAN": "not modelled: each access to memory is checked by KASAN",
    "KCSAN": "not modelled: each access to memory is told to KCSAN",
    "KCOV": "not modelled: each block of code is told to KCOV",
    "STACKPROTECTOR=n": "not modelled: no function checks its stack, as the lab's do",
}
#: Functions of the lab's that stand for one of the kernel's own, and count as callbacks.
_STANDS_FOR = {"lab_livepatch": "klp_ftrace_handler"}
#: The lab's targets of direct calls, which count as trampolines in the lab and as callbacks in a real kernel's run.
_TARGETS = ("lab_direct",)


@dataclass(frozen=True)
class Pair:
    """One component of one hook: instructions, loads and stores of the real kernel and of the lab's."""

    hook: str
    component: str
    real: tuple[int, int, int]
    lab: tuple[int, int, int]

    @property
    def off(self) -> float | None:
        """How far the lab is off, as a part of the real kernel's instructions; None where that executes none."""
        return (self.lab[0] - self.real[0]) / self.real[0] if self.real[0] else None


def pairs(result: dict[str, Any]) -> Iterator[Pair]:
    """Every comparison that can be made for a kernel's result (see result.result), in the order of its hooks; hooks that the lab or
    the real kernel has not are left out, and so is code that the lab has made in both (MADE). The lab's kernel is of the same
    release, or of the nearest that it knows. Raises TramplabError where the lab cannot build a kernel with this one's features."""
    kernel = result["kernel"]
    overridden = overrides(kernel)
    releases.features(isas.get(kernel["isa"]), releases.nearest(kernel["release"]), dict(overridden))
    for row in result["hooks"]:
        hook = hooks.HOOKS.get(row["hook"])
        if row["status"] != "measured" or hook is None:
            continue
        try:
            lab_row = lab(kernel["isa"], kernel["release"], hook.name, *overridden)
        except TramplabError:
            continue
        for component in COMPARED:
            counts = row["components"][component]
            real = (counts["instructions"], counts["loads"], counts["stores"])
            if component == "trampoline":
                for symbol in MADE.keys() & row["symbols"].keys():
                    real = _less(real, row["symbols"][symbol])
            if any(real) or any(lab_row[component]):
                yield Pair(row["hook"], component, real, lab_row[component])


def release(kernel: dict[str, Any]) -> str:
    """The lab's release beside a kernel, for the reader: where it does not know the kernel's own, which one it takes instead.

    >>> release({"release": "v6.12"}), release({"release": "v8.0"})
    ('v6.12', 'v7.2 (the lab does not know v8.0, and this is the nearest that it does)')
    """
    version, nearest = kernel["release"], releases.nearest(kernel["release"])
    return version if version == nearest else f"{nearest} (the lab does not know {version}, and this is the nearest that it does)"


def overrides(kernel: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    """Features to build the lab's kernel with, where this build does not have what its release usually has: those of a group, if
    one of them differs."""
    usual, config = releases.features(isas.get(kernel["isa"]), releases.nearest(kernel["release"]), {}), kernel["config"]
    groups = [{name: config[option] for name, option in group.items() if option in config} for group in _BUILT]
    differ = [group for group in groups if any(bool(usual[name]) != value for name, value in group.items())]
    return tuple(item for group in differ for item in group.items())


def built(kernel: dict[str, Any]) -> list[str]:
    """For the reader: how the lab's kernel beside this one is built otherwise than its release usually is, and what of this one it
    does not model; empty where it is built as usual.

    >>> config = dict.fromkeys(("DYNAMIC_FTRACE_WITH_CALL_OPS", "DYNAMIC_FTRACE_WITH_DIRECT_CALLS"), True)
    >>> config |= {"PREEMPTION": True, "PREEMPT_RCU": True, "UBSAN_BOUNDS": False, "PREEMPT_LAZY_COUNT": False}
    >>> built({"isa": "arm64", "release": "v6.12", "config": config})
    ['built as this kernel: preemption=True, preempt_rcu=True']
    """
    options = [f"{name}={value}" for name, value in overrides(kernel)]
    lines = [f"built as this kernel: {', '.join(options)}"] if options else []
    return lines + [why for option, why in _NOT_MODELLED.items() if kernel["config"].get(option)]


@functools.cache
def _run(isa: str, release: str, hook: str, *overridden: tuple[str, Any], args: int = 1) -> Run:
    """The lab's call of a function with so many arguments, in the nearest release that it knows; raises TramplabError for a hook
    that this release has not there."""
    kernel = Kernel(isa, releases.nearest(release), **dict(overridden))
    called = kernel.function(FUNCTIONS[args])
    with kernel.attached(called, *hooks.get(hook).lab()):
        return kernel.call(called, *range(1, args + 1))


def lab(isa: str, release: str, hook: str, *overridden: tuple[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Instructions, loads and stores of the lab's own run, by component, without MADE; raises TramplabError as _run() does."""
    made = _run(isa, release, hook, *overridden)
    parts = {c: made.counts.by_component[c] for c in COMPARED}
    for name, counts in made.counts.by_symbol.items():
        if (name.startswith(_TARGETS) and "callback" not in name) or plain(name) in MADE:
            parts["trampoline"] -= counts
        if name in _STANDS_FOR:
            parts["core"] += counts
    return {c: (n.instructions, n.loads, n.stores) for c, n in parts.items()}


def added(isa: str, release: str, hook: str, *overridden: tuple[str, Any], args: int) -> int:
    """Instructions that a hook adds to a call in the lab, its callbacks and what a direct call leads to left out; raises
    TramplabError as _run() does."""
    total = []
    for name in (hook, "none"):
        made = _run(isa, release, name, *overridden, args=args)
        inside = sum(made.counts.by_component[c].instructions for c in COMPARED)
        inside += sum(c.instructions for n, c in made.counts.by_symbol.items() if n in _STANDS_FOR)
        targets = [c for n, c in made.counts.by_symbol.items() if n.startswith(_TARGETS) and "callback" not in n]
        total.append(inside - sum(c.instructions for c in targets))
    return total[0] - total[1]


def _less(counts: tuple[int, int, int], others: Sequence[int]) -> tuple[int, int, int]:
    instructions, loads, stores = (a - b for a, b in zip(counts, others, strict=True))
    return instructions, loads, stores


def functions(isa: str, release: str, hook: str, *overridden: tuple[str, Any]) -> dict[str, int]:
    """Instructions of each function of the lab's core and of its trampolines in such a run, by name."""
    made = _run(isa, release, hook, *overridden)
    names = {made.symbol_of(pc) for pc in made.instructions if made.component_of(pc) in ("core", "trampoline")}
    names |= _STANDS_FOR.keys()
    counts = {n: c.instructions for n, c in made.counts.by_symbol.items() if n in names and not n.startswith(_TARGETS)}
    return {plain(_STANDS_FOR.get(n, n)): count for n, count in counts.items()}


def plain(name: str) -> str:
    """A function as both sides call it: without the number of what was made for an ops, and without GCC's word for a copy.

    >>> plain("bpf_trampoline[0]"), plain("hash_contains_ip.isra.0")
    ('bpf_trampoline', 'hash_contains_ip')
    """
    return _COPY.sub("", name.partition("[")[0])
