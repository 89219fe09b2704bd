"""Which case does a real kernel meet: is what the allocator may give in the reach of a site, and its lowest place?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from tramplab.ftrace import addresses, arch, releases
from tramplab.ftrace.addresses import Range
from tramplab.ftrace.site import Site
from tramplab.ftrace.window import window
from tramplab.isa import ISAS
from tramplab.vmlinux.saved import saved

from ....publish import phrases
from ....publish.figures.chart import state_strip, theme
from ....publish.figures.figure import Figure
from ...memo import once
from .reach_boundary import about
from .reach_kernels import kernels

NAME = "reach_ranges"
TITLE = "What a site reaches of where its trampoline may lie"
#: Sizes of text to compute for, in MiB, beside that of Debian's kernel; its image is scaled with it.
SIZES, MIB = (20, 40, 80), 1 << 20
#: Where in the text the site is.
SITES = {"first": 0.0, "middle": 0.5, "last": 1.0}
#: What becomes of a direct call, by what is in reach.
ALL, LOWEST, OTHERS, NONE, ABSENT = "all", "some, the lowest", "some, not the lowest", "nothing", "no such range"
MEANINGS = {ALL: theme.RIGHT, LOWEST: theme.ONE, OTHERS: theme.TWO, NONE: theme.NOTICED, ABSENT: theme.NOTHING}
DEBIAN = "Debian"
#: Layouts of arm64 by their names in data/addresses.yml.
KASLR, NO_KASLR = "BPF, KASLR", "BPF, nokaslr"
#: And the one of BPF on riscv64.
BELOW = "BPF"
UNITS = {"text": "MiB", "image": "MiB", "room": "B", "inside": "B", "lowest": "B"}


@dataclass(frozen=True)
class Laid:
    """A kernel as it is linked. name: DEBIAN, or the size of its text. Offsets from the image's start: text (start, end), and
    caller, that of ftrace_caller(). size: of the image, with its data. All in bytes."""

    name: str
    text: tuple[int, int]
    caller: int
    size: int

    def scaled(self, text: int) -> Laid:
        """An image as if its text had so many MiB, and all of it were larger by the same factor."""
        factor = text * MIB / (self.text[1] - self.text[0])
        start, end, caller, size = (int(n * factor) & -8 for n in (*self.text, self.caller, self.size))
        return Laid(f"{text} MiB", (start, end), caller, size)


#: In words, where every site reaches every place.


@once
def rows() -> pd.DataFrame:
    """One row per kernel that the pages show, range (ftrace.addresses), size of kernel, place of its image and site, computed.

    Columns: isa, release, code ("bpf", "modules", or both), layout, kernel (DEBIAN or a size), text, image (MiB), at (is the image
    at its "lowest" or "highest" place?), site (of SITES), room (bytes that the allocator may give), inside (of them in the site's
    reach), lowest (bytes from the site to the lowest place), case (of MEANINGS).
    """
    records = [row for isa, release in kernels() for row in _kernel(isa, release)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _kernel(isa: str, release: str) -> Iterator[dict[str, object]]:
    for range_, laid in itertools.product(addresses.of(isa, release), laid_out(isa, release)):
        for at, image in zip(("lowest", "highest"), range_.images(laid.size), strict=False):
            for site, part in SITES.items():
                head: dict[str, object] = {"isa": isa, "release": release, "code": " ".join(range_.code)}
                head |= {"layout": range_.layout, "kernel": laid.name}
                head |= {"text": round((laid.text[1] - laid.text[0]) / MIB, 1), "image": round(laid.size / MIB, 1)}
                yield {**head, "at": at, "site": site, **reached(isa, release, range_, laid, image, part)}


def laid_out(isa: str, release: str) -> list[Laid]:
    """Debian's kernel of a release, and others of SIZES that are like it."""
    places = saved.nearest(isa, release)["kernel"]["places"]
    spans = {name: [int(address, 16) for address in span] for name, span in places.items()}
    start, end = spans["image"]
    text = spans["text"][0] - start, spans["text"][1] - start
    debian = Laid(DEBIAN, text, spans["ftrace_caller"][0] - start, end - start)
    return [debian, *map(debian.scaled, SIZES)]


def reached(isa: str, release: str, range_: Range, laid: Laid, image: tuple[int, int], part: float) -> dict[str, object]:
    """room, inside, lowest and case of a site at a part of the text, 0 its start and 1 its end."""
    site, (low, high) = site_window(isa, release, laid, image, part)
    places = range_.places(image)
    room = sum(end - start for start, end in places)
    inside = overlap(places, low, high)
    lowest = places[0][0] if places else None
    if lowest is None:
        return {"room": room, "inside": inside, "lowest": None, "case": ABSENT}
    some = LOWEST if low <= lowest <= high else OTHERS
    case = ALL if inside == room else some if inside else NONE
    return {"room": room, "inside": inside, "lowest": lowest - site.ip, "case": case}


def site_window(isa: str, release: str, laid: Laid, image: tuple[int, int], part: float) -> tuple[Site, tuple[int, int]]:
    """A site at a part of the text, and the lowest and the highest address that it can call by itself."""
    record = ISAS[isa]
    features = releases.features(record, release, {})
    last = (laid.text[1] - laid.text[0] - 16) * part
    entry = image[0] + laid.text[0] + int(last) // 16 * 16
    site = arch.of(record).site("", entry, entry, features)
    symbols: Callable[[str], int] = {"ftrace_caller": image[0] + laid.caller}.__getitem__
    return site, window(record, site, features, symbols)


