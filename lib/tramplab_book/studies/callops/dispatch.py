"""What does a call cost with so many ops on the function and so many elsewhere, with CALL_OPS and without? The published grid."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel

from ...publish.figures.chart import lines
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, listed, marked
from ..memo import once
from ..shared.growth import step
from ..time.published_call_ops import LIKE_SERIES, PUBLISHED, SERIES, STANDARD, TABLES, Called

NAME = "dispatch"
TITLE = "What a call costs with ops on the function and elsewhere"
#: The cells of the published tables, ops on the function and on another one: a line each of those that grow in one number.
IDLE = tuple((0, n) for n in (0, 1, 2, 10, 100, 200))
ELSEWHERE = tuple((1, n) for n in (0, 1, 2, 10, 100, 200))
HERE = tuple((n, 0) for n in (2, 10, 100, 200))
CELLS = (*IDLE, *ELSEWHERE, *HERE)
#: More ops than this on a side are computed: the guest has room for 128.
COUNTED = 100
WITHOUT, WITH = "without", "CALL_OPS"
UNITS = {"instructions": "added"}


@dataclass(frozen=True)
class Built:
    """A kernel of the grid: with CALL_OPS or without (a key of the column built), of a release, with features set by hand;
    hypothetical: no kernel has it."""

    isa: str
    built: str
    release: str
    overrides: dict[str, Any] = field(default_factory=dict)
    hypothetical: bool = False

    def kernel(self, meter: str = COUNT) -> Kernel:
        """A kernel that is built so, booted."""
        return Kernel(self.isa, self.release, meter=meter, **self.overrides)

    @property
    def head(self) -> dict[str, object]:
        """The columns of rows that say which kernel it is."""
        return {"isa": self.isa, "built": self.built, "release": self.release, "hypothetical": self.hypothetical}


def builds() -> list[Built]:
    """Two for each ISA: the releases on either side of CALL_OPS, and of x86-64 the newest without and with it."""
    items = [Built("x86_64", WITHOUT, releases.LATEST), Built("x86_64", WITH, releases.LATEST, {"call_ops": True}, True)]
    for isa in ISAS:
        table = next((t for t in TABLES if t.isa == isa), None)
        if table:
            items += [Built(isa, WITHOUT, table.before, SERIES), Built(isa, WITH, table.after, SERIES)]
    return items


@once
def rows() -> pd.DataFrame:
    """One row per ISA, kernel (without CALL_OPS and with it) and cell of the published tables: what the book's call adds to the
    unhooked one.

    Columns: isa, built (WITHOUT, WITH), release, hypothetical, here (ops on the function), elsewhere (on another one), computed
    (more ops than the guest has room for: each as much more as the ones before), instructions, own (does the site go to a
    trampoline that was made for the one ops?).
    """
    return _grid(STANDARD)


@once
def timed() -> pd.DataFrame:
    """The rows of the call that was timed, as in rows(); without x86-64, of which no table was published."""
    return _grid(PUBLISHED, {table.isa for table in TABLES})


def _grid(called: Called, isas: Container[str] = ISAS) -> pd.DataFrame:
    frame = pd.DataFrame([{**b.head, **row} for b in builds() if b.isa in isas for row in _cells(b, called)])
    frame.attrs["units"] = UNITS
    return frame


def _cells(built: Built, called: Called) -> list[dict[str, object]]:
    records: list[dict[str, object]] = []
    for cells, grows in ((IDLE, "elsewhere"), (ELSEWHERE, "elsewhere"), (HERE, "here")):
        line = _counted(built, called, [cell for cell in cells if max(cell) <= COUNTED])
        each = step({max(cell) if grows == "here" else cell[1]: n for cell, (n, _) in line.items()})
        for on_it, elsewhere in cells:
            computed = (on_it, elsewhere) not in line
            last = max(line) if computed else (on_it, elsewhere)
            n, own = line[last]
            if computed:
                if not isinstance(each, int):
                    raise TramplabError(f"{built.isa}: ops do not add the same each, so {on_it}/{elsewhere} is not known.")
                n += each * (on_it + elsewhere - sum(last))
            records.append({"here": on_it, "elsewhere": elsewhere, "computed": computed, "instructions": n, "own": own})
    return records


def _counted(built: Built, called: Called, cells: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, bool]]:
    """The cells, each with as many ops more as it has; the instructions that each adds, and whether the site goes to a trampoline
    that was made for its ops."""
    kernel = built.kernel()
    function, other = kernel.function(called.function), kernel.function(called.other)
    unhooked, attached, out = kernel.call(function, *called.arguments), (0, 0), {}
    idle = unhooked.counts.total.instructions
    for cell in cells:
        for place, n in zip((function, other), (cell[0] - attached[0], cell[1] - attached[1]), strict=True):
            kernel.attach(place, *called.ops(n))
        attached, run = cell, kernel.call(function, *called.arguments)
        if run.value != unhooked.value:
            raise TramplabError(f"{built.isa} {built.built}: with {cell} ops the function returns something else.")
        out[cell] = run.counts.total.instructions - idle, kernel.slowpath.records[called.function].has("TRAMP_EN")
    return out


def cell(frame: pd.DataFrame, isa: str, built: str, here: int, elsewhere: int) -> int:
    """Instructions that one cell adds."""
    keys = ["isa", "built", "here", "elsewhere"]
    return int(frame.set_index(keys)["instructions"].loc[(isa, built, here, elsewhere)])


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows as charts and tables name them: kernel ("v7.2 CALL_OPS *") and cell ("1/10")."""
    plotted = frame.assign(
        kernel=[marked(f"{r.release} {r.built}", r.hypothetical) for r in frame.itertuples()],
        cell=[f"{r.here}/{r.elsewhere}" for r in frame.itertuples()],
    )
    plotted.attrs["units"] = UNITS
    return plotted


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per ISA, a line per cell, a column for each kernel; cells that are computed stand in brackets. Where
    a function without an ops costs nothing more, whatever is elsewhere, that is one line."""
    idle = frame[frame["here"] == 0]
    if idle["instructions"].eq(0).all():
        frame = frame[(frame["here"] > 0) | (frame["elsewhere"] == COUNTED)]
    cells = shown(frame)
    cells["told"] = [f"({r.instructions})" if r.computed else f"{r.instructions}" for r in cells.itertuples()]
    keys = ["isa", "here", "elsewhere", "cell"]
    first = {f"{b}": cells[cells["built"] == b].set_index(keys)["told"] for b in (WITHOUT, WITH)}
    printed = pd.DataFrame(first).reindex(pd.MultiIndex.from_frame(cells[keys].drop_duplicates())).reset_index()
    marks = {isa: part["hypothetical"].any() for isa, part in frame.groupby("isa", sort=False)}
    printed[WITH] = [marked(n, marks[isa]) for isa, n in zip(printed["isa"], printed[WITH], strict=True)]
    printed = printed.drop(columns=["here", "elsewhere"])
    printed.attrs = {"right": (WITHOUT, WITH), "units": dict.fromkeys((WITHOUT, WITH), "added")}
    return printed


def each(frame: pd.DataFrame, isa: str, built: str, cells: tuple[tuple[int, int], ...]) -> int | str:
    """Instructions that each ops more adds, along one of the lines; "-" if they do not all add the same."""
    return step({sum(c): cell(frame, isa, built, *c) for c in cells if max(c) <= COUNTED})


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-without-1-100-added", what a cell adds, and "arm64-without-elsewhere-step" and "-here-step",
    what each ops more adds on another function and on this one; "arm64-with-own", is there a trampoline that was made for a lone
    ops; "counted", how many ops the guest has room for in one cell."""
    short = {WITHOUT: "without", WITH: "with"}
    values: dict[str, object] = {
        f"{r.isa}-{short[r.built]}-{r.here}-{r.elsewhere}-added": r.instructions for r in frame.itertuples()
    }
    lone = frame[frame["here"] == 1].groupby(["isa", "built"])["own"].any()
    values |= {f"{isa}-{short[built]}-own": int(own) for (isa, built), own in lone.items()}
    for isa in ISAS:
        for built, name in short.items():
            values[f"{isa}-{name}-elsewhere-step"] = each(frame, isa, built, ELSEWHERE)
            values[f"{isa}-{name}-here-step"] = each(frame, isa, built, HERE)
    return values | {"counted": COUNTED}


