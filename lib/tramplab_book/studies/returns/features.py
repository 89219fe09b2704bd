"""What can a probe on function returns tell and do? Features of kretprobes and of what replaces them, each a run."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.returns.features import FEATURES, HARMS, NO, PART, RANK, REFUSED, TRIED, YES, Stage, most_together
from tramplab.returns.mechanisms import FEXIT, FPROBE, KRETPROBE, LATEST, builds

from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..memo import once
from ..shared.merged_panels import merged

NAME = "return_features"
TITLE = "What a probe on function returns can tell and do"
MEANINGS = {YES: theme.RIGHT, PART: theme.ONE, NO: theme.PLAIN, REFUSED: theme.NOTHING, HARMS: theme.WRONG}
#: The chart's columns, in order, in the newest release; the table's rows have the others.
SHOWN = {KRETPROBE: "kretprobe", FPROBE: "fprobe", FEXIT: "fexit"}
#: The mechanisms that the page's table compares.
COMPARED = (KRETPROBE, FPROBE)


@functools.cache
def _kernel(isa: str, release: str) -> Kernel:
    return Kernel(isa, release, meter="count")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism with its release, and feature.

    Columns: isa, mechanism, name (with its release), release, feature, outcome (OUTCOMES of
    returns/features), said (why, "" where that says all), number (the one that decided, missing where none did).
    """
    records = []
    for isa in ISAS:
        for build in builds(isa):
            stage = Stage(_kernel(isa, build.release), build.request())
            head = {"isa": isa, "mechanism": build.mechanism, "name": build.name, "release": build.release}
            for feature in FEATURES.values():
                cell = feature.run(stage)
                records.append({**head, "feature": feature.name, "outcome": cell.outcome, "said": cell.said, "number": cell.number})
    frame = pd.DataFrame(records)
    return frame.astype({"number": "Int64"})


@once
def together() -> pd.DataFrame:
    """One row per ISA: fprobes on one function whose calls have as much data each as one may have, until calls are missed. Columns:
    isa, most."""
    return pd.DataFrame([{"isa": isa, "most": most_together(_kernel(isa, LATEST))} for isa in ISAS])


# --- What is shown


def newest(frame: pd.DataFrame, mechanism: str) -> pd.DataFrame:
    """The rows of one mechanism in the newest release."""
    return frame[(frame["mechanism"] == mechanism) & (frame["release"] == LATEST)]


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each column of the chart; ISAs that are alike are one panel. Columns: isa, step (one of SHOWN), lane (the
    feature), state (the outcome)."""
    kept = pd.concat([newest(frame, mechanism).assign(step=name) for mechanism, name in SHOWN.items()])
    ordered = pd.concat([kept[kept["isa"] == isa] for isa in ISAS])
    return merged(ordered.assign(isa=ordered["isa"].map(isa_name)).rename(columns={"feature": "lane", "outcome": "state"}))


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and feature: how much of it a kretprobe and an fprobe of the newest release do, by RANK, in columns of
    their names."""
    ranks = [
        newest(frame, mechanism).set_index(["isa", "feature"])["outcome"].map(RANK).rename(name)
        for mechanism, name in ((KRETPROBE, "kretprobe"), (FPROBE, "fprobe"))
    ]
    return pd.concat(ranks, axis=1).reset_index()


def _words(row: pd.Series) -> str:
    return f"{row['outcome']}: {row['said']}" if row["said"] else str(row["outcome"])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per ISA and a line per feature: what it comes to with a kretprobe and with an fprobe of the newest release."""
    shown = {mechanism: newest(frame, mechanism).set_index(["isa", "feature"]).apply(_words, axis=1) for mechanism in COMPARED}
    return pd.DataFrame(shown).reset_index().rename(columns={FPROBE: "fprobe"})


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: every cell, and why."""
    out = frame[["isa", "name", "feature", "outcome", "said"]].copy()
    out["name"] = out["name"].str.replace(", ", "/")
    return out


@dataclass(frozen=True)
class Had:
    """Numbers of features on an ISA. whole: a kretprobe has them in full; same: an fprobe has them in full as well."""

    whole: int
    same: int


def _counts(known: pd.DataFrame) -> dict[str, Had]:
    """ISA -> its numbers of features."""
    by_name = {}
    for isa, part in known.groupby("isa", sort=False):
        whole = part["kretprobe"] == RANK[YES]
        by_name[str(isa)] = Had(int(whole.sum()), int((whole & (part["fprobe"] == RANK[YES])).sum()))
    return by_name


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-kretprobe-a-page-of-data" (the number that decided), "-said" and "-outcome" behind it;
    "features"; "tried" (arguments); "x86_64-whole" (features that a kretprobe has in full), "x86_64-as-much" (of these, those
    that an fprobe has in full); "x86_64-together" (fprobes on one function with as much data as one may have)."""
    values: dict[str, object] = {"features": len(FEATURES), "tried": TRIED}
    for r in frame.itertuples():
        key = f"{r.isa}-{slug(r.name)}-{slug(r.feature)}"
        values |= {f"{key}-said": r.said, f"{key}-outcome": r.outcome}
        if not pd.isna(r.number):
            values[key] = int(r.number)
    for isa, had in _counts(compared(frame)).items():
        values |= {f"{isa}-whole": had.whole, f"{isa}-as-much": had.same}
    return values | {f"{r.isa}-together": int(r.most) for r in together().itertuples()}


FIGURES = (
    Figure(
        "fig-return-features",
        "What can each tell and do?",
        chart=lambda frame: heat_map("state", "lane", "step", meanings=MEANINGS)(drawn(frame)),
        table=table,
        alt="A panel for ISAs that are alike: a row per feature and a column for the kretprobe, the fprobe and fexit of the newest "
        "release. A hooked function above one that was left without a return goes astray with all but fexit, which alone tells "
        "arguments at the return. The table has the reasons.",
        limits="Emulated calls whose handlers write down what they see, no timing; one probe, on one CPU, with the pool that "
        "kernels make there. Refused: the code does it, and BPF's verifier lets no program ask for it. Not run: interrupts, and "
        "tasks that migrate. In the table counted, lost: calls that were not seen, with and without a counter of the probe's; "
        "sizes: of a call's data, with which the probe's own counter has all that it misses; times: that a call can be left until "
        "later ones are not seen.",
    ),
)
