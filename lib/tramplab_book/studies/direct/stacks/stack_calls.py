"""Calls of which a stack trace is taken at every instruction: by which hooks, in which kernels, and what each trace says."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.fprobe import Fprobe
from tramplab.trampolines.plain import Ops
from tramplab.unwind.recovery import TRAMPOLINES
from tramplab.unwind.stacks import FP, ORC, Seen, watch_both, way

from ....publish.phrases import isa_name, marked
from ...memo import once

#: The outer caller. It calls the first traced function, which calls the second; the second one may sleep.
CALLS, TRACED, ARGUMENTS = "calls_others", "two_args", (1, 2, 3)
#: Where a trace is taken: in the callback or program, elsewhere in the hook, at the site, in the function, and of a task that
#: sleeps in what the function calls.
PROGRAM, HOOK, SITE, BODY, ASLEEP = PLACES = ("program", "hook", "site", "function", "asleep")
FRAMES = ("function", "caller", "outer")
#: The code that a hook's instruction is part of: ftrace's trampoline, its copies included; the target of a direct call; the return
#: trampoline; code compiled from C.
FTRACE, CALLED, RETURN, C = CODE = ("ftrace's trampoline", "direct call's trampoline", "return trampoline", "C code")
#: For a frame that does not exist in that call.
ABSENT = "-"


@dataclass(frozen=True)
class Variant:
    """A hook: what is attached, and the guest function that is its consumer.

    hooks_return: does the function return to a return trampoline?
    looked_up: ISAs whose unwinders look up the return address that it replaced.
    kernel: one of KERNELS.
    way: see trampolines/single.
    isas: that have it.
    unlike: no kernel has it on any ISA.
    """

    requests: Callable[[], list[Request]]
    program: str
    kernel: str = "newest"
    hooks_return: bool = False
    looked_up: tuple[str, ...] = ("x86_64", "arm64")
    way: str = ""
    isas: tuple[str, ...] = tuple(ISAS)
    unlike: bool = False


@dataclass(frozen=True)
class Build:
    """A kernel; hypothetical: has no kernel of this ISA what is attached in it?"""

    release: str
    overrides: tuple[tuple[str, str], ...] = ()
    hypothetical: bool = False


def _each(build: Callable[[str], Build]) -> dict[str, Build]:
    return {isa: build(isa) for isa in ISAS}


def _rethook(pool: str) -> Callable[[str], Build]:
    """The last kernel shown that had fprobes on return hooks, with another pool; the newest where none had any."""

    def build(isa: str) -> Build:
        last = {"x86_64": "v6.12", "riscv64": "v6.9"}.get(isa, releases.LATEST)
        known = releases.features(ISAS[isa], last, {})["rethook"] == pool
        return Build(last, () if known else (("rethook", pool),), not known)

    return build


KERNELS: dict[str, dict[str, Build]] = {
    "newest": _each(lambda _: Build(releases.LATEST)),
    "called": {"x86_64": Build("v6.12")},
    **{pool: _each(_rethook(pool)) for pool in ("objpool", "freelist", "shadow")},
}
_BPF, _STUB, _ALONE = "lab_bpf_count", "lab_direct_callback", ("arm64", "riscv64")
VARIANTS: dict[str, Variant] = {
    "none": Variant(list, ""),
    "ops": Variant(lambda: [Ops()], "lab_callback"),
    "fentry": Variant(lambda: [Bpf(fentry=1)], _BPF),
    "far stub": Variant(lambda: [Direct(far=True)], _STUB, isas=_ALONE),
    "fentry+ops": Variant(lambda: [Bpf(fentry=1), Ops()], _BPF),
    "fexit": Variant(lambda: [Bpf(fexit=1)], _BPF),
    "fexit, called": Variant(lambda: [Bpf(fexit=1)], _BPF, "called", isas=("x86_64",)),
    "fprobe": Variant(lambda: [Fprobe()], "lab_fprobe_entry", "objpool"),
    "fprobe declined": Variant(lambda: [Fprobe(exit=True, declines=True)], "lab_fprobe_decline", "objpool"),
    "fprobe exit": Variant(lambda: [Fprobe(entry=False, exit=True)], "lab_fprobe_exit", "objpool", True),
    "exit, freelist": Variant(lambda: [Fprobe(entry=False, exit=True)], "lab_fprobe_exit", "freelist", True),
    "exit, shadow": Variant(lambda: [Fprobe(entry=False, exit=True)], "lab_fprobe_exit", "shadow", True),
    "fprobe, today": Variant(lambda: [Fprobe()], "lab_fprobe_entry"),
    "exit, graph": Variant(lambda: [Fprobe(entry=False, exit=True)], "lab_fprobe_exit", "newest", True, tuple(ISAS)),
    "BPF on fprobe": Variant(lambda: [Fprobe(bpf=True, exit=True)], _BPF, "objpool", True, unlike=True),
    **{name: Variant(lambda: [Direct(far=True)], _STUB, way=name, isas=_ALONE, unlike=True) for name in ("lookup", "lookup-c")},
    **{name: Variant(lambda: [Direct(far=True)], _STUB, way=name, isas=_ALONE, unlike=True) for name in ("literal", "beside")},
}
#: Direct calls: those that BPF makes, and one as far away as arm64's may lie.
BPF_CALLS = ("fentry", "fentry+ops", "fexit")
DIRECT = (*BPF_CALLS, "far stub")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way of unwinding, hook, whether hooked returns are looked up, and stretch of instructions of which traces
    say the same.

    Columns: isa, unwound (FP or ORC), variant, release, hypothetical, recovered, where (one of PLACES), symbol, code (whose it
    is: of CODE, or the place again where it is not the hook's), first and last (symbol+offset), boundaries (instructions),
    function, caller, outer (the caller's caller; what of each is found: unwind.stacks.STATES, or ABSENT), error (why the trace
    ended early, or ""), guessed (a frame record is assumed in code that ORC does not know).
    """
    frame = pd.DataFrame([row for isa in ISAS for row in _of(isa)])
    frame.attrs["units"] = {}
    return frame


