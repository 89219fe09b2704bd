"""The balance of CALL_OPS on riscv64, as it was drawn up in a review, and each of its four rows measured."""

from __future__ import annotations

import pandas as pd

from ...ftrace.addresses import BPF
from ...ftrace.releases import LATEST
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import listed
from ..direct.reach.reach_ranges import DEBIAN
from ..direct.reach.reach_ways import FAR, NEAR
from ..memo import once
from ..variants import call_ops
from . import barriers, branch_reach, direct_cases, dispatch, text_bytes

NAME = "balance"
TITLE = "CALL_OPS on riscv64, balanced"
ISA = "riscv64"
#: Percent of what a branch may have to reach.
_ALL = 100.0
#: The expectation of the review for each.
BETTER, LARGER, SAME, AS_COMPLICATED = "better", "larger", "the same", "as complicated"
LIMITS = (
    "Emulated counts, bytes of a made corpus, reach in Debian's kernel, and patching in every order of steps; no timing. v6.15 "
    "beside v6.16, which has more than CALL_OPS: the AUIPC of a site is written once. The RFC kept the pair, and with it what "
    "v6.15 has in the last two rows. Direct calls before: of v6.12, which has the pair and reaches BPF's code by it."
)


@once
def rows() -> pd.DataFrame:
    """One row of the balance each: what, expected (one of the four words), before and after (a number), unit, and truth: is it as
    expected?"""
    grid, text = dispatch.rows(), text_bytes.rows()
    calls = [dispatch.cell(grid, ISA, built, 1, 0) for built in (dispatch.WITHOUT, dispatch.WITH)]
    site, more = (float(str(text_bytes.numbers(text)[f"{ISA}-{what}-each"])) for what in ("site", "call-ops"))
    reach = branch_reach.rows()
    ways = {release: NEAR if _reached(reach, release) == _ALL else FAR for release in ("v6.12", LATEST)}
    cases = [direct_cases.instructions(ISA, release, way) for release, way in ways.items()]
    waits = barriers.numbers(barriers.rows())
    kinds = [int(str(waits[f"{name}-needed"])) for name in ("riscv64-pair", "riscv64-call-ops")]
    records = [
        ("a call, dynamic ops", BETTER, *calls, "instructions", calls[1] < calls[0]),
        ("text, a function", LARGER, site, site + more, "bytes", more > 0),
        ("direct call (BPF)", SAME, *cases, "instructions", cases[0] == cases[1]),
        ("safe patching", AS_COMPLICATED, *kinds, "waits", kinds[1] >= kinds[0]),
    ]
    frame = pd.DataFrame(records, columns=["what", "expected", "before", "after", "unit", "truth"])
    frame.attrs["units"] = {}
    return frame


def _reached(frame: pd.DataFrame, release: str) -> float:
    """Percent of the places where BPF's code may lie that a site of Debian's kernel calls by itself."""
    part = frame[(frame["isa"] == ISA) & (frame["release"] == release) & (frame["kernel"] == DEBIAN) & ~frame["hypothetical"]]
    return float(part[part["where"] == BPF]["reached"].max())


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The four rows."""
    printed = frame.assign(found=["so" if truth else "not so" for truth in frame["truth"]])
    printed["before"], printed["after"] = ([f"{value:g}" for value in frame[side]] for side in ("before", "after"))
    printed = printed[["what", "expected", "before", "after", "unit", "found"]]
    printed = printed.rename(columns={"before": "v6.15", "after": "v6.16"})
    printed.attrs["units"] = {}
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def body(frame: pd.DataFrame) -> Body:
    """The four rows, units with their numbers."""
    cells = table(frame)
    for side in ("v6.15", "v6.16"):
        pairs = zip(cells[side], cells["unit"], strict=True)
        cells[side] = [f"{n} {unit.removesuffix('s') if n == '1' else unit}" for n, unit in pairs]
    return Grid(cells.drop(columns="unit"), "What CALL_OPS was expected to change, and what changed")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: how many rows are as expected, "as-expected", of "rows-total"."""
    return {"as-expected": int(frame["truth"].sum()), "rows-total": len(frame)}


def answer(frame: pd.DataFrame) -> str:
    """Which rows are as expected."""
    texts = {
        truth: listed(f"{r.what} ({r.before:g} to {r.after:g} {r.unit})" for r in frame[frame["truth"] == truth].itertuples())
        for truth in (True, False)
    }
    right = f"As the review expects: {texts[True]}." if texts[True] else ""
    wrong = f"Not so in what merged: {texts[False]}." if texts[False] else ""
    return f"{right} {wrong}".strip()


@judges("r9")
def four_rows(frame: pd.DataFrame | None = None) -> Verdict:
    """Each of the four, of what merged beside what was there."""
    frame = rows() if frame is None else frame
    kind, on = across(frame, {"what": "what is compared"})
    static = call_ops.rows().set_index(["isa", "case"]).loc[(ISA, call_ops.STATIC[1, 0])]
    each = [f"{r.what}: {r.before:g} to {r.after:g} {r.unit}, {'' if r.truth else 'not '}{r.expected}" for r in frame.itertuples()]
    because = (
        f"From v6.15 to v6.16, {'; '.join(each)}. A static ops that is alone: {call_ops.change(static, 'instructions')}. The RFC "
        "kept the pair of v6.15, and so its direct calls and its patching."
    )
    return Verdict(kind, because, {f"{r.what}, v6.16": f"{r.after:g}" for r in frame.itertuples()}, on)


FIGURES = (
    Figure(
        "fig-balance",
        "What was CALL_OPS expected to change on riscv64, and what changed?",
        table=table,
        body=body,
        answer=answer,
        limits=LIMITS,
        hypothetical=True,
    ),
)
