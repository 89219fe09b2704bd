"""The runs behind register_consumers: what each consumer was handed that is not right, what it read, said and should have said."""

from __future__ import annotations

import pandas as pd

from tramplab.sparsity.consumers.matrix import GARBAGE, WRONG
from tramplab.sparsity.consumers.report import concluded, structure

from ...publish.figures.runs import Run, Runs
from ...publish.phrases import slug

#: Columns by which a run is found again. No release is among them: a run's address is that of the newest release's.
NAMED_BY = ["isa", "provider", "way", "consumer"]


def ids(frame: pd.DataFrame) -> pd.Series:
    """The anchor of each row's run, made of names alone, so that it stays; "" where the conclusion is right or was not asked for.

    >>> ids(pd.DataFrame([["x86_64", "return_to_handler", "perf", "user-mode", "wrong"]], columns=[*NAMED_BY, "outcome"]))[0]
    'run-x86-64-return-to-handler-perf-user-mode'
    """
    named = frame[NAMED_BY].agg(" ".join, axis="columns").map(lambda name: slug(f"run {name}".replace("_", " ")))
    return named.where(frame["outcome"].isin((WRONG, GARBAGE)), "")


def runs(frame: pd.DataFrame) -> Runs:
    """The runs of the rows that are not right, each as `tramplab registers` prints it."""
    some = frame.assign(run=ids(frame)).query("run != ''")
    return Runs(f"Runs of the {len(some)} cells that are not right", tuple(map(_run, some.to_dict("records"))))


def _run(row: dict) -> Run:
    head = structure(f"{row['isa']} {row['release']}", row["view"], row["struct"], row["size"])
    fields = zip(row["fields"].split(), filter(None, row["holds"].split("; ")), strict=True)
    text = concluded(row["consumer"], row["outcome"], fields, row["said"], row["should"])
    return Run(row["run"], head, f"{row['consumer']}: {row['outcome']}", text)
