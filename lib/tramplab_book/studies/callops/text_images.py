"""What part of Debian's kernels are patch sites, and what is CALL_OPS of it or would be?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.vmlinux.saved import saved

from ...publish import phrases
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ..memo import once
from . import text_bytes
from .text_bytes import LITERAL, PADDING, SITE
from .text_schemes import CALL_OPS

NAME = "text_images"
TITLE = "What part of Debian's kernels are patch sites"
#: A kernel as it is, or as if it had CALL_OPS.
BUILT, WITH = "as built", "with CALL_OPS"
UNITS = {"text": "MiB", "bytes": "KiB", "percent": "% of text"}
KIB, MIB = 1 << 10, 1 << 20


@once
def rows() -> pd.DataFrame:
    """One row per plain Debian kernel, and the newest of each ISA that has no CALL_OPS also as if it had it, and cause.

    Sites are those that were found in the image; their bytes and those of the pointers follow from its kind of site. Alignment is
    what the corpus has on average for each (text_bytes), for CALL_OPS alone. Columns: isa, release, kernel (BUILT or WITH),
    hypothetical, text (MiB), sites, cause, bytes (in KiB), percent (of the text, with what is added).
    """
    corpus, records = text_bytes.rows(), []
    kernels = [found["kernel"] for found in saved.plain()]
    newest = {kernel["isa"]: kernel["release"] for kernel in kernels if not _has(kernel)}
    for kernel in kernels:
        records += _kernel(kernel, BUILT, corpus, _has(kernel))
        if newest[kernel["isa"]] == kernel["release"]:
            records += _kernel(kernel, WITH, corpus, True)
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _has(kernel: dict[str, Any]) -> bool:
    """Has a saved kernel CALL_OPS?"""
    return bool(kernel["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"])


def _kernel(kernel: dict[str, Any], name: str, corpus: pd.DataFrame, call_ops: bool) -> list[dict[str, object]]:
    """The rows of one kernel, as built or with CALL_OPS."""
    start, end = (int(address, 16) for address in kernel["places"]["text"])
    isa, sites = kernel["isa"], sites_of(kernel)
    each = text_bytes.more(corpus, isa, CALL_OPS)
    found = {SITE: sites * each[SITE]}
    found |= {LITERAL: sites * each[LITERAL], PADDING: sites * max(0, each[PADDING])} if call_ops else {LITERAL: 0, PADDING: 0}
    whole = end - start + (sum(found.values()) - found[SITE] if name == WITH else 0)
    head = {"isa": isa, "release": kernel["release"], "kernel": name, "hypothetical": name == WITH}
    head |= {"text": round(whole / MIB, 2), "sites": sites}
    return [{**head, "cause": cause, "bytes": round(n / KIB), "percent": round(100 * n / whole, 2)} for cause, n in found.items()]


def sites_of(kernel: dict[str, Any]) -> int:
    """How many patch sites a saved kernel has: the number in what was done to boot it.

    >>> sites_of({"booted": ["12 patch sites became NOPs", "alternatives are as linked"]})
    12
    """
    return next(int(words.split()[0]) for words in kernel["booted"] if "patch sites" in words)


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that the chart has: of what is there, with the release and the mark in kernel."""
    plotted = frame[frame["percent"] > 0].copy()
    plotted["kernel"] = [_named(r) for r in plotted.itertuples()]
    plotted["isa"] = plotted["isa"].map(phrases.isa_name)
    return plotted.reset_index(drop=True)


def _named(r: Any) -> str:
    return phrases.marked(f"{r.release}{'' if r.kernel == BUILT else f', {r.kernel}'}", r.hypothetical)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel: its text, its sites, and of the text in percent the sites, the pointers and what aligns for them."""
    data = frame.assign(kernel=[_named(r) for r in frame.itertuples()])
    keys = ["isa", "kernel", "text", "sites"]
    wide = data.pivot(index=keys, columns="cause", values="percent")
    wide = wide.reindex(pd.MultiIndex.from_frame(data[keys].drop_duplicates()))[[SITE, LITERAL, PADDING]].reset_index()
    wide.columns.name = None
    wide["isa"] = wide["isa"].map(phrases.isa_name)
    for cause in (SITE, LITERAL, PADDING):
        wide[cause] = [f"{n:.1f}" for n in wide[cause]]
    wide["text"] = [f"{n:.1f}" for n in wide["text"]]
    wide.attrs = {"units": {"text": "MiB", SITE: "%", LITERAL: "%", PADDING: "%"}, "right": ("text", SITE, LITERAL, PADDING)}
    return wide


def _call_ops(frame: pd.DataFrame, isa: str, release: str, kernel: str, column: str = "percent") -> float:
    """What the pointers and what aligns for them take of one kernel."""
    chosen = (frame["isa"] == isa) & (frame["release"] == release) & (frame["kernel"] == kernel) & (frame["cause"] != SITE)
    return float(frame.loc[chosen, column].sum())


def _newest(frame: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """ISA -> release and kernel (BUILT or WITH) of its newest with CALL_OPS, if need be as if it had it."""
    last = frame[frame["percent"] > 0].drop_duplicates("isa", keep="last")
    return {r.isa: (r.release, r.kernel) for r in last.itertuples()}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: by ISA, what CALL_OPS takes of the text of its newest kernel, or would take, in percent
    ("arm64-call-ops") and KiB ("arm64-call-ops-kib")."""
    values: dict[str, object] = {}
    for isa, (release, kernel) in _newest(frame).items():
        values[f"{isa}-call-ops"] = f"{_call_ops(frame, isa, release, kernel):.1f}"
        values[f"{isa}-call-ops-kib"] = f"{_call_ops(frame, isa, release, kernel, 'bytes'):.0f}"
    return values


FIGURES = (
    Figure(
        "fig-text-images",
        "What part of a real kernel's text is it?",
        chart=lambda frame: stacked_bars("percent", bars="kernel", stack="cause", columns=1)(named(frame)),
        table=table,
        alt="A panel per ISA with a bar for each Debian kernel, as built, and the newest without CALL_OPS also as if it had it: "
        "percent of the text that are sites, the pointers before functions, and alignment.",
        limits="Sites counted in Debian's images, their bytes by the kind of site. Alignment is computed, from the average of the "
        "corpus, and for CALL_OPS alone. x86-64's text is filled up between its parts, to multiples of 2 MiB, so that its "
        "percentages are low. Not linked again, nothing runs.",
        source="sites",
        kind="bytes",
        hypothetical=True,
    ),
)
