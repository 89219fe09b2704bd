"""How far does a patch site reach by itself, and what becomes of a direct call one place further?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pandas as pd

from tramplab.ftrace.releases import Features
from tramplab.ftrace.window import SPACE, step, window
from tramplab.isa import Isa
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.placed import Placed

from ....publish import phrases
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.every_release import every_release
from .reach_kernels import kernels

NAME = "reach_boundary"
TITLE = "Where a patch site's own reach ends"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
BEHIND, AHEAD = "behind", "ahead"
LAST, BEYOND = "last", "beyond"
#: A place at the end of all addresses, where the reach does not end before: so many bytes before it, for the code.
EDGE, ROOM = "addresses end", 16
SITE = "the site"
UNITS = {"instructions": "added", "loads": "added", "taken": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release with direct calls, side of the site, and place: the last that it calls by itself and the first that
    it does not, each driven with code that does nothing but go on to the function.

    Columns: isa, release, side (BEHIND or AHEAD), place (LAST, BEYOND or EDGE), address, distance (bytes from rec->ip), through
    (what the site calls: SITE for the code itself, else a symbol), hypothetical (no kernel is known to place code there, and what
    the lab does with it is no kernel's), ran (the code was executed and the function returned what it returns without), then what
    the call adds to the unhooked one: instructions, loads, stores, taken.
    """
    frame = pd.DataFrame(every_release(_edges))
    frame.attrs["units"] = UNITS
    return frame