def overlap(places: list[tuple[int, int]], low: int, high: int) -> int:
    """Bytes of places, each (start, end), that lie from low to high, both of which count.

    >>> overlap([(0, 10), (20, 30)], 8, 20)
    3
    """
    return sum(max(0, min(end, high + 1) - max(start, low)) for start, end in places)


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with ISA and release in the column isa, of the place of the image that is the lowest."""
    out = frame[frame["at"] == "lowest"].copy()
    out["isa"] = [f"{phrases.isa_name(r.isa)} {r.release}" for r in out.itertuples()]
    return out


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per range and size of kernel: the room, what of it is in reach from the first, middle and last site, and how far the
    lowest place is from the first."""
    data = named(frame)
    data["cell"] = [_inside(r.inside, r.room) for r in data.itertuples()]
    keys = ["isa", "layout", "kernel", "text", "image", "room"]
    wide = data.pivot(index=keys, columns="site", values="cell")[list(SITES)]
    lowest = data[data["site"] == "first"].set_index(keys)["lowest"].astype(object)
    lowest = lowest.where(lowest.notna(), None)
    wide = wide.reindex(lowest.index).reset_index()
    wide["lowest"] = [f"{'-' if n < 0 else '+'}{about(int(n))}" if n is not None else "-" for n in lowest]
    wide["room"] = [about(n) if n else "-" for n in wide["room"]]
    wide["text"] = [f"{n:.0f}" for n in wide["text"]]
    wide.columns.name = None
    printed = wide.drop(columns=["kernel", "image"])
    printed.attrs = {"units": {"text": "MiB"}, "right": ("text", "room", *SITES, "lowest")}
    return printed


def _inside(inside: int, room: int) -> str:
    return "-" if not room else "all" if inside == room else about(inside) if inside else "none"


def cases(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per range, site and size of kernel, as the chart has them: the sites of a range together where all are alike in every
    kernel. Columns: isa, where, text (of SIZES, or DEBIAN), case."""
    data = named(frame)
    records = []
    for (isa, layout), part in data.groupby(["isa", "layout"], sort=False):
        alike = (part.groupby("kernel")["case"].nunique() == 1).all()
        for site, rows in part.groupby("site", sort=False):
            if alike and site != next(iter(SITES)):
                continue
            where = layout if alike else f"{layout}: {site} site"
            records += [{"isa": isa, "where": where, "text": r.kernel, "case": r.case} for r in rows.itertuples()]
    return pd.DataFrame(records)


def _one(frame: pd.DataFrame, isa: str, release: str, layout: str, kernel: str = DEBIAN) -> pd.DataFrame:
    """The rows of one range of a kernel, image at its lowest place, by site."""
    chosen = (frame["isa"] == isa) & (frame["release"] == release) & (frame["layout"] == layout) & (frame["kernel"] == kernel)
    return frame[chosen & (frame["at"] == "lowest")].set_index("site")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, of Debian's kernels: text and image of each ISA's newest in MiB ("arm64-text", "arm64-image"), and
    of arm64 with KASLR how near the lowest place for BPF is ("arm64-kaslr-lowest") and whether sites reach that
    ("arm64-kaslr-first", without KASLR "arm64-nokaslr-first"), without it what is in reach of the first and of the last site
    ("arm64-first-inside", "arm64-last-inside"); and the least text computed for with which a first site does not reach the lowest
    place ("arm64-lost-text"). And riscv64's room for BPF ("riscv64-bpf-room")."""
    release = kernels()[0][1]
    values: dict[str, object] = {}
    for isa in ISAS:
        debian = frame[(frame["isa"] == isa) & (frame["kernel"] == DEBIAN)].iloc[-1]
        values |= {f"{isa}-text": f"{debian['text']:.0f}", f"{isa}-image": f"{debian['image']:.0f}"}
    kaslr, plain = (_one(frame, "arm64", release, layout) for layout in (KASLR, NO_KASLR))
    values["riscv64-bpf-room"] = about(int(_one(frame, "riscv64", release, BELOW)["room"].iloc[0]))
    values |= {"arm64-kaslr-first": _in_reach(kaslr), "arm64-nokaslr-first": _in_reach(plain)}
    values["arm64-kaslr-lowest"] = about(int(kaslr["lowest"].abs().min()))
    values |= {f"arm64-{site}-inside": about(int(plain.loc[site, "inside"])) for site in ("first", "last")}
    lost = [size for size in SIZES if _one(frame, "arm64", release, NO_KASLR, f"{size} MiB").loc["first", "case"] in (OTHERS, NONE)]
    values["arm64-lost-text"] = f"{min(lost)} MiB" if lost else "none"
    return values


def _in_reach(part: pd.DataFrame) -> str:
    """Is the lowest place in the reach of the sites?"""
    reached = part["case"].isin((ALL, LOWEST))
    return "in reach" if reached.all() else "in reach of some sites" if reached.any() else "out of reach"


FIGURES = (
    Figure(
        "fig-reach-ranges",
        "What does a site reach of where code may lie?",
        chart=lambda frame: state_strip("text", "where", "case", meanings=MEANINGS)(cases(frame)),
        table=table,
        alt="A panel per kernel: lanes are ranges that an allocator is given, steps sizes of the kernel's text. A block says "
        "whether all of the range is in a site's reach, some of it with or without its lowest place, or nothing.",
        limits="Computed, not run: ranges from the kernels' sources (data/addresses.yml: 48-bit addresses, 4 KiB pages), places "
        "from Debian's images; larger kernels are Debian's, scaled. What else lies there, and so what is free, is not known.",
        source="layout",
        kind="distance",
    ),
)
