"""How much of where a trampoline may lie does one branch reach, by ISA and scheme, in texts of many sizes?"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from tramplab.ftrace import addresses
from tramplab.ftrace.addresses import BPF, MODULES, Range
from tramplab.ftrace.releases import LATEST
from tramplab.isa.riscv64 import JAL_REACH

from ...publish import phrases
from ...publish.figures.chart import Drawing, state_strip, theme
from ...publish.figures.figure import Figure
from ..direct.reach.reach_kernels import kernels
from ..direct.reach.reach_ranges import DEBIAN, KASLR, MIB, Laid, laid_out, overlap, site_window
from ..memo import once

NAME = "branch_reach"
TITLE = "What one branch reaches of where a trampoline may lie"
#: Sizes of text to compute for, in MiB, beside that of Debian's kernel.
SIZES = (8, 16, 32, 64, 128, 192, 256)
#: The sizes in the chart; a phone has no room for more.
CHARTED = (8, 32, 64, 128, 256)
#: Sites in the middle of so many equal parts of the text.
SITES = 512
#: Where the trampoline is: anywhere in the text, at the first page behind the image, anywhere in what modules' and BPF's
#: allocators may give.
TEXT, BEHIND = "text", "behind"
WHERE = (TEXT, BEHIND, MODULES, BPF)
_PLACES = {TEXT: "places in the text", BEHIND: "the first page behind the image", MODULES: "all that modules may get"}
_PLACES |= {BPF: "all that BPF may get"}
#: Percent; what is less stands out.
FEW = 1
JAL, PAIR, LONE = "JAL", "AUIPC+JALR", "JALR alone"
RISCV64 = "riscv64"
UNITS = {"text": "MiB", "reached": "%"}


@dataclass(frozen=True)
class Scheme:
    """A branch at the site of a release's kernel. jal: instead of what that kernel has, a JAL."""

    name: str
    isa: str
    release: str
    jal: bool = False


@functools.cache
def schemes() -> tuple[Scheme, ...]:
    """The branches that are compared: of each ISA those of its sites, newest last, and the JAL that riscv64's do not have."""
    names = {("arm64", LATEST): "BL", ("x86_64", LATEST): "CALL", (RISCV64, "v6.12"): PAIR, (RISCV64, LATEST): LONE}
    found = [Scheme(names[kernel], *kernel) for kernel in kernels()]
    pair = next(s for s in found if s.name == PAIR)
    found.insert(found.index(pair), Scheme(JAL, RISCV64, pair.release, jal=True))
    return tuple(found)


