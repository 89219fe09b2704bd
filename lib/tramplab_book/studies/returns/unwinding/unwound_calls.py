"""Calls that are seen returning, with a stack trace before every instruction: by which mechanisms and in which kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from tramplab.ftrace.meant import kretprobes_on_return_hooks
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, LATEST, RETHOOK, Build, builds, get, newest
from tramplab.unwind import recovery
from tramplab.unwind.stacks import DOUBLED, MISSING, RETURNED, RIGHT, WRONG

from ....publish.phrases import marked
from ...direct.stacks.stack_calls import ASLEEP, BODY, FRAMES, RETURN, SITE, Variant, traced_both
from ...memo import once

#: Where a trace is taken: in the handler at the entry, in the function, of a task that sleeps in what it calls, in the return
#: trampoline, in the handler at the return, elsewhere in the hook.
ENTRY, FUNCTION, SLEEPING, TRAMPOLINE, EXIT, ELSEWHERE = PLACES = (
    "at entry",
    "function",
    "asleep",
    "trampoline",
    "at return",
    "elsewhere",
)
UNHOOKED = "no hook"
#: ISAs on which a kretprobe's return trampoline has become another one, so that older kernels are shown.
OLDER = ("arm64",)
#: ISAs whose unwinders ask every mechanism.
BOTH_ASKED = tuple(isa for isa, names in recovery.ASKED.items() if set(names) == set(recovery.MECHANISMS))
#: Two on one function, the first registered first.
PAIRS = ((FGRAPH, KRETPROBE), (KRETPROBE, FGRAPH))
#: Handlers at either end; BPF's programs are the same at both, and told apart by the function having returned.
_HANDLERS = (*(f"lab_{kind}_{end}" for kind in ("kretprobe", "fprobe", "graph") for end in ("entry", "exit", "return")),)
_PROGRAM = "lab_bpf_count"
_WORST = (WRONG, MISSING, DOUBLED)


@dataclass(frozen=True)
class Case:
    """The builds that are attached, in which kernel.

    name: as shown, without its recovery.
    parts: the builds whose probes are attached, in this order; all of one kernel.
    """

    name: str
    isa: str
    parts: tuple[Build, ...]

    @property
    def release(self) -> str:
        """The release of the case's kernel."""
        return self.parts[0].release if self.parts else LATEST

    def kernel(self) -> Kernel:
        """The case's kernel, booted."""
        return self.parts[0].kernel() if self.parts else newest(self.isa)[KRETPROBE].kernel()

    def variant(self) -> Variant:
        """The case as a variant that chapter 2 attaches."""
        return Variant(lambda: [build.request(entry=True) for build in self.parts], "")


def cases(isa: str) -> list[Case]:
    """The cases of an ISA: no hook, every mechanism in its newest kernel, arm64's kretprobe in its older ones too, and two on one
    function where the unwinder asks for both."""
    alone = [build for build in builds(isa) if build == newest(isa)[build.mechanism] or build.isa in OLDER]
    pairs = [Case(" + ".join(pair), isa, tuple(get(isa, name) for name in pair)) for pair in PAIRS if isa in BOTH_ASKED]
    return [Case(UNHOOKED, isa, ()), *(Case(build.name, isa, (build,)) for build in alone), *pairs]


def asked(kernel: Kernel, case: Case) -> bool:
    """Does this kernel's unwinder look up the return addresses that all mechanisms of a case replace?"""
    return all(needs(kernel, build.mechanism) in ("", *recovery.ASKED[kernel.isa.name]) for build in case.parts)


def needs(kernel: Kernel, mechanism: str) -> str:
    """The one of recovery.MECHANISMS that knows the calls that a mechanism hooks; "" if it hooks none."""
    own = recovery.HOOKS if kretprobes_on_return_hooks(kernel.features) else recovery.INSTANCES
    return _NEEDS.get(mechanism, own)


_NEEDS = {RETHOOK: recovery.HOOKS, FGRAPH: recovery.GRAPH, FPROBE: recovery.GRAPH, FEXIT: ""}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, case, whether hooked returns are looked up, place of the trace, and what it says.

    Columns: isa, name, release, recovered, real (so does the kernel's unwinder), pair (two on one function), hooks (a return is
    hooked), place (one of PLACES), symbol, function, caller, outer (see studies.direct.stacks.stack_calls), worst (of
    unwind.stacks.STATES), error (why the chain ended early, or ""), guessed, boundaries (instructions).
    """
    frame = pd.DataFrame([row for isa in ISAS for case in cases(isa) for row in _of(case)])
    frame.attrs["units"] = {}
    return frame


def _of(case: Case) -> Iterator[dict[str, object]]:
    kernel = case.kernel()
    known, hooks = asked(kernel, case), any(needs(kernel, build.mechanism) for build in case.parts)
    both = (True, False) if hooks and len(case.parts) == 1 else (True,)
    for row in traced_both(kernel, case.variant(), both):
        recovered = row["recovered"]
        head = {"isa": case.isa, "name": case.name, "release": case.release, "recovered": recovered}
        head |= {"real": not hooks or recovered == known, "pair": len(case.parts) > 1, "hooks": hooks}
        kept = {key: row[key] for key in ("symbol", *FRAMES, "error", "guessed", "boundaries")}
        yield {**head, "place": place(row), **kept, "worst": worst(row)}


def place(row: dict[str, object]) -> str:
    """The place at which the trace of one of stack_calls' rows is taken."""
    symbol, over = str(row["symbol"]), row["function"] == RETURNED
    if symbol in _HANDLERS or symbol == _PROGRAM:
        return EXIT if over else ENTRY
    known = {ASLEEP: SLEEPING, BODY: FUNCTION, SITE: FUNCTION}
    return known.get(str(row["where"]), TRAMPOLINE if row["code"] == RETURN else ELSEWHERE)


def worst(row: dict[str, object]) -> str:
    """The worst state of a row's frames, where "the function has returned" does not count."""
    return next((state for state in _WORST if state in [row[frame] for frame in FRAMES]), RIGHT)


def named(frame: pd.DataFrame) -> list[str]:
    """How figures name a case: with whether hooked returns are looked up, and the mark of what no kernel's unwinder does."""
    rows = zip(frame["name"], frame["recovered"], frame["real"], strict=True)
    return [marked(name + ("" if recovered else ", not asked"), not real) for name, recovered, real in rows]
