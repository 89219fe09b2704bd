"""What a hook costs, in one table: instructions, estimated cycles and, where there is one, a time."""

from __future__ import annotations

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...ftrace import releases
from ...lab.measure import run
from ...native.kept import HOOKS, saved
from ...publish import published, said
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ..once import once

NAME = "answers"
TITLE = "What a hook costs"
ARGUMENTS = 3
#: What is asked -> the hook and how many callbacks. A direct call is that to where BPF's code lies, see releases.reach.
CASES = {
    "one ops": ("ops", 1),
    "two ops": ("ops", 2),
    "direct call": ("direct", 1),
    "BPF fentry": ("bpf-fentry", 1),
    "BPF fexit": ("bpf-fexit", 1),
}
#: ISA -> the core that cycles are estimated for: that of the machine whose times stand beside them.
CORES = {"x86_64": "zen4", "arm64": "apple-m1", "riscv64": "spacemit-x60"}
#: (ISA, case) -> published figures: what was timed, and what of it is to be taken off.
PUBLISHED = {
    ("arm64", "one ops"): ("arm64-callops-after-r1-i0-overhead", None),
    ("arm64", "two ops"): ("arm64-callops-after-r2-i0-overhead", None),
    ("arm64", "BPF fentry"): ("ebpf-exporter-m1-fentry-empty", "ebpf-exporter-m1-none"),
    ("riscv64", "one ops"): ("riscv-callops-k1-after-r1-i0-overhead", None),
    ("riscv64", "two ops"): ("riscv-callops-k1-after-r2-i0-overhead", None),
}
#: The saved result whose times stand beside x86-64's counts.
MEASURED = "epyc-zen4-vm-hooks"
UNITS = {"instructions": "added", "cycles": "added, estimate", "low": "cycles", "high": "cycles", "ns": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and case, in the newest release, on a function of three arguments.

    Columns: isa, case, hook, instructions (that one call has more), core, cycles, low, high (the estimate and its band), ns (a time
    as measured or published; None where there is none), timed (what it was timed on).
    """
    out = []
    for isa, name in CORES.items():
        model = core(name)
        base = run(isa, "none", args=ARGUMENTS)
        near = releases.reach(isa, releases.LATEST, "bpf").value == "near"
        for case, (kind, callbacks) in CASES.items():
            hook = "direct-far" if kind == "direct" and not near else kind
            hooked = run(isa, hook, args=ARGUMENTS, callbacks=callbacks)
            e = cycles.estimate(hooked, base, model)
            added = hooked.counts.total.instructions - base.counts.total.instructions
            ns, timed = _time(isa, case, hook, callbacks)
            head = {"isa": isa, "case": case, "hook": hook, "instructions": added, "core": name}
            band = {"cycles": round(e.mid, 1), "low": round(e.low, 1), "high": round(e.high, 1)}
            out.append({**head, **band, "ns": ns, "timed": timed})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _time(isa: str, case: str, hook: str, callbacks: int) -> tuple[float | None, str | None]:
    """Nanoseconds that the hook added, and on what: measured natively, published, or neither."""
    if (isa, case) in PUBLISHED:
        name, less = PUBLISHED[isa, case]
        whole = published.get(name)
        return round(whole.ns - (published.get(less).ns if less else 0), 2), whole.machine
    result = saved(HOOKS)[MEASURED]
    named = hook if callbacks == 1 else f"{hook}:{callbacks}"
    found = [row for row in result.rows if row["hook"] == named and row["agreed"] and not result.changed(named)]
    if result.provenance["isa"] != isa or not found:
        return None, None
    return round(float(str(found[0]["ns_over"])), 2), str(result.provenance["cpu"])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and case, with the band in one cell."""
    out = frame[["isa", "case", "instructions"]].copy()
    out["cycles"] = [said.estimated(r.cycles, r.low, r.high) for r in frame.itertuples()]
    out["ns"] = ["-" if pd.isna(n) else f"{n:g}" for n in frame["ns"]]
    out.attrs["units"] = {"instructions": "added", "cycles": "estimate", "ns": "added"}
    out.attrs["right"] = ("cycles", "ns")
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def body(frame: pd.DataFrame) -> Body:
    """A line per case, a column per ISA."""
    cells = [
        f"{r.instructions}; {'-' if pd.isna(r.ns) else f'{r.ns:g}'}; {said.estimated(r.cycles, r.low, r.high)}"
        for r in frame.itertuples()
    ]
    wide = frame.assign(cell=cells).pivot(index="case", columns="isa", values="cell").loc[list(CASES), list(CORES)]
    named = {isa: f"{said.isa_name(isa)}, {core(name).title.partition(' (')[0]}" for isa, name in CORES.items()}
    wide.columns = [f"{name}\ninsns; ns; cycles" for name in named.values()]
    wide.insert(0, "added by", list(CASES))
    return Grid(wide, "What a hook adds to a call")


def answer(frame: pd.DataFrame) -> str:
    """How much the cheapest and the dearest of the hooks add, on all ISAs together."""
    least, most = (frame.loc[getattr(frame["instructions"], which)()] for which in ("idxmin", "idxmax"))
    return (
        f"Between {least['instructions']} instructions ({least['case']} on {said.isa_name(least['isa'])}) and "
        f"{most['instructions']} ({most['case']} on {said.isa_name(most['isa'])})."
    )


FIGURES = (
    Figure(
        "fig-answers",
        f"What does a hook add to one call? ({releases.LATEST})",
        table=table,
        body=body,
        answer=answer,
        limits="Rewritten trampolines and a lab C core, not Linux. Dynamic and static ops add the same. Cycles are estimates with "
        "their band, on the model named; times are native ones of the "
        "same trampolines (x86-64) or published ones of kernels (arm64, riscv64); -: none of this code.",
    ),
)
