"""Which returns does a core mispredict when a function is seen returning, and by which instruction?"""

from __future__ import annotations

import pandas as pd

from tramplab.estimate.returnstack import CALLERS, ENTRIES, ReturnStackResult, events, replay, settled
from tramplab.isa import ISAS
from tramplab.lab.call import RecordedCall
from tramplab.lab.run import Run
from tramplab.returns.mechanisms import Build, builds
from tramplab.vmlinux.booted.mitigations import SRSO
from tramplab.vmlinux.saved import saved

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ....publish.table import pivot
from ...memo import once
from ..costs.return_costs import FUNCTION, calls

NAME = "return_predicted"
TITLE = "Mispredicted returns of a call that is seen returning"
#: The mispredicted return: the function's own, another one in the call, those of the callers above it.
OWN, HOOK, ABOVE = PARTS = ("the function's", "the hook's", "callers'")
UNITS = {"returns": "mispredicted"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism and whose returns they are: how many a core mispredicts with a return stack of 16 entries.

    Columns: isa, mechanism, release, name (as shown), part (a name of PARTS), returns, by (the instruction of the first of them,
    or ""); and for the whole call, in each of its rows: own and outer (in the call, and of 8 callers above it), settled (per call,
    when a loop makes it over and over, so that no caller returns), left (entries that a call leaves on the stack more than were
    there before it; negative: takes), leaves (the instruction that goes back to the caller).
    """
    records = []
    for isa in ISAS:
        for build in builds(isa):
            hooked, _ = calls(build)
            head = {"isa": isa, "mechanism": build.mechanism, "release": build.release, "name": build.name}
            whole = _whole(hooked)
            records += [{**head, **part, **whole} for part in _parts(hooked, replay(hooked))]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _parts(run: Run, found: ReturnStackResult) -> list[dict[str, object]]:
    call = RecordedCall.of(run)
    missed: dict[str, list[str]] = {part: [] for part in PARTS}
    for miss in found.where:
        if miss.step is None:
            missed[ABOVE].append("")
        else:
            step = call.instructions[call.steps[miss.step].pc]
            missed[OWN if miss.place.partition("+")[0] == FUNCTION else HOOK].append(step.mnemonic)
    return [{"part": p, "returns": len(steps), "by": next(iter(steps), "")} for p, steps in missed.items()]


def _whole(run: Run) -> dict[str, object]:
    call, found = RecordedCall.of(run), replay(run)
    happened = events(call)
    return {
        "own": found.own,
        "outer": found.outer,
        "settled": settled(run),
        "left": 1 + sum(e.link.pushes - e.link.pops for e in happened),  # it returns once, and its caller's call is not in it
        "leaves": call.instructions[call.steps[-1].pc].mnemonic,
    }


# --- What is shown


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and mechanism: what is known of the whole call, and what it mispredicts by part."""
    keys = "isa", "mechanism", "release", "name", "own", "outer", "settled", "left", "leaves"
    return pivot("returns", "part", index=keys, total=False)(frame)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and mechanism: mispredicted returns of the function, the hook and the callers, per call in a loop, in Debian's
    kernel with mitigations, what a call leaves on the stack, and by which instruction the caller is gone back to."""
    data = whole(frame)
    printed = data[["isa", "name"]].assign(**{short: data[part] for short, part in zip(_SHORT, PARTS, strict=True)})
    printed["loop"] = data["settled"]
    printed["left"] = [f"{n:+d}" if n else "0" for n in data["left"]]
    printed["leaves by"] = data["leaves"]
    printed.insert(6, "SRSO", [_safe(str(r.isa), str(r.release), str(r.mechanism)) for r in data.itertuples()])
    printed.attrs["right"] = [*_SHORT, "loop", "SRSO", "left"]
    return printed


def _safe(isa: str, release: str, mechanism: str) -> str:
    """Mispredicted returns of the call in Debian's kernel, booted with retpolines and SRSO's safe return; "-" for none counted."""
    counted = saved.with_mitigations(release, Build(isa, mechanism, release).image, SRSO) if isa == "x86_64" else None
    return str(counted[1]) if counted else "-"


_SHORT = ("function", "hook", "callers")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "x86_64-kretprobe-missed-in-call" of the newest kernel and
    "arm64-kretprobe-v6-1-missed-in-call"; "-missed-above" of the callers, "-missed-in-loop" per call in a loop."""
    values: dict[str, object] = {}
    for r in whole(frame).itertuples():
        key = f"{r.isa}-{slug(r.name)}-missed"
        values |= {f"{key}-in-call": int(r.own), f"{key}-above": int(r.outer), f"{key}-in-loop": int(r.settled)}
    return values


FIGURES = (
    Figure(
        "fig-return-predicted",
        "Which returns does seeing a function return mispredict?",
        chart=lambda frame: stacked_bars("returns", bars=("name",), stack="part")(frame),
        table=table,
        alt="A panel per ISA with a bar per mechanism: mispredicted returns of one call, split into the function's own, the hook's "
        f"and those of {CALLERS} callers above it. The table has the same per call in a loop, what a call leaves on the return "
        "stack, and the instruction that goes back to the caller.",
        limits=f"Emulated calls and a model of the return stack: {ENTRIES} entries, repaired by nothing, left alone by exceptions; "
        f"no timing. {CALLERS} callers return without calling. loop: per call, when a loop makes it over and over. SRSO: of the "
        "call in Debian's kernel of that release, booted with retpolines and safe returns; callers' returns miss after any call.",
        source="both",
    ),
)
