"""What do patch sites and the pointer before each function add to a text, in bytes, by cause?"""

from __future__ import annotations

import pandas as pd

from tramplab.build import corpus
from tramplab.build.corpus import Compiled
from tramplab.isa import ISAS

from ...publish import phrases
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ..memo import once
from . import text_schemes
from .text_schemes import BTI, BUILDS, CALL_OPS, FIXED, LONG, NONE, PADDED, PAIR, PLAIN, SCHEMES, USUAL, Scheme

NAME = "text_bytes"
TITLE = "What patch sites add to a text, by cause"
#: The causes of bytes: the functions' own; the NOPs at the entry; the pointer before it, or the room for mitigations; a landing
#: pad that a function has only because a site begins it; alignment between functions; and what else became longer.
OWN, SITE, LITERAL, ROOM, PAD, PADDING, OTHER = CAUSES = (
    "own code", "site", "literal", "room for mitigations", "landing pad", "alignment", "other code",
)  # fmt: skip
#: BTI C, and ENDBR64.
_LANDING_PADS = (bytes.fromhex("5f2403d5"), bytes.fromhex("f30f1efa"))
#: LITERAL and ROOM in a chart: no scheme has both.
FRONT = "before the entry"
#: The plain site of each ISA, to which a literal is added; of riscv64 there are two.
BEFORE = {"x86_64": PLAIN, "arm64": PLAIN, "riscv64": PAIR}


@once
def rows() -> pd.DataFrame:
    """One row per scheme (text_schemes.SCHEMES) and cause (CAUSES), of the corpus compiled with it (build.corpus).

    Columns: isa, build, scheme, release (whose sites these are, "" for none), hypothetical, functions, cause, total (bytes in the
    section of text), each (the same for one function, on average).
    """
    plain = {key: _compiled(next(s for s in SCHEMES if (s.isa, s.build, s.name) == (*key, NONE))) for key in BUILDS}
    records = []
    for scheme in SCHEMES:
        made = _compiled(scheme)
        first = ROOM if scheme.name == PADDED else LITERAL
        found = causes(made, plain[scheme.isa, scheme.build], *text_schemes.reserved(scheme), first)
        head: dict[str, object] = {"isa": scheme.isa, "build": scheme.build, "scheme": scheme.name, "release": scheme.release}
        head |= {"hypothetical": scheme.hypothetical, "functions": len(made.functions)}
        records += [{**head, "cause": cause, "total": n, "each": round(n / len(made.functions), 2)} for cause, n in found.items()]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = {"total": "B", "each": "B per function"}
    return frame


def _compiled(scheme: Scheme) -> Compiled:
    return corpus.compiled(ISAS[scheme.isa], BUILDS[scheme.isa, scheme.build][1], text_schemes.flags(scheme))


def causes(made: Compiled, plain: Compiled, before: int, at: int, first: str = LITERAL) -> dict[str, int]:
    """Bytes of a text by cause; plain is the same corpus without sites. before, at: bytes of each site in front of the entry, whose
    cause is `first`, and at it."""
    found = dict.fromkeys(CAUSES, 0)
    usual = {f.name: f for f in plain.functions}
    end = 0
    for function in made.functions:
        found[PADDING] += function.start - before - end
        found[first] += before
        found[SITE] += at
        body, without = function.size - at, usual[function.name]
        found[OWN] += without.size
        pad = _pad(made.text, function.start) - _pad(plain.text, without.start)
        found[PAD] += pad
        found[OTHER] += body - without.size - pad
        end = function.start + function.size
    found[PADDING] += len(made.text) - end
    return found


def _pad(text: bytes, start: int) -> int:
    """Bytes of the landing pad with which a function begins, 0 without one."""
    return next((len(pad) for pad in _LANDING_PADS if text.startswith(pad, start)), 0)


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """What sites add, as the chart has it: causes that add something anywhere, without the functions' own code; the build in isa,
    the mark behind what no kernel has."""
    other = [LITERAL if scheme == PADDED else ROOM for scheme in frame["scheme"]]
    plotted = frame[(frame["cause"] != OWN) & (frame["cause"] != pd.Series(other, frame.index))].copy()
    plotted["cause"] = plotted["cause"].replace({LITERAL: FRONT, ROOM: FRONT})
    plotted["isa"] = [_build(r.isa, r.build) for r in plotted.itertuples()]
    plotted["scheme"] = [phrases.marked(r.scheme, r.hypothetical) for r in plotted.itertuples()]
    plotted = plotted[plotted.groupby("cause")["total"].transform("any")].reset_index(drop=True)
    plotted.attrs = {"units": {"each": "B per function"}}
    return plotted


