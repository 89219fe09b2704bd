"""What the charts of ways to a pt_regs show: one of each, where a kernel puts it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tramplab.isa import ISAS
from tramplab.sparsity.ways.ways import FULL, REWRITTEN, STACK

from ..shared.consumers import NAMES
from ..shared.hypothetical import named

#: Ways in charts, by what their names begin with, in order; INLINED: `kernel`, where GCC calls memcpy() for the copy and another
#: compiler does not. `served` shows those that kernels had or have, or that were proposed.
INLINED = "inlined"
DRAWN = (FULL, "plain", "kernel", INLINED, "perf", "most", "light", "chain", REWRITTEN)
COMPARED = {FULL: "full save", "plain": "plain", "kernel": "kernel", REWRITTEN: "as saved"}


def drawn(frame: pd.DataFrame, saving: Mapping[str, str]) -> pd.DataFrame:
    """The rows that charts show, in the order of DRAWN, with `way` one of these: a full save in the release of `saving`, by ISA,
    and fills where a kernel of the ISA puts them, on the stack only where there is no other."""
    inlined = frame["way"].str.endswith(INLINED)
    short = frame["way"].str.split(",").str[0].mask(inlined, INLINED)
    full = (short != FULL) | (frame["way"] == FULL + ", " + frame["isa"].map(saving))
    on_stack = frame["way"].str.endswith(STACK)
    elsewhere = (~on_stack).groupby([frame["isa"], short]).transform("any")
    some = frame[full & short.isin(DRAWN) & ~(on_stack & elsewhere) & ~(inlined & frame["way"].str.startswith("plain"))]
    some = some.assign(way=short, at=short.map({way: n for n, way in enumerate(DRAWN)}))
    out = some.sort_values("at", kind="stable").sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable")
    out.attrs = dict(frame.attrs)
    return out.drop(columns="at")


def priced(frame: pd.DataFrame, saving: Mapping[str, str]) -> pd.DataFrame:
    """The rows of drawn() with what stands beside the bars: how many consumers are right, of those that were asked."""
    some = drawn(frame, saving)
    return named(some.assign(said=[f"({r.right}/{r.asked})" for r in some.itertuples()]), "way")


def compared(frame: pd.DataFrame, saving: Mapping[str, str]) -> pd.DataFrame:
    """The rows of ways of COMPARED, from rows of what consumers conclude, with consumers as charts name them, in their order."""
    some = drawn(frame, saving)
    some = some[some["way"].isin(COMPARED)].assign(order=lambda f: f["consumer"].map(list(NAMES).index))
    some = some.sort_values("order", kind="stable").assign(consumer=lambda f: f["consumer"].map(NAMES))
    return named(some.assign(way=some["way"].map(COMPARED)), "way").drop(columns="order")
