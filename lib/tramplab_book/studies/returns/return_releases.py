"""Since which release: what a kretprobe is made of in each kernel release, and what could take its place there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.meant import fprobes_on_graph_tracer, takes_kretprobe
from tramplab.ftrace.releases import LATEST, Features, parse
from tramplab.isa import ISAS

from ...publish.figures.chart import state_strip
from ...publish.figures.figure import Figure
from ...publish.phrases import listed
from ..memo import once

NAME = "return_releases"
TITLE = "Kretprobes and what could replace them, by release"
NONE = "none"
KRETPROBE, FPROBE, FEXIT = "kretprobe instances", "fprobe return", "BPF fexit"
#: The release under development when the claim was made, the first that could have done without.
SAID = "v6.5"


@dataclass(frozen=True)
class Lane:
    """A lane of the chart: something that each release has in some state.

    name: as the chart calls it.
    feature: the feature of data/releases.yml that decides it.
    state: features of a release -> the state.
    """

    name: str
    feature: str
    state: Callable[[Features], str]


ENTRY = "kretprobe entry"


def _fprobe(f: Features) -> str:
    return "graph tracer" if fprobes_on_graph_tracer(f) else "return hook"


#: How a kretprobe comes in, where it keeps calls, what it takes instances from, how it comes back; then who else sees returns. A
#: program of BPF's gets to a kernel function's entry, and so to its return, by a direct call.
LANES = (
    Lane(ENTRY, "kretprobe_entry", lambda f: str(f["kretprobe_entry"]) if takes_kretprobe(f) else NONE),
    Lane(KRETPROBE, "kretprobe", lambda f: {"own": "own list", "rethook": "return hook"}[f["kretprobe"]]),
    Lane("kretprobe pool", "return_pool", lambda f: f["return_pool"]),
    Lane("kretprobe return", "kretprobe_brk", lambda f: "exception" if f["kretprobe_brk"] else "trampoline"),
    Lane(FPROBE, "rethook", lambda f: _fprobe(f) if f["fprobe"] else NONE),
    Lane(FEXIT, "direct", lambda f: "direct call" if f["direct"] else NONE),
)


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and lane, of every release there is data of.

    Columns: isa, release, what (a Lane's name), state (NONE where there is none), sure (how well it is known since when: read,
    inferred or recalled; - for what an ISA never had).
    """
    out = []
    for isa, release in itertools.product(ISAS.values(), releases.known()):
        features = releases.features(isa, release, {})
        for lane in LANES:
            known = {"state": lane.state(features), "sure": _sure(isa.name, release, lane)}
            out.append({"isa": isa.name, "release": release, "what": lane.name, **known})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = {}
    return frame


def _sure(isa: str, release: str, lane: Lane) -> str:
    """How well it is known: of the interval that it is in, else of the last one before, else of the first that comes."""
    found = releases.intervals(isa, lane.feature)
    inside = [i for i in found if i.contains(parse(release))]
    before = [i for i in found if i.until and parse(i.until) < parse(release)]
    return next((i.sure for i in (*inside, *before[::-1], *found)), "-")


# --- What is shown


def when(found: Iterable[str]) -> str:
    """Releases in a sentence, those that follow each other together; "never" for none.

    >>> when(["v5.17", "v5.18"]), when(["v6.3", "v6.4", "v6.8"]), when(releases.known()[1:]), when(releases.known()), when([])
    ('up to v5.18', 'from v6.3 to v6.4 and in v6.8', 'since v5.18', 'all along', 'never')
    """
    known, runs = releases.known(), list[list[str]]()
    for release in found:
        if runs and known.index(runs[-1][-1]) + 1 == known.index(release):
            runs[-1].append(release)
        else:
            runs.append([release])
    return listed(_span(run[0], run[-1]) for run in runs) or "never"


def _span(first: str, last: str) -> str:
    known = releases.known()
    if (first, last) == (known[0], known[-1]):
        return "all along"
    if last == known[-1]:
        return f"since {first}"
    if first == known[0]:
        return f"up to {last}"
    return f"in {first}" if first == last else f"from {first} to {last}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, lane and state that lasts, in order: isa, what, state, releases (in words), sure (of the first of them)."""
    out = []
    for (isa, what), part in frame.groupby(["isa", "what"], sort=False):
        for _, run in part.groupby((part["state"] != part["state"].shift()).cumsum()):
            head = run.iloc[0]
            span = _span(head["release"], run["release"].iloc[-1])
            out.append({"isa": isa, "what": what, "state": head["state"], "releases": span, "sure": head["sure"]})
    return pd.DataFrame(out)


