"""What does the frame-pointer fix-up of a trampoline buy while a callback runs, what does it cost, and who lacks it?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...analyse.unwind import BOTH, CALLER, FUNCTION, NEITHER
from ...emulate.machine import RECORD
from ...ftrace import releases
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish.claims.verdict import BY_ISA, Verdict, across, judges
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..once import once
from . import unwinding

NAME = "fix_up"
TITLE = "What an unwinder sees from inside a callback or program"
HOOKS = {"ops": "ftrace's", "bpf-fentry": "generated, fentry", "bpf-fexit": "generated, fexit"}
#: The ISA on which the fix-up comes and goes with the kernel's frame pointers, and cores it is estimated for.
BUILT_EITHER_WAY, CORES = "x86_64", ("skylake", "zen5")
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, hook and who makes frame records (see unwinding.rows) in the newest release, while the callback or
    program runs, which may be once or twice around the function.

    Columns: isa, hook, records, boundaries (instructions of the callback), function, caller and both (at how many of them a
    plain unwinder finds the traced function, its caller, one behind the other).
    """
    seen = unwinding.rows()
    part = seen[
        (seen["release"] == releases.LATEST)
        & (seen["unwinder"] == unwinding.PLAIN)
        & (seen["component"] == "callback")
        & seen["hook"].isin(list(HOOKS))
    ]
    out = []
    for (isa, hook, records), own in part.groupby(["isa", "hook", "records"], sort=False):
        sums = own.groupby("found")["boundaries"].sum()
        both = int(sums.get(BOTH, 0))
        seen_here = {
            name: both + int(sums.get(found, 0)) for name, found in (("function", FUNCTION), ("caller", CALLER))
        }
        head = {"isa": isa, "hook": hook, "records": records, "boundaries": int(own["boundaries"].sum())}
        out.append({**head, **seen_here, "both": both, "neither": int(sums.get(NEITHER, 0))})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


@once
def cost() -> dict[str, Any]:
    """What the fix-up adds to one ops on x86-64: instructions, loads and stores, and per core estimated cycles with their
    band ("skylake", "skylake-band"); the kernel's other parts are built alike, and the function is one that makes no record."""
    with_it, without = (_hooked(pointers) for pointers in (True, False))
    hooked, plain = (run.counts.by_component["trampoline"].as_dict() for run in (with_it, without))
    out: dict[str, object] = {name: hooked[name] - plain[name] for name in ("instructions", "loads", "stores")}
    for name in CORES:
        e = cycles.estimate(with_it, without, core(name))
        out |= {name: round(float(e.mid)), f"{name}-band": f"{e.low:.0f} to {e.high:.0f}"}
    return out


def _hooked(frame_pointer: bool) -> Run:
    kernel = Kernel(BUILT_EITHER_WAY, meter=RECORD, frame_pointer=frame_pointer)
    function = kernel.function(unwinding.TRACED)
    with kernel.attached(function, Ops()):
        return kernel.call(function, *unwinding.ARGUMENTS[:2])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """All rows, with the hook in words."""
    return frame.assign(hook=frame["hook"].map(HOOKS)).rename(columns={"hook": "trampoline"})


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: what the fix-up costs, see cost()."""
    return cost()


@judges("v5")
def generated_lacks_the_fixup(frame: pd.DataFrame | None = None) -> Verdict:
    """Per ISA, in a kernel with frame pointers: from inside an fentry program, is the function or its caller never found?"""
    frame = rows() if frame is None else frame
    built = frame[(frame["hook"] == "bpf-fentry") & (frame["records"] != unwinding.NOBODY)]
    kind, on = across(built.assign(truth=built["both"] == 0), BY_ISA)
    told: list[str] = []
    found: dict[str, int | float | str] = {}
    for isa, own in frame[frame["records"] != unwinding.NOBODY].groupby("isa", sort=False):
        name = {"x86_64": "x86-64"}.get(isa, isa)
        last = own.groupby("hook", sort=False).last()
        ops, made = last.loc["ops"], last.loc["bpf-fentry"]
        told.append(f"{name} {made['both']} of {made['boundaries']}, ftrace's own {ops['both']} of {ops['boundaries']}")
        found |= {f"{name}, generated": f"{made['both']} of {made['boundaries']}"}
        found |= {f"{name}, ftrace's": f"{ops['both']} of {ops['boundaries']}"}
    price = cost()
    because = (
        "With frame pointers, at so many instructions of the callback or program an unwinder finds the traced function and its "
        f"caller: {'; '.join(told)}. On x86-64 the generated trampoline makes one record, and the function's caller is missing; "
        "on the other two it makes a record for the function as well. The fix-up costs ftrace's trampoline on x86-64 "
        f"{price['instructions']} instructions, {price['stores']} stores among them; estimated cycles: "
        + ", ".join(f"{price[name]} ({price[f'{name}-band']}) on {name}" for name in CORES)
        + "."
    )
    found |= {"instructions of the fix-up": price["instructions"]}
    return Verdict(kind, because, found, on)


FIGURES = (
    Figure(
        "fig-fix-up",
        f"What does an unwinder see from inside a callback? ({releases.LATEST})",
        table=table,
        limits="Emulated, exact: the moments before each instruction of the callback or program, and at how many of them an "
        "unwinder that follows frame pointers finds the traced function, its caller, and both in order. records: who makes "
        "frame records, nobody, functions compiled from C (ftrace's fix-up is off), or all.",
    ),
)