def _of(isa: str) -> Iterator[dict[str, object]]:
    """The rows of one ISA."""
    for pointers in (True, False) if isa == "x86_64" else (True,):
        made = functools.cache(functools.partial(_kernel, isa, pointers))
        for name, variant in VARIANTS.items():
            if isa in variant.isas:
                build = KERNELS[variant.kernel][isa]
                kernel = made(build, variant.way)
                head: dict[str, object] = {"isa": isa, "unwound": way(kernel), "variant": name, "release": build.release}
                head["hypothetical"] = build.hypothetical or variant.unlike
                both = (True, False) if variant.hooks_return else (True,)
                yield from (head | row for row in traced_both(kernel, variant, both))


def _kernel(isa: str, pointers: bool, build: Build, single: str) -> Kernel:
    overrides: dict[str, Any] = dict(build.overrides)
    return Kernel(isa, build.release, meter=RECORD, slow_path=single, frame_pointer=pointers, **overrides)


def traced(kernel: Kernel, variant: Variant, recovered: bool = True) -> list[dict[str, object]]:
    """One call with the hook on TRACED, and one with it on CALLS, for the moments at which a task can sleep in what that calls."""
    return traced_both(kernel, variant, (recovered,))


def traced_both(kernel: Kernel, variant: Variant, recovered: Collection[bool]) -> list[dict[str, object]]:
    """The rows of traced() for each value of `recovered`, of the same two calls: are hooked returns looked up?"""
    by_name: dict[bool, list[dict[str, object]]] = {looked_up: [] for looked_up in recovered}
    for function in (TRACED, CALLS):
        of = kernel.function(function)
        with kernel.attached(of, *variant.requests()):
            run, seen = watch_both(kernel, kernel.function(CALLS), of, ARGUMENTS, recovered)
        for looked_up, moments in seen.items():
            shown = [s for s in moments if s.asleep] if function == CALLS else moments
            by_name[looked_up] += ({"recovered": looked_up, **row} for row in _stretches(kernel, run, shown, variant.program))
    return [row for rows in by_name.values() for row in rows]


def _stretches(kernel: Kernel, run: Run, seen: list[Seen], program: str) -> Iterator[dict[str, object]]:
    """Moments as stretches."""

    def told(s: Seen) -> dict[str, object]:
        symbol, component = run.symbol_of(s.pc), run.component_of(s.pc)
        where = ASLEEP if s.asleep else {"site": SITE, "function": BODY}.get(component, HOOK)
        if program and symbol.removesuffix("_far") == program:
            where = PROGRAM
        states = (*s.states, *[ABSENT] * len(FRAMES))[: len(FRAMES)]
        return {
            "where": where,
            "symbol": symbol,
            "code": _code(symbol, component) if where in (PROGRAM, HOOK) else where,
            **dict(zip(FRAMES, states, strict=True)),
            "error": s.error,
            "guessed": s.guessed,
        }

    for about, part in itertools.groupby(seen, key=told):
        places = [run.name_of(s.pc) or hex(s.pc) for s in part]
        yield {**about, "first": places[0], "last": places[-1], "boundaries": len(places)}


def _code(symbol: str, component: str) -> str:
    """Whose an instruction of a hook is."""
    if component != "trampoline":
        return C
    return RETURN if symbol in TRAMPOLINES else FTRACE if symbol.startswith("ftrace_") else CALLED


def kernels_named(frame: pd.DataFrame) -> pd.Series:
    """How figures name a kernel: its ISA, and how it is unwound where there are two ways."""
    both = {isa for isa, part in frame.groupby("isa") if part["unwound"].nunique() > 1}
    texts = {FP: "frame pointers", ORC: "ORC"}
    names = [isa_name(i) + (f", {texts[u]}" if i in both else "") for i, u in zip(frame["isa"], frame["unwound"], strict=True)]
    return pd.Series(names, index=frame.index)


def asked(frame: pd.DataFrame) -> pd.Series:
    """Whether each row is of hooked returns that are looked up, or not, as an unwinder of the ISA does; of other hooks all are."""
    hooks = frame["variant"].map(lambda name: VARIANTS[name].hooks_return)
    known = [isa in VARIANTS[name].looked_up for isa, name in zip(frame["isa"], frame["variant"], strict=True)]
    return ~hooks | (frame["recovered"] == known)


def named(frame: pd.DataFrame) -> pd.Series:
    """How figures name a hook: whether hooked returns are looked up where that matters, and the mark of what no kernel has."""
    names = frame["variant"] + frame["recovered"].map({True: "", False: ", not looked up"})
    marks = zip(names, frame["hypothetical"] | ~asked(frame), strict=True)
    return pd.Series([marked(n, bool(h)) for n, h in marks], index=frame.index)