golden = table


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with one step for releases between which nothing changes on any ISA, named by the first of them and, where there are
    more, the last."""
    states = frame.pivot(index="release", columns=["isa", "what"], values="state").reindex(frame["release"].unique())
    steps = (states != states.shift()).any(axis="columns").cumsum()
    names = {step: _step(list(part.index)) for step, part in states.groupby(steps)}
    first = ~steps.duplicated()
    kept = frame[frame["release"].map(first)]
    return kept.assign(step=kept["release"].map(steps).map(names))


def _step(found: list[str]) -> str:
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def has(frame: pd.DataFrame, isa: str, *whats: str) -> list[str]:
    """The releases in which an ISA has all of these at once."""
    part = frame[(frame["isa"] == isa) & frame["what"].isin(whats)]
    there = (part["state"] != NONE).groupby(part["release"], sort=False).all()
    return list(there[there].index)


def refused(frame: pd.DataFrame, isa: str) -> list[str]:
    """The releases in which functions of an ISA that ftrace can trace take no kretprobe."""
    there = has(frame, isa, ENTRY)
    return [release for release in frame["release"].unique() if release not in there]


def together(frame: pd.DataFrame) -> list[str]:
    """The releases in which all ISAs have an fprobe that sees returns."""
    there = [has(frame, isa, FPROBE) for isa in frame["isa"].unique()]
    return [release for release in frame["release"].unique() if all(release in one for one in there)]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: "x86_64-fprobe", "-fexit", "-both", "-refused" (in which releases), "-lost" (the first in which the
    fprobe is gone again, "never"); "together" (an fprobe on all of them), "removable", "later" (see these); "still" (ISAs whose
    newest release has kretprobes)."""
    out: dict[str, object] = {}
    for isa in frame["isa"].unique():
        out |= {f"{isa}-fprobe": when(has(frame, isa, FPROBE)), f"{isa}-fexit": when(has(frame, isa, FEXIT))}
        out |= {f"{isa}-both": when(has(frame, isa, FPROBE, FEXIT)), f"{isa}-refused": when(refused(frame, isa))}
        there = has(frame, isa, FPROBE)
        known = releases.known()[releases.known().index(there[0]) :]
        out[f"{isa}-lost"] = next((release for release in known if release not in there), "never")
    still = sum(LATEST in has(frame, isa, KRETPROBE) for isa in frame["isa"].unique())
    return out | {"together": when(together(frame)), "removable": removable(frame), "later": later(frame), "still": still}


def cases(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and release from SAID on: isa, release, truth, which says that in it or in the one before no fprobe of that ISA
    sees returns. It is the least that a kretprobe's removal takes."""
    known, out = list(releases.known()), []
    for isa in frame["isa"].unique():
        there = has(frame, isa, FPROBE)
        for before, release in itertools.pairwise(known[known.index(SAID) - 1 :]):
            out.append({"isa": isa, "release": release, "truth": before not in there or release not in there})
    return pd.DataFrame(out)


def removable(frame: pd.DataFrame) -> str:
    """The first release in which a kretprobe could have gone on all ISAs, by these cases; "none" if there is none."""
    cannot = cases(frame).groupby("release", sort=False)["truth"].any()
    return next(iter(cannot[~cannot].index), "none")


def later(frame: pd.DataFrame) -> int:
    """How many releases after removable() the newest is, which still has kretprobes."""
    known, first = releases.known(), removable(frame)
    return len(known) - 1 - known.index(first) if first in known else 0


FIGURES = (
    Figure(
        "fig-return-releases",
        "Since which release could something else replace a kretprobe?",
        chart=lambda frame: state_strip(lane="what")(drawn(frame)),
        table=table,
        tabs="isa",
        alt="For each ISA bands over the releases: how a kretprobe is entered, where its instances are, what its pool is "
        "and how it returns; what sees returns for an fprobe, and whether there is fexit. Fprobes are on the graph tracer "
        "everywhere at the right; x86-64 has had them for longest. The table has each state with its releases.",
        limits="Facts of data/releases.yml with their sources, no run. sure: how well it is known since when; a dash: the ISA "
        "never had anything else. kretprobe entry: at functions that ftrace can trace. fexit: direct calls, by which it gets "
        "to kernel functions.",
        source="sources",
        kind="fact",
    ),
)
