"""What a hook costs, in one table: instructions, estimated cycles and, where there is one, a time."""

from __future__ import annotations

import pandas as pd

from ...analyse import cores, cycles
from ...analyse.cores import get as core
from ...ftrace import releases
from ...isa import ISAS
from ...lab.measure import run
from ...native import Result
from ...publish import published, said
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ..once import once
from ..time import native_machine

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
#: ISA -> the core that cycles are estimated for: that of the machine whose published times stand beside them.
PUBLISHED_ON = {"arm64": "apple-m1", "riscv64": "spacemit-x60"}
#: That for x86-64 where no machine was timed whose maker's cores are modelled.
UNTIMED = "zen4"
#: (ISA, case) -> published figures: what was timed, and what of it is to be taken off.
PUBLISHED = {
    ("arm64", "one ops"): ("arm64-callops-after-r1-i0-overhead", None),
    ("arm64", "two ops"): ("arm64-callops-after-r2-i0-overhead", None),
    ("arm64", "BPF fentry"): ("ebpf-exporter-m1-fentry-empty", "ebpf-exporter-m1-none"),
    ("riscv64", "one ops"): ("riscv-callops-k1-after-r1-i0-overhead", None),
    ("riscv64", "two ops"): ("riscv-callops-k1-after-r2-i0-overhead", None),
}
UNITS = {"instructions": "added", "cycles": "added, estimate", "low": "cycles", "high": "cycles", "ns": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and case, in the newest release, on a function of three arguments.

    Columns: isa, case, hook, instructions (that one call has more), core, cycles, low, high (the estimate and its band), ns (a time
    as measured or published; None where there is none), timed (what it was timed on), exact (is the core that of the machine?).
    """
    out, native = [], next(iter(native_machine.largest("x86_64")), None)
    near = native and native_machine.core(native)
    for isa in ISAS:
        model = core(PUBLISHED_ON[isa]) if isa in PUBLISHED_ON else near or core(UNTIMED)
        base = run(isa, "none", args=ARGUMENTS)
        near = releases.reach(isa, releases.LATEST, "bpf").value == "near"
        for case, (kind, callbacks) in CASES.items():
            hook = "direct-far" if kind == "direct" and not near else kind
            hooked = run(isa, hook, args=ARGUMENTS, callbacks=callbacks)
            e = cycles.estimate(hooked, base, model)
            added = hooked.counts.total.instructions - base.counts.total.instructions
            own = native if isa not in PUBLISHED_ON else None
            ns, timed = _measured(own, hook, callbacks) if own else _published(isa, case)
            exact = own is None or model is cores.of_cpu(str(own.provenance["cpu"]))
            head = {"isa": isa, "case": case, "hook": hook, "instructions": added, "core": model.name}
            band = {"cycles": round(e.mid, 1), "low": round(e.low, 1), "high": round(e.high, 1)}
            out.append({**head, **band, "ns": ns, "timed": timed, "exact": exact})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _published(isa: str, case: str) -> tuple[float | None, str | None]:
    """Nanoseconds that the hook added in a published table, and on what; None where there is none."""
    if (isa, case) not in PUBLISHED:
        return None, None
    name, less = PUBLISHED[isa, case]
    whole = published.get(name)
    return round(whole.ns - (published.get(less).ns if less else 0), 2), whole.machine


def _measured(result: Result, hook: str, callbacks: int) -> tuple[float | None, str | None]:
    """The same of a native result, if its windows agree."""
    named = hook if callbacks == 1 else f"{hook}:{callbacks}"
    found = [row for row in result.rows if row["hook"] == named and row["agreed"]]
    return (round(float(str(found[0]["ns_over"])), 2), str(result.provenance["cpu"])) if found else (None, None)


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
    used = dict(zip(frame["isa"], frame["core"], strict=True))
    wide = frame.assign(cell=cells).pivot(index="case", columns="isa", values="cell").loc[list(CASES), list(used)]
    named = [f"{said.isa_name(isa)}, {core(name).title.partition(' (')[0]}" for isa, name in used.items()]
    wide.columns = [f"{name}\ninsns; ns; cycles" for name in named]
    wide.insert(0, "added by", list(CASES))
    return Grid(wide, "What a hook adds to a call")


def answer(frame: pd.DataFrame) -> str:
    """How much the cheapest and the dearest of the hooks add, on all ISAs together."""
    least, most = (frame.loc[getattr(frame["instructions"], which)()] for which in ("idxmin", "idxmax"))
    other = frame[~frame["exact"].astype(bool) & frame["timed"].notna()].drop_duplicates("isa")
    return (
        f"Between {least['instructions']} instructions ({least['case']} on {said.isa_name(least['isa'])}) and "
        f"{most['instructions']} ({most['case']} on {said.isa_name(most['isa'])})."
    ) + "".join(
        f" {said.isa_name(r.isa)} was timed on {r.timed.partition(',')[0]} (nearest model: {r.core})." for r in other.itertuples()
    )


FIGURES = (
    Figure(
        "fig-answers",
        f"What does a hook add to one call? ({releases.LATEST})",
        table=table,
        body=body,
        answer=answer,
        limits="Rewritten trampolines and a lab C core, not Linux; a function of three arguments. Dynamic and static ops add the "
        "same. Cycles are estimates with their band, on the model named; times are native ones of the same trampolines (x86-64) or "
        "published ones of kernels (arm64, riscv64); -: none of this code.",
    ),
)