#: The lines of the chart: where the ops beyond the first are, in a kernel without CALL_OPS or with it.
LINES = {
    ("here", WITHOUT): "all on the function",
    ("elsewhere", WITHOUT): "one on it, no CALL_OPS",
    ("elsewhere", WITH): "one on it, CALL_OPS",
}
#: What its count axis names.
TICKS = (1, 2, 10, COUNTED)


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines of what is counted, by how many ops there are in all."""
    part = frame[(frame["here"] > 0) & ~frame["computed"]]
    beyond = ["here" if here > 1 else "elsewhere" for here in part["here"]]
    named = [LINES.get(key) for key in zip(beyond, part["built"], strict=True)]
    line = [name and marked(name, no_kernel) for name, no_kernel in zip(named, part["hypothetical"], strict=True)]
    out = part.assign(line=line, **{"ops registered": part["here"] + part["elsewhere"]}).dropna(subset=["line"])
    names = {isa: f"{isa_name(str(isa))} {listed(dict.fromkeys(of['release']))}" for isa, of in out.groupby("isa")}
    out["isa"] = out["isa"].map(names)
    out.attrs["units"] = UNITS
    return out


FIGURES = (
    Figure(
        "fig-dispatch",
        "What do ops here and elsewhere cost, with CALL_OPS and without?",
        chart=lambda frame: lines("instructions", over="ops registered", series="line", log="xy", at=TICKS)(_drawn(frame)),
        table=table,
        alt="A panel per ISA: instructions added to a call against the number of ops registered, both on logarithmic axes. On "
        "arm64 and riscv64 two lines rise together, one of a function that has all ops and one of a function with one of "
        "them in a kernel without CALL_OPS; with CALL_OPS the line of the function with one is level. On x86-64 it is "
        "level in both. The table has every number.",
        limits="Emulated counts of instructions in one call of a function of one integer; ops are dynamic, the callback counts; no "
        f"timing. {LIKE_SERIES}",
        legend="a/b: a ops on the function, b on another one; in brackets: computed from what each ops adds.",
        hypothetical=True,
    ),
)