def _build(isa: str, build: str) -> str:
    return " ".join(filter(None, (phrases.isa_name(isa), build)))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per build and scheme: bytes per function by cause, what that is more than without sites, and more in percent of the
    text."""
    every = frame.assign(isa=[_build(r.isa, r.build) for r in frame.itertuples()])
    every["scheme"] = [phrases.marked(r.scheme, r.hypothetical) for r in frame.itertuples()]
    lines = every[["isa", "scheme"]].drop_duplicates()
    each = every.pivot(index=["isa", "scheme"], columns="cause", values="each").reindex(pd.MultiIndex.from_frame(lines))
    whole = every.groupby(["isa", "scheme"], sort=False)["total"].sum()
    printed = pd.DataFrame({"site": each[SITE], "before": each[LITERAL] + each[ROOM], "pad": each[PAD], "alignment": each[PADDING]})
    base = {isa: whole[isa, NONE] for isa in dict.fromkeys(lines["isa"])}
    number = frame["functions"].iloc[0]
    printed["more"] = [(n - base[isa]) / number for (isa, _), n in whole.items()]
    printed["grown"] = [100 * (n - base[isa]) / base[isa] for (isa, _), n in whole.items()]
    texts = {column: [f"{n:.1f}" for n in printed[column]] for column in printed.columns}
    found = pd.DataFrame({**lines.reset_index(drop=True), **texts})
    found.attrs = {"units": dict.fromkeys(texts, "B") | {"grown": "%"}, "right": (*texts,)}
    return found


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: totals too, of which each function has its part."""
    out = frame[frame["total"] > 0].drop(columns=["release", "functions", "hypothetical"])
    out["build"] = out["build"].replace("", "usual")
    return out.reset_index(drop=True)


def each(frame: pd.DataFrame, isa: str, scheme: str, build: str = USUAL) -> pd.Series:
    """Bytes per function by cause, without the functions' own code."""
    chosen = (frame["isa"] == isa) & (frame["scheme"] == scheme) & (frame["build"] == build) & (frame["cause"] != OWN)
    return frame[chosen].set_index("cause")["each"]


def more(frame: pd.DataFrame, isa: str, scheme: str, less: str = NONE, build: str = USUAL) -> pd.Series:
    """Bytes per function by cause that a scheme has more than another."""
    return each(frame, isa, scheme, build) - each(frame, isa, less, build)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: by ISA, in bytes per function, what plain sites add ("arm64-site-each"), what CALL_OPS adds to that
    ("-call-ops-each"), and how much of it is alignment ("-alignment-each"); of riscv64 the alignment that one patched
    instruction without CALL_OPS adds ("-fixed-alignment-each"), and that without compressed instructions ("-long-alignment-each");
    of arm64 with landing pads what they add to a site ("-pad-each") and the percentage of the functions that need one ("-signed");
    of x86-64 the room for mitigations ("-room-each"); and of the corpus "functions" and "mean", bytes of one's own code on
    x86-64."""
    values: dict[str, object] = {"functions": f"{int(frame['functions'].iloc[0]):,}"}
    bodies = frame[(frame["cause"] == OWN) & (frame["isa"] == "x86_64") & (frame["scheme"] == NONE)]
    values["mean"] = f"{bodies['each'].iloc[0]:.0f}"
    for isa, usual in BEFORE.items():
        added = more(frame, isa, CALL_OPS, usual)
        values[f"{isa}-site-each"] = f"{each(frame, isa, usual)[SITE]:.0f}"
        values |= {f"{isa}-call-ops-each": _digit(added.sum()), f"{isa}-alignment-each": _digit(added[PADDING])}
    pad = each(frame, "arm64", PLAIN, BTI)[PAD]
    values["riscv64-fixed-alignment-each"] = _digit(more(frame, "riscv64", FIXED)[PADDING])
    values["riscv64-long-alignment-each"] = _digit(more(frame, "riscv64", CALL_OPS, PAIR, LONG)[PADDING])
    values |= {"arm64-pad-each": _digit(pad), "arm64-signed": f"{100 * pad / len(_LANDING_PADS[0]):.0f}"}
    values["x86_64-room-each"] = f"{each(frame, 'x86_64', PADDED)[ROOM]:.0f}"
    return values


def _digit(n: float) -> str:
    """A number with one digit behind the point, nothing without a sign.

    >>> _digit(-0.04), _digit(2.06)
    ('0.0', '2.1')
    """
    return f"{round(n, 1) + 0.0:.1f}"


FIGURES = (
    Figure(
        "fig-text-bytes",
        "What do patch sites add to each function?",
        chart=lambda frame: stacked_bars("each", bars="scheme", stack="cause", columns=2)(named(frame)),
        table=table,
        alt="A panel per ISA and build with a bar per kind of patch site: bytes for each function, split into the site, what lies "
        "before the entry, landing pads and alignment.",
        limits="Bytes in the section of text of a corpus whose functions are as large as those of one Debian kernel, compiled by "
        "the lab's clang; not linked, nothing runs.",
        kind="bytes",
        hypothetical=True,
    ),
)
