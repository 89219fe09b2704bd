"""What a hook costs, in one table: instructions, mispredicted returns and, where there is one, a measured time."""

from __future__ import annotations

import re

import pandas as pd

from ...analyse.returnstack import replay
from ...ftrace import releases
from ...isa import ISAS
from ...lab.measure import run
from ...publish import published, said
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ..once import once
from ..time import saved_times

NAME = "answers"
TITLE = "What a hook costs"
#: What is asked -> the hook and how many callbacks. A direct call is that to where BPF's code lies, see releases.reach.
CASES = {
    "one ops": ("ops", 1),
    "two ops": ("ops", 2),
    "direct call": ("direct", 1),
    "BPF fentry": ("bpf-fentry", 1),
    "BPF fexit": ("bpf-fexit", 1),
    "fprobe, return": ("fprobe-exit", 1),
}
#: (ISA, case) -> published figures: what was timed, and what of it is to be taken off.
PUBLISHED = {
    ("arm64", "one ops"): ("arm64-callops-after-r1-i0-overhead", None),
    ("arm64", "two ops"): ("arm64-callops-after-r2-i0-overhead", None),
    ("arm64", "BPF fentry"): ("ebpf-exporter-m1-fentry-empty", "ebpf-exporter-m1-none"),
    ("riscv64", "one ops"): ("riscv-callops-k1-after-r1-i0-overhead", None),
    ("riscv64", "two ops"): ("riscv-callops-k1-after-r2-i0-overhead", None),
}
UNITS = {"instructions": "added", "missed": "a call", "ns": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and case, in the newest release, on a function of one argument.

    Columns: isa, case, hook, instructions (that one call has more), missed (mispredicted returns, in the call and of its callers),
    ns (a time as measured or published; None where there is none), timed (machine and kernel that it is of, "" for none).
    """
    out = []
    for isa in ISAS:
        base = run(isa, "none")
        near = releases.reach(isa, releases.LATEST, "bpf").value == "near"
        for case, (kind, callbacks) in CASES.items():
            hook = "direct-far" if kind == "direct" and not near else kind
            hooked = run(isa, hook, callbacks=callbacks)
            added = hooked.counts.total.instructions - base.counts.total.instructions
            ns, timed = _published(isa, case) or _measured(isa, hook, callbacks) or (None, "")
            missed = replay(hooked)
            head = {"isa": isa, "case": case, "hook": hook, "instructions": added, "missed": missed.own + missed.outer}
            out.append({**head, "ns": ns, "timed": timed})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _published(isa: str, case: str) -> tuple[float, str] | None:
    """Nanoseconds that the hook added in a published table, and on what; None where there is none."""
    if (isa, case) not in PUBLISHED:
        return None
    name, less = PUBLISHED[isa, case]
    whole = published.get(name)
    machine = whole.machine.partition(",")[0].partition(" (")[0].partition(' "')[0]
    kernel = re.match(r"v?\d+\.\d+(-rc\d+)?", whole.kernel)
    return round(whole.ns - (published.get(less).ns if less else 0), 2), f"{machine}, {kernel[0] if kernel else whole.kernel}"


def _measured(isa: str, hook: str, callbacks: int) -> tuple[float, str] | None:
    """The same of the first saved machine whose windows agree on the hook."""
    found = saved_times.rows(hook if callbacks == 1 else f"{hook}:{callbacks}", isa=isa)
    if not found:
        return None
    machine, row = next(iter(found.items()))
    return round(float(str(row["ns_over"])), 2), f"{machine}, {releases.LATEST}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and case; no time is an empty cell."""
    out = frame[["isa", "case", "instructions", "missed"]].rename(columns={"instructions": "insns"})
    out["ns"] = ["" if pd.isna(n) else f"{n:g}" for n in frame["ns"]]
    out["timed on"] = frame["timed"]
    out.attrs["units"] = {"insns": "added", "missed": "a call", "ns": "added"}
    out.attrs["right"] = ("ns",)
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def body(frame: pd.DataFrame) -> Body:
    """A line per case, a column per ISA."""
    cells = [f"{r.instructions}; {r.missed}; {'' if pd.isna(r.ns) else f'{r.ns:g} ns'}".rstrip("; ") for r in frame.itertuples()]
    wide = frame.assign(cell=cells).pivot(index="case", columns="isa", values="cell").loc[list(CASES), list(ISAS)]
    wide.columns = [f"{said.isa_name(isa)}\ninsns; missed; time" for isa in wide.columns]
    wide.insert(0, "added by", list(CASES))
    return Grid(wide, "What a hook adds to a call")


def answer(frame: pd.DataFrame) -> str:
    """How much the cheapest and the most expensive of the hooks add, on all ISAs together."""
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
        limits="Rewritten trampolines and a lab C core, not Linux; a function of one argument. Dynamic and static ops add the "
        "same. missed: mispredicted returns, in the call and of its callers. Times of x86-64 are native ones of the same code in "
        "user mode, those of arm64 and riscv64 published ones of kernels; the table has machine and kernel.",
    ),
)
