"""What would keep calls and returns in pairs around a fexit program on arm64 and riscv64, as x86-64's jump does?"""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate.returnstack import CALLERS, events, replay
from tramplab.ftrace import releases
from tramplab.lab.call import RecordedCall
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.bpf.request import JUMP, POP

from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once

NAME = "level"
TITLE = "Fexit with calls and returns in pairs"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
UNITS = {"instructions": "insns"}
#: x86-64's last release shown whose site calls the trampoline.
CALLED = "v6.16"
#: Where a trampoline lies: in a site's reach, which on arm64 it is without KASLR only, or out of it.
NEAR, FAR = "near", "far"
#: (ISA, release, way, hypothetical?, place): how a site that has the address gets to the trampoline, and what that does.
_CASES = (
    ("x86_64", CALLED, "call", "", NEAR),
    ("x86_64", releases.LATEST, "jump", "", NEAR),
    *(("arm64", releases.LATEST, way or "call", way, place) for place in (NEAR, FAR) for way in ("", JUMP, POP)),
    *(("riscv64", releases.LATEST, way or "call", way, FAR) for way in ("", POP)),
)


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way to the trampoline of one fexit program and place of it.

    Columns: isa, release, way ("call"; "jump"; "pop": a call, whose entry the trampoline then removes), hypothetical
    (no kernel has it), place (near or far: does a site reach it?), instructions (that the hook adds), pushes and pops (of the call,
    from the function's first instruction to its caller), own and above (mispredicted returns, of the call and of 8 callers).
    """
    frame = pd.DataFrame([_row(*case) for case in _CASES])
    frame.attrs["units"] = UNITS
    return frame


def _row(isa: str, release: str, way: str, level: str, place: str) -> dict[str, object]:
    kernel = Kernel(isa, release, meter=RECORD)
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS)
    with kernel.attached(function, Bpf(fexit=1, level=level, kaslr=place == FAR)):
        run = kernel.call(function, *ARGUMENTS)
        links, found = [event.link for event in events(RecordedCall.of(run))], replay(run)
    return {
        "isa": isa,
        "release": release,
        "way": way,
        "hypothetical": bool(level),
        "place": place,
        "instructions": run.counts.total.instructions - idle.counts.total.instructions,
        "pushes": sum(link.pushes for link in links),
        "pops": sum(link.pops for link in links),
        "own": found.own,
        "above": found.outer,
    }


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per row; the way has a mark where no kernel has it."""
    out = frame.assign(way=[marked(r.way, bool(r.hypothetical)) for r in frame.itertuples()])
    return out.drop(columns="hypothetical").rename(columns={"instructions": "adds", "own": "in call", "above": "callers"})


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "arm64-jump-near-own": mispredicted returns of the call; "-above", of its callers, and of
    what no kernel has "-more", instructions over the call to the same place; and "callers"."""
    values: dict[str, object] = {"callers": CALLERS}
    called = {(r.isa, r.release, r.place): r.instructions for r in frame[frame["way"] == "call"].itertuples()}
    for r in frame.itertuples():
        key = f"{r.isa}-{r.way}-{r.place}"
        values |= {f"{key}-own": r.own, f"{key}-above": r.above}
        if r.hypothetical:
            values[f"{key}-more"] = r.instructions - called[r.isa, r.release, r.place]
    return values


FIGURES = (
    Figure(
        "fig-level-fexit",
        "Can fexit leave the return stack as it was on arm64 and riscv64?",
        table=table,
        limits="Emulated calls and a model of a return stack; no timing. One fexit program that counts, on a function of three "
        f"arguments; {CALLERS} callers. A hart may ignore riscv64's hints.",
        legend=f"pushes, pops: of the call. in call, callers: mispredicted returns in it, and of {CALLERS} callers above it.",
        hypothetical=True,
    ),
)
