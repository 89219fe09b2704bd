"""How does a lookup grow with the number of direct calls? The hash of the series has at most 64 buckets."""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace.layout import MAX_BITS, bucket, fields, hash_table
from tramplab.ftrace.steps import block, word
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.single.slowpath import MOST_COUNTED

from ....publish.figures.chart import lines
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ...shared.growth import step
from .setups import Setup, requests, setups

NAME = "single_lookup"
TITLE = "One ops for all direct calls: how the lookup grows"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: So many functions with direct calls.
FUNCTIONS = (1, 10, 100, 1_000, 10_000, 50_000)
#: So many entries of other functions are put in front of the function's own, to see what each adds.
BEFORE = (0, 1, 2, 5, 10)
#: Buckets at most: as direct_functions has them in the series (hash_add(), 20251230145010.103439-5-jolsa@kernel.org), and as the
#: copy of an ops' filter may have them (FTRACE_HASH_MAX_BITS).
SERIES, FILTER = 1 << MOST_COUNTED.bit_length(), 1 << MAX_BITS
#: Way -> the calls in which its target is looked up.
LOOKED_UP = {"one-ops": "shared", "lookup": "far", "lookup-c": "far"}
UNITS = {"instructions": "added", "loads": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way that looks a target up, most buckets, and number of functions with direct calls.

    Columns: isa, release, way, hypothetical, case (the call: LOOKED_UP), buckets (at most), functions, first and each (counted
    instructions of a call that finds its entry at once, and what each entry in front of it adds), first_loads and each_loads, then
    instructions and loads of the mean call: computed, with the entries spread evenly over the buckets there are.
    """
    records = []
    for setup in setups():
        if setup.way not in LOOKED_UP:
            continue
        first, each = _counted(setup)
        for most in (SERIES, FILTER):
            for functions in FUNCTIONS:
                before = (functions - 1) / 2 / buckets(functions, most)
                mean = {c: round(first[c] + before * each[c], 1) for c in UNITS}
                shown = {"case": LOOKED_UP[setup.way], "buckets": most, "functions": functions}
                counted = {"first": first["instructions"], "each": each["instructions"]}
                counted |= {"first_loads": first["loads"], "each_loads": each["loads"]}
                records.append({**setup.head, **shown, **counted, **mean})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = {**UNITS, "first": "added", "each": "step"}
    return frame


def buckets(functions: int, most: int) -> int:
    """The number of buckets of a hash with an entry for each function: the next power of two, but at most `most`.

    >>> buckets(1, 64), buckets(32, 64), buckets(10_000, 64), buckets(10_000, 4096)
    (2, 64, 64, 4096)
    """
    return min(1 << functions.bit_length(), most)


def _counted(setup: Setup) -> tuple[dict[str, int], dict[str, int]]:
    """What a call adds that finds its entry at once, and what each entry in front of it adds."""
    kernel = setup.kernel(COUNT)
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS).counts.total
    added = {}
    with kernel.attached(function, *requests(LOOKED_UP[setup.way])):
        for before in BEFORE:
            in_front(kernel, FUNCTION, before)
            added[before] = kernel.call(function, *ARGUMENTS).counts.total - idle
    first = {c: getattr(added[0], c) for c in UNITS}
    return first, {c: int(step({n: getattr(counts, c) for n, counts in added.items()})) for c in UNITS}


def in_front(kernel: Kernel, function: str, before: int) -> None:
    """Publish a direct_functions in which so many entries of other functions lie in front of a function's own, in its bucket."""
    path, image = kernel.slowpath, kernel.image
    ip, bits = path.records[function].site.ip, SERIES.bit_length() - 1
    same = (at for at in range(ip + 4, ip + (1 << 30), 4) if bucket(at, bits) == bucket(ip, bits))
    entries = {ip: path._direct(function)} | {next(same): 0 for _ in range(before)}
    members, data, base = hash_table(image, kernel.heap, entries, bits)
    struct = kernel.heap.take(image.struct("ftrace_hash").size)
    whole = fields(image, "ftrace_hash", members)
    kernel.apply([block(base, data, "entries"), block(struct, whole, "the hash")])
    kernel.apply([word(image.address("direct_functions"), struct, "direct_functions, by hand")])


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, way and most buckets: what each entry in front adds, and the mean call by the number of functions."""
    printed = frame.assign(way=_named(frame), functions=frame["functions"].map(lambda n: f"{n:,}".replace(",", " ")))
    keys = ["isa", "way", "buckets", "each"]
    wide = printed.assign(said=printed["instructions"].round().astype(int)).pivot(index=keys, columns="functions", values="said")
    wide = wide.reindex(pd.MultiIndex.from_frame(printed[keys].drop_duplicates()))
    wide = wide[list(dict.fromkeys(printed["functions"]))].reset_index()
    wide.columns.name = None
    wide.attrs["units"] = {"each": "step"}
    return wide


def _named(frame: pd.DataFrame) -> list[str]:
    """A way with the call that looks up: "lookup far *"."""
    rows = zip(frame["way"], frame["case"], frame["hypothetical"], strict=True)
    return [marked(f"{way} {case}", bool(is_so)) for way, case, is_so in rows]


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines of the chart: each way with the buckets of the series, and the first of an ISA with more."""
    first = frame.groupby("isa")["way"].transform("first")
    part = frame[(frame["buckets"] == SERIES) | (frame["way"] == first)]
    names = [f"{way}, {n} buckets" for way, n in zip(_named(part), part["buckets"], strict=True)]
    out = part.assign(line=names)
    out.attrs["units"] = UNITS
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "buckets" and "more-buckets", and of the mean call with the buckets of the series
    "arm64-lookup-1000-added", and "arm64-lookup-1000-more-buckets-added"."""
    values: dict[str, object] = {"buckets": SERIES, "more-buckets": FILTER}
    for r in frame.itertuples():
        more = "-more-buckets" if r.buckets == FILTER else ""
        values[f"{r.isa}-{r.way}-{r.functions}{more}-added"] = round(r.instructions)
    return values


FIGURES = (
    Figure(
        "fig-single-lookup",
        "How does a lookup grow with the number of direct calls?",
        chart=lambda frame: lines("instructions", over="functions", series="line", log="xy")(drawn(frame)),
        table=table,
        alt="A panel per ISA, both axes logarithmic: instructions that a call adds whose target is looked up, against the number "
        "of functions with direct calls. Lines with 64 buckets rise from about a hundred functions on, those with more stay level.",
        limits="Counted in the emulator: a call that finds its entry at once, and what each entry in front adds. The mean is "
        "computed from both, entries spread evenly over the buckets: at most 64 as posted, v6 of the series "
        "(20251230145010.103439-5-jolsa@kernel.org), or 4096 as the copy of an ops' filter may have. No timing: each entry may be "
        "a cache miss.",
        hypothetical=True,
    ),
)
