"""How much dearer is BPF through an fprobe than called directly: in instructions, in estimated cycles, and as published?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, estimated, listed, marked
from ..once import once
from ..time.published_pairs import PAIRS
from .stages import DIRECT, SEQUENCE, WITHOUT_NODE, Stage, run

NAME = "fprobe_losses"
TITLE = "BPF through an fprobe and called directly, beside what was published"
CORES = ("cortex-a72", "skylake", "sifive-u74")
#: Way -> its stage: the four reasons taken away one after the other.
WAYS: dict[str, Stage] = dict(
    zip(
        ("unoptimised", "args saved", "+ no list", "+ declined", "+ no freelist", "+ no node"),
        (*SEQUENCE, WITHOUT_NODE),
        strict=True,
    )
)


#: Way -> the published round that is nearest to it, as it is called here and in the pairs of studies/time/published_pairs. All are
#: of a Raspberry Pi 4.
ROUNDS = {
    "unoptimised": ("RFC, unoptimised", "fprobe, slow / direct"),
    "args saved": ("Xu", "fprobe / direct"),
    "+ no list": ("Florent", "fprobe+CALL_OPS/direct"),
    "+ declined": ("RFC, optimised", "fprobe, fast / direct"),
}


@once
def rows() -> pd.DataFrame:
    """One row per core and way: what BPF through an fprobe adds to a call, as a multiple of what the direct call adds.

    Columns: isa, core, way (a name of WAYS), hypothetical (all are), instructions (the ratio of counts), cycles, low, high (of
    estimates, with the band), round and published (the nearest published comparison and its ratio; "" and missing where none is).
    """
    out = []
    for name in CORES:
        model = core(name)
        direct, direct_idle = run(model.isa, DIRECT)
        base = (direct.counts.total - direct_idle.counts.total).instructions
        for way, stage in WAYS.items():
            hooked, idle = run(model.isa, stage)
            ratio = cycles.relative((hooked, idle), (direct, direct_idle), model)
            near, pair = ROUNDS.get(way, ("", "")) if model.name == CORES[0] else ("", "")
            out.append(
                {
                    "isa": model.isa,
                    "core": model.name,
                    "way": way,
                    "hypothetical": True,
                    "instructions": round((hooked.counts.total - idle.counts.total).instructions / base, 2),
                    "cycles": round(float(ratio.mid), 2),
                    "low": round(float(ratio.low), 2),
                    "high": round(float(ratio.high), 2),
                    "round": near,
                    "published": next((round(p.ratio, 2) for p in PAIRS if p.what == pair), None),
                }
            )
    return pd.DataFrame(out)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per core and way: the ratios, of estimates with their band."""
    out = pd.DataFrame({"core": frame["core"], "way": [marked(way) for way in frame["way"]]})
    out["insns"] = [f"{r.instructions:.2f}" for r in frame.itertuples()]
    out["cycles (band)"] = [_band(r) for r in frame.itertuples()]
    out["published"] = [f"{r.published:.2f} {r.round.split(',')[0]}" if r.round else "-" for r in frame.itertuples()]
    out.attrs["right"] = ["insns", "cycles (band)"]
    return out


def _band(r: Any) -> str:
    return estimated(r.cycles, r.low, r.high, digits=2)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows beside which something was published, and whether it lies in the band of the estimate."""
    part = frame[frame["round"] != ""]
    return part.assign(inside=(part["low"] <= part["published"]) & (part["published"] <= part["high"]))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: per core "cortex-a72-unoptimised-ratio" and "cortex-a72-optimised-ratio" in estimated cycles with the
    band; per round "rfc-unoptimised-published", and so on."""
    out: dict[str, object] = {}
    for r in frame.itertuples():
        for name, way in (("unoptimised", "unoptimised"), ("optimised", "+ declined")):
            if r.way == way:
                out[f"{r.core}-{name}-ratio"] = _band(r)
        if r.round:
            out[f"{r.round.lower().replace(', ', '-')}-published"] = f"{r.published:.2f}"
    return out


def answer(frame: pd.DataFrame) -> str:
    """The ends of the scale on the core that was measured, and what lies outside the estimates' bands."""
    n, found = numbers(frame), compared(frame)
    slow, fast = (n[f"cortex-a72-{name}-ratio"] for name in ("unoptimised", "optimised"))
    said = f"On a Cortex-A72, estimated with its band, an fprobe as it was adds {slow} times as many cycles as a direct call, and "
    said += f"{fast} times with arguments saved, no list and the return declined; the RFC's figures come to "
    said += f"{n['rfc-unoptimised-published']} and {n['rfc-optimised-published']}. "
    ranks = (found["published"].rank(ascending=False) == found["cycles"].rank(ascending=False)).all()
    said += f"All published rounds together have {'the' if ranks else 'another'} order {'of' if ranks else 'than'} the estimates"
    outside = [f"{r.round} ({r.published:.2f})" for r in found[~found["inside"]].itertuples()]
    return said + (f"; outside the bands: {listed(outside)}." if outside else ", and all lie in their bands.")


FIGURES = (
    Figure(
        "fig-fprobe-losses",
        "How many times as much as a direct call does BPF through an fprobe add?",
        table=table,
        answer=answer,
        limits="Estimates with models of the cores for one call of a two-argument function; the band varies what is not known of "
        "the core, in both calls at once. Published: Raspberry Pi 4; what a hook adds is what an event takes more than without it. "
        "The rounds are of kernels that differ. " + HYPOTHETICAL,
    ),
)
