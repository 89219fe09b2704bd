"""The balance of CALL_OPS on riscv64, as it was drawn up in a review, and each of its lines measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from tramplab.ftrace.addresses import BPF
from tramplab.ftrace.releases import LATEST
from tramplab.races import explore
from tramplab.races.barriers import barriers as barriers_of
from tramplab.races.explore import SAFE
from tramplab.races.model.executions import Executions
from tramplab.races.model.moments import UNORDERED
from tramplab.races.model.verdicts import MISSED
from tramplab.races.schemes.schemes import SCHEMES

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ..direct.reach.reach_ranges import DEBIAN
from ..direct.reach.reach_ways import FAR, NEAR
from ..memo import once
from . import barriers, branch_reach, direct_cases, dispatch, text_bytes

NAME = "balance"
TITLE = "CALL_OPS on riscv64, balanced"
ISA = "riscv64"
#: The schemes of the kernels on either side.
PAIR, POINTER = "riscv64-pair", "riscv64-call-ops"
#: Percent of what a branch may have to reach.
_ALL = 100.0
#: The expectation of the review for each.
BETTER, LARGER, SAME, AS_COMPLICATED = "better", "larger", "the same", "as complex"
#: The lines, by the name that their numbers have: patching by two counts, each also where neither kernel is preemptible.
LINES = {
    "call": "instructions, one ops",
    "text": "bytes of text",
    "direct": "instructions, BPF direct",
    "breaking": "waits against breakage",
    "breaking-alike": "waits against breakage",
    "needed": "waits, missed calls too",
    "needed-alike": "waits, missed calls too",
}
#: Where threads are preempted: the pair is of kernels where they are not, and CALL_OPS is explored with and without.
ONE, NEITHER = "in v6.16", "in neither"
LIMITS = (
    "Emulated counts, bytes of a made corpus, reach in Debian's kernels, and patching in every order of steps; no timing. v6.15 "
    "beside v6.16, which has more than CALL_OPS: the AUIPC of a site is written once. The RFC kept the pair. Direct calls: "
    "riscv64 has them since v6.8, up to v6.15 with the pair, which reaches BPF's code; counted in v6.12 and the newest release. "
    "Waits: kinds of them in the plans of v6.12 and v6.16, on harts with Ziccif, a direct call attached to neither; those that "
    "order data cannot be tested. No kernel with v6.15's site is preemptible; v6.16 can be."
)


@dataclass(frozen=True)
class Waits:
    """How many kinds of waits a scheme needs. breaking: without which a change breaks; needed: or calls are missed for good."""

    breaking: int
    needed: int


@once
def rows() -> pd.DataFrame:
    """One row per line of the balance.

    Columns: line (a key of LINES), preemption (in which of the two kernels threads are preempted, "" where that is nothing to it),
    expected (one of the four words), before and after (a number), truth: is it as expected?
    """
    grid, text = dispatch.rows(), text_bytes.rows()
    calls = [dispatch.cell(grid, ISA, built, 1, 0) for built in (dispatch.WITHOUT, dispatch.WITH)]
    site, more = (float(str(text_bytes.numbers(text)[f"{ISA}-{what}-each"])) for what in ("site", "call-ops"))
    reach = branch_reach.rows()
    ways = {release: NEAR if _reached(reach, release) == _ALL else FAR for release in ("v6.12", LATEST)}
    cases = [direct_cases.instructions(ISA, release, way) for release, way in ways.items()]
    pair, pointer, alike = waits(PAIR), waits(POINTER), waits_without_preemption(POINTER)
    records = [
        ("call", "", BETTER, *calls, calls[1] < calls[0]),
        ("text", "", LARGER, site, site + more, more > 0),
        ("direct", "", SAME, *cases, cases[0] == cases[1]),
        *(
            (line, preemption, AS_COMPLICATED, before, after, after >= before)
            for line, preemption, before, after in (
                ("breaking", ONE, pair.breaking, pointer.breaking),
                ("breaking-alike", NEITHER, pair.breaking, alike.breaking),
                ("needed", ONE, pair.needed, pointer.needed),
                ("needed-alike", NEITHER, pair.needed, alike.needed),
            )
        ),
    ]
    frame = pd.DataFrame(records, columns=["line", "preemption", "expected", "before", "after", "truth"])
    frame.attrs["units"] = {}
    return frame


def _reached(frame: pd.DataFrame, release: str) -> float:
    """Percent of the places where BPF's code may lie that a site of Debian's kernel calls by itself."""
    part = frame[(frame["isa"] == ISA) & (frame["release"] == release) & (frame["kernel"] == DEBIAN) & ~frame["hypothetical"]]
    return float(part[part["where"] == BPF]["reached"].max())


def waits(scheme: str) -> Waits:
    """The waits of a scheme of the page on patching, as its figure has them."""
    need = barriers.rows().query(f"scheme == @scheme and hart == '{barriers.WHOLE}' and not fence")["need"]
    breaking = int((need == barriers.BREAKS).sum())
    return Waits(breaking, breaking + int((need == barriers.NO_EFFECT).sum()))


def waits_without_preemption(name: str) -> Waits:
    """The waits of a scheme in a kernel that is not preemptible: each wait is left out and every order of steps visited."""
    scheme = replace(SCHEMES[name], preemptible=False)
    subject = scheme.subject()
    executions = Executions(subject)
    outcomes = []
    for barrier in (b for b in barriers_of(subject) if not b.fence):
        found = explore(subject, 1, scheme.fetch, barrier.numbers, UNORDERED, executions=executions)
        assert not found.limit, "a scheme that takes longer than its limit decides nothing"
        outcomes.append(found.outcome)
    return Waits(sum(one not in (SAFE, MISSED) for one in outcomes), sum(one != SAFE for one in outcomes))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines as a table."""
    printed = pd.DataFrame({"what": frame["line"].map(LINES), "expected": frame["expected"], "preemption": frame["preemption"]})
    for release, side in (("v6.15", "before"), ("v6.16", "after")):
        printed[release] = [f"{value:g}" for value in frame[side]]
    printed["found"] = ["so" if truth else "not so" for truth in frame["truth"]]
    printed.attrs["units"] = {}
    return printed


def body(frame: pd.DataFrame) -> Body:
    """The lines as a grid."""
    return Grid(table(frame), "What CALL_OPS was expected to change, and what changed")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: of each line "call-before" and "call-after"."""
    values: dict[str, object] = {}
    for r in frame.itertuples():
        values |= {f"{r.line}-before": f"{r.before:g}", f"{r.line}-after": f"{r.after:g}"}
    return values


FIGURES = (
    Figure(
        "fig-balance",
        "What was CALL_OPS expected to change on riscv64, and what changed?",
        table=table,
        body=body,
        limits=LIMITS,
    ),
)