def _edges(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one kernel; none without direct calls."""
    kernel = Kernel(isa, release)
    if not kernel.features["direct"]:
        return []
    site = kernel.function(FUNCTION).site
    ends = window(kernel.isa, site, kernel.features, kernel.image.address)
    places = list(around(kernel.isa, kernel.features, ends))
    made = Kernel(isa, release, room_at=[address for *_, address in places])
    function = made.function(FUNCTION)
    idle, items = made.call(function, *ARGUMENTS), []
    for side, place, address in places:
        with made.attached(function, Placed(at=address)):
            run = made.call(function, *ARGUMENTS)
        through = next(run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) != "site")
        items.append(
            {
                "side": side,
                "place": place,
                "address": f"{address:#x}",
                "distance": address - site.ip,
                "through": through if through in made.image.symbols else SITE,
                "hypothetical": place == BEYOND and not made.features["call_ops"],
                "ran": run.value == idle.value and address in run.instructions,
                **_added(run, idle),
            }
        )
    return items


def around(isa: Isa, features: Features, ends: tuple[int, int]) -> Iterator[tuple[str, str, int]]:
    """(side, place, address) of the places to try for a window of these ends."""
    wide = step(isa, features)
    for side, end, out in ((BEHIND, ends[0], -wide), (AHEAD, ends[1], wide)):
        if 0 <= end + out < SPACE:
            yield side, LAST, end
            yield side, BEYOND, end + out
        else:
            yield side, EDGE, max(0, min(end, SPACE - ROOM))


def _added(run: Run, idle: Run) -> dict[str, int]:
    more, less = run.counts.total, idle.counts.total
    return {"instructions": more.instructions - less.instructions, "loads": more.loads - less.loads,
            "stores": more.stores - less.stores, "taken": more.branches_taken - less.branches_taken}  # fmt: skip


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the kernels that the page shows."""
    keys = frame[["isa", "release"]].apply(tuple, axis=1)
    parts = [frame[keys == kernel] for kernel in kernels()]
    out = pd.concat(parts, ignore_index=True)
    out.attrs = dict(frame.attrs)
    return out


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and side: the last place that the site calls by itself, the next one, through what a call gets there, and
    how many instructions more that is."""
    items = []
    for (isa, release, side), part in frame.groupby(["isa", "release", "side"], sort=False):
        by = part.set_index("place")
        line = {"isa": f"{phrases.isa_name(str(isa))} {release}", "side": side}
        line["last"] = phrases.marked(f"{by['distance'].iloc[0]:+#x}", bare(str(isa), str(release)))
        if EDGE in by.index:
            items.append(line | {"next": "-", "through": EDGE, "more": None})
            continue
        beyond = by.loc[BEYOND]
        line["next"] = f"{beyond['distance']:+#x}"
        if beyond["hypothetical"]:
            items.append(line | {"through": phrases.marked("no kernel's"), "more": None})
        else:
            items.append(line | {"through": beyond["through"], "more": beyond["instructions"] - by.loc[LAST, "instructions"]})
    found = pd.DataFrame(items).astype({"more": "Int64"})
    found.attrs = {"units": {"more": "insns"}, "right": ("last", "next")}
    return found


def bare(isa: str, release: str) -> bool:
    """Does no kernel have code where a site calls it by itself?"""
    return hooks.hypothetical("direct", isa, release)


def places(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and place: the distance, what the site calls, and what that adds."""
    printed = pd.DataFrame({"isa": [f"{phrases.isa_name(r.isa)} {r.release}" for r in frame.itertuples()]})
    printed["place"] = [f"{r.side}, {r.place}" if r.place != EDGE else r.place for r in frame.itertuples()]
    printed["distance"] = [f"{r.distance:+#x}" for r in frame.itertuples()]
    no_kernel = [r.hypothetical or (r.through == SITE and bare(r.isa, r.release)) for r in frame.itertuples()]
    printed["calls"] = [phrases.marked(str(r.through), so) for r, so in zip(frame.itertuples(), no_kernel, strict=True)]
    printed["insns"], printed["loads"] = frame["instructions"].to_list(), frame["loads"].to_list()
    printed.attrs = {"units": {"insns": "added", "loads": "added"}, "right": ("distance",)}
    return printed


def about(distance: int) -> str:
    """A distance in the largest unit that it has, without its sign.

    >>> about(-(1 << 27)), about((1 << 31) - 100), about(-0x1804)
    ('128 MiB', '2 GiB', '6 KiB')
    """
    size, bits = abs(distance), 0
    while bits < 40 and round(size / (1 << bits), 1) >= 1024:
        bits += 10
    return f"{size / (1 << bits):.0f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[bits // 10]}"


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: with what every place adds, in the lab also where no kernel has code."""
    return places(shown(frame))


def same_since(frame: pd.DataFrame, isa: str) -> str:
    """The first release shown from which on an ISA's rows are those of its newest."""
    parts = [(str(release), part.drop(columns="release").reset_index(drop=True))
             for release, part in frame[frame["isa"] == isa].groupby("release", sort=False)]  # fmt: skip
    same = list(itertools.takewhile(lambda one: one[1].equals(parts[-1][1]), reversed(parts)))
    return same[-1][0]


def span(part: pd.DataFrame) -> int:
    """Bytes from the lowest to the highest place that one kernel's site calls by itself."""
    inside = part[part["place"] != BEYOND]["distance"]
    return int(inside.max() - inside.min())


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by ISA and release, such as "arm64-v7-2-span", "-behind", "-ahead" (distances to the last place, in
    words); "arm64-same-since", the first release from which on all of it is so."""
    values: dict[str, object] = {"arm64-same-since": same_since(frame, "arm64")}
    for (isa, release), part in frame.groupby(["isa", "release"], sort=False):
        name = f"{isa}-{str(release).replace('.', '-')}"
        values[f"{name}-span"] = about(span(part))
        for r in part[part["place"] != BEYOND].itertuples():
            values[f"{name}-{r.side}"] = about(r.distance)
    return values


FIGURES = (
    Figure(
        "fig-reach",
        "How far does a patch site reach by itself?",
        rows=shown,
        table=table,
        limits="Distances from rec->ip, driven in the lab: the code lies there and was executed. Counts of instructions added to "
        "one call, that code's own among them; no timing.",
        hypothetical=True,
    ),
)
