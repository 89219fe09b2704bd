"""Which hooks leave the CPU's return stack as it was, and what does it cost where one does not?"""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate.returnstack import CALLERS, replay
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines import shapes

from ...publish.figures.figure import Figure
from ..memo import once
from ..shared.hypothetical import named

NAME = "return_stack"
TITLE = "Mispredicted returns of one call"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
UNITS: dict[str, str] = {}
#: Trampolines that differ in nothing but the way out.
SHAPES = {"jump back": shapes.Shape(8, 1, False), "return back": shapes.Shape(8, 1, True)}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and hook, and two trampolines of our own that differ in their way out.

    Columns: isa, release, hook, hypothetical (no kernel has it), own (mispredicted returns in the call), outer (of the callers
    above it), first (the first that is mispredicted, "" if none).
    """
    records = []
    for isa in ISAS:
        for release in releases.shown():
            kernel = Kernel(isa, release, meter=RECORD)
            function = kernel.function(FUNCTION)
            for hook in hooks.PLAIN.values():
                if not kernel.features[hook.needs]:
                    continue
                for callbacks in (1, 2) if hook.counts else (1,):
                    with kernel.attached(function, *hooks.requests(hook, callbacks)):
                        name = hooks.label(hook.name, callbacks)
                        records.append(_row(isa, release, name, kernel.call(function, *ARGUMENTS)))
            if release == releases.LATEST:
                for name, shape in SHAPES.items():
                    with kernel.attached(function, shape):
                        records.append(_row(isa, release, name, kernel.call(function, *ARGUMENTS)))
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _row(isa: str, release: str, hook: str, run: Run) -> dict[str, object]:
    r = replay(run)
    return {
        "isa": isa,
        "release": release,
        "hook": hook,
        "hypothetical": hook in SHAPES or hooks.hypothetical(hook, isa, release),
        "own": r.own,
        "outer": r.outer,
        "first": r.where[0].place if r.where else "",
    }


def wrong(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of hooks that mispredict a return in any release; further callbacks are left out where they change nothing."""
    shown = frame[_key(frame).isin(set(_key(missed(frame))))]
    found = {key: tuple(part["own"]) + tuple(part["outer"]) for key, part in shown.groupby(_key(shown))}
    same = [" x" in hook and found.get(f"{isa} {hook.partition(' x')[0]}") == found[f"{isa} {hook}"]
            for isa, hook in zip(shown["isa"], shown["hook"], strict=True)]  # fmt: skip
    return shown[[not s for s in same]]


def missed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a mispredicted return, in the call or above it."""
    return frame[(frame["own"] > 0) | (frame["outer"] > 0)]


def hooked(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of what can be attached: not the unhooked call, and not the two trampolines that differ in the way out alone."""
    return frame[~frame["hook"].isin([*SHAPES, "none"])]


def _key(frame: pd.DataFrame) -> pd.Series:
    return frame["isa"] + " " + frame["hook"]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines of golden() that are not 0 throughout."""
    return golden(wrong(frame))


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and hook, mispredictions in the call and above it, a column per release: "0+0"."""
    both = frame["own"].astype(str) + "+" + frame["outer"].astype(str)
    data = named(frame.assign(both=both))
    wide = data.pivot_table(index=["isa", "hook"], columns="release", values="both", aggfunc="first", sort=False)
    return wide[list(releases.shown())].reset_index().fillna("-").rename_axis(columns=None)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: which hooks mispredict a return in any release, "hooks"; the shared direct call
    ("shared") and the fexit program ("fexit") of x86-64 in the last release shown that shifts the stack ("shared-old-own"),
    and in the next one ("shared-new-own"); and the fexit program elsewhere ("arm64-fexit-own")."""
    real = hooked(frame)
    values: dict[str, object] = {
        "hooks": ", ".join(dict.fromkeys(hook.partition(" ")[0] for hook in missed(real)["hook"])),
        "callers": CALLERS,
    }
    for name, hook in (("shared", "direct+ops"), ("fexit", "bpf-fexit")):
        mine = real[(real["isa"] == "x86_64") & (real["hook"] == hook)]
        for when, r in (("old", mine[mine["outer"] > 0].iloc[-1]), ("new", mine[mine["outer"] == 0].iloc[0])):
            values |= {f"{name}-{when}-release": r["release"], f"{name}-{when}-own": int(r["own"])}
    newest = real[(real["hook"] == "bpf-fexit") & (real["release"] == releases.LATEST)]
    values |= {f"{r.isa}-fexit-own": r.own for r in newest.itertuples()}
    return values


FIGURES = (
    Figure(
        "fig-return-stack",
        "Which hooks leave the return stack as they found it?",
        table=table,
        limits="Exact under the model of a return stack that nothing repairs. Hooks without any are left out.",
        legend=f"Mispredicted returns in the call + of the {CALLERS} callers above it.",
        hypothetical=True,
    ),
)