@once
def rows() -> pd.DataFrame:
    """One row per scheme, size of text, and where the trampoline lies (WHERE), computed from placements.

    Columns: isa, release, branch, hypothetical (no kernel's site is this branch), kernel (DEBIAN or a size), text (MiB), where,
    reached (percent of all pairs of a site and a place; empty where there is no such range).
    """
    records = [row for scheme in schemes() for row in _scheme(scheme)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _scheme(scheme: Scheme) -> Iterator[dict[str, object]]:
    debian = laid_out(scheme.isa, scheme.release)[0]
    for laid in (debian, *map(debian.scaled, SIZES)):
        image = _image(scheme, laid)
        places = {where: _places(scheme, laid, image, where) for where in WHERE}
        reach = [_window(scheme, laid, image, (n + 0.5) / SITES) for n in range(SITES)]
        head: dict[str, object] = {"isa": scheme.isa, "release": scheme.release, "branch": scheme.name}
        head |= {"hypothetical": scheme.jal, "kernel": laid.name, "text": round((laid.text[1] - laid.text[0]) / MIB, 1)}
        for where, reached in places.items():
            yield {**head, "where": where, "reached": share(reach, reached)}


def _image(scheme: Scheme, laid: Laid) -> tuple[int, int]:
    """The image's place: at the lowest place that it may have, with KASLR on arm64, where that decides what BPF gets."""
    return _range(scheme, BPF, laid).images(laid.size)[0]


def _places(scheme: Scheme, laid: Laid, image: tuple[int, int], where: str) -> list[tuple[int, int]]:
    """(start, end) of all that a trampoline may be given there; one place is given the bytes of one instruction."""
    if where == TEXT:
        return [(image[0] + laid.text[0], image[0] + laid.text[1])]
    if where == BEHIND:
        page = -(-image[1] >> 12 << 12)
        return [(page, page + 1)]
    return _range(scheme, where, laid).places(image)


def _range(scheme: Scheme, code: str, laid: Laid) -> Range:
    """The first range of this code that exists for a kernel of this size; of BPF's on arm64 that with KASLR."""
    found = [r for r in addresses.of(scheme.isa, scheme.release) if code in r.code and (code != BPF or _usual(r))]
    return next((r for r in found if r.places(r.images(laid.size)[0])), found[-1])


def _usual(range_: Range) -> bool:
    return range_.isa != "arm64" or range_.layout == KASLR


def _window(scheme: Scheme, laid: Laid, image: tuple[int, int], part: float) -> tuple[int, int]:
    """The lowest and the highest address that the branch reaches from a site at a part of the text."""
    site, ends = site_window(scheme.isa, scheme.release, laid, image, part)
    return (site.ip + JAL_REACH[0], site.ip + JAL_REACH[1]) if scheme.jal else ends


def share(reach: list[tuple[int, int]], places: list[tuple[int, int]]) -> float | None:
    """Percent of all pairs of a site and a byte of places that are in the site's reach; None where there are no places.

    >>> share([(0, 9), (5, 14)], [(0, 10)]), share([(0, 9)], [(10, 20)]), share([(0, 9)], [])
    (75.0, 0.0, None)
    """
    room = sum(end - start for start, end in places)
    if not room:
        return None
    return 100 * sum(overlap(places, low, high) for low, high in reach) / (room * len(reach))


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows as the chart has them: the branch with its ISA, and the mark if no kernel has it; places in words, sizes of CHARTED,
    and what is reached as a state."""
    plotted = frame[frame["kernel"].isin(f"{size} MiB" for size in CHARTED)].copy()
    short = {PAIR: "pair", LONE: "JALR"}
    plotted["branch"] = [_branch(r.isa, short.get(r.branch, r.branch), r.hypothetical) for r in plotted.itertuples()]
    plotted["where"] = plotted["where"].map(_PLACES)
    plotted["means"] = [theme.RIGHT if n == 100 else theme.ONE if n >= FEW else theme.NOTICED for n in plotted["reached"]]
    plotted["reached"] = [{100: "all", 0: "none"}.get(n, f"{percent(n)} %") for n in plotted["reached"]]
    return plotted


def _chart(rows: pd.DataFrame) -> Drawing:
    """A strip of the rows as named() has them."""
    meanings = dict(zip(rows["reached"], rows["means"], strict=True))
    return state_strip("kernel", "branch", "reached", facet="where", meanings=meanings)(rows)


def _branch(isa: str, branch: str, hypothetical: bool) -> str:
    return phrases.marked(f"{phrases.isa_name(isa)} {branch}", hypothetical)


def percent(n: float) -> str:
    """A share as tables have it: what is not all never reads as all, and what is not nothing never as nothing.

    >>> [percent(n) for n in (100.0, 99.99, 12.34, 0.0244, 1e-6, 0.0)]
    ['100', '>99.9', '12', '0.02', '<0.01', '0']
    """
    if n in (0, 100):
        return f"{n:.0f}"
    return "<0.01" if n < 0.01 else ">99.9" if n > 99.9 else f"{n:.{2 if n < 1 else 1 if n < 10 else 0}f}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per branch and where the trampoline lies, a column per size of text in MiB."""
    data = frame[frame["kernel"] != DEBIAN]
    marked = list(map(phrases.marked, data["branch"], data["hypothetical"]))
    data = data.assign(isa=data["isa"].map(phrases.isa_name), branch=marked)
    data["cell"] = [percent(n) for n in data["reached"]]
    data["size"] = [f"{n:.0f}" for n in data["text"]]
    data["where"] = data["where"].replace(BPF, "BPF")
    lines = data[["isa", "branch", "where"]].drop_duplicates()
    wide = data.pivot(index=["isa", "branch", "where"], columns="size", values="cell")
    wide = wide.reindex(pd.MultiIndex.from_frame(lines))[list(map(str, SIZES))].reset_index()
    wide.columns.name = None
    wide.attrs = {"units": dict.fromkeys(map(str, SIZES), "%"), "right": tuple(map(str, SIZES))}
    return wide


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps, with Debian's kernels."""
    out = frame[["isa", "release", "branch", "kernel", "where"]].replace({"where": {BPF: "BPF"}})
    out["reached"] = [percent(n) for n in frame["reached"]]
    return out


def _of(frame: pd.DataFrame, branch: str, where: str, kernel: str = DEBIAN) -> float:
    """Percent reached in one row."""
    chosen = (frame["branch"] == branch) & (frame["where"] == where) & (frame["kernel"] == kernel)
    return float(frame.loc[chosen, "reached"].iloc[0])


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, in percent: of Debian's riscv64 kernel of v6.12 what a JAL reaches of the text ("jal-text"), and its
    text in MiB ("pair-mib"); of that of the newest what the lone JALR does ("lone-text"); the least text computed for in which BL
    does not reach all of it ("bl-short-mib"); and of all places and texts what x86-64's CALL and riscv64's pair reach at the least
    ("call-least", "pair-least") and a JAL and the lone JALR at the most ("jal-most", "lone-most")."""
    debian = frame[frame["kernel"] == DEBIAN].drop_duplicates("branch").set_index("branch")["text"]
    every = dict(list(frame.groupby("branch")["reached"]))
    short = [size for size in SIZES if _of(frame, "BL", TEXT, f"{size} MiB") < 100]
    return {
        "jal-text": percent(_of(frame, JAL, TEXT)),
        "lone-text": percent(_of(frame, LONE, TEXT)),
        "pair-mib": f"{debian[PAIR]:.0f}",
        "bl-short-mib": min(short) if short else "none",
        "call-least": percent(every["CALL"].min()),
        "pair-least": float(every[PAIR].min()),
        "jal-most": percent(every[JAL].max()),
        "lone-most": float(every[LONE].max()),
    }


FIGURES = (
    Figure(
        "fig-branch-reach",
        "How much of where a trampoline may lie does one branch reach?",
        chart=lambda frame: _chart(named(frame)),
        table=table,
        alt="A panel for each place of the trampoline: in the text, behind the image, in the modules' range, in BPF's. Lanes are "
        "branches of the three ISAs, steps sizes of text; a block says whether all pairs are in reach, none, or what percentage.",
        limits="Computed from memory layouts (data/addresses.yml) and the places in Debian's images, scaled; not run. Every place "
        "of a range counts alike; allocators give the lowest first. Distances, not time.",
        source="layout",
        kind="distance",
        hypothetical=True,
    ),
)
