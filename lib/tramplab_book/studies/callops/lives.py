"""Is a way to patch safe whatever comes and goes: static and dynamic ops, direct calls, in which order?"""

from __future__ import annotations

import pandas as pd

from tramplab.races import explore
from tramplab.races.explore import SAFE
from tramplab.races.model.moments import UNORDERED
from tramplab.races.schemes.schemes import LIVES, scheme

from ...publish.figures.chart import heat_map
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name
from ..memo import once
from .patching import LETTERS, LIMITS, MEANINGS

NAME = "lives"
TITLE = "Patching schemes for every life of a function"
UNITS = {"steps": "shortest"}
#: Scheme -> the kernel that patches so; none of these is hypothetical.
KERNELS = {
    "arm64-bl": "v6.1",
    "arm64-call-ops": "v6.16, CALL_OPS",
    "riscv64-pair16": "v6.1, not preemptible",
    "riscv64-pair": "v6.12",
    "riscv64-fixed-auipc": "v6.16, no CALL_OPS",
    "riscv64-call-ops": "v6.16, CALL_OPS",
    "x86_64-int3": "v6.12",
}
#: The same in tables, a column each: riscv64's kernels of v6.1 and v6.12 are not preemptible.
_SHORT = {
    "v6.1": "v6.1",
    "v6.1, not preemptible": "v6.1",
    "v6.12": "v6.12",
    "v6.16, no CALL_OPS": "v6.16 without",
    "v6.16, CALL_OPS": "v6.16 with",
}
DIRECT = ("near", "far", "beside", "modify")
#: Kernels without direct calls; and with sites that reach no target that any allocator gives.
_NO_DIRECT = {("arm64-bl", life) for life in DIRECT} | {("riscv64-pair16", life) for life in DIRECT}
_NO_DIRECT |= {("riscv64-fixed-auipc", life) for life in DIRECT}
_NO_DIRECT |= {("riscv64-call-ops", life) for life in ("near", "beside", "modify")}


@once
def rows() -> pd.DataFrame:
    """One row per kernel (a scheme of KERNELS) and life of a function (of LIVES) that there is on it, under the worst fetches and
    with stores in any order.

    Columns: scheme, isa, kernel, life, outcome (SAFE, or the property that is violated), steps (of the shortest schedule that ends
    so, 0 where none does)."""
    out = []
    for name, kernel in KERNELS.items():
        for life in LIVES:
            if (name, life) in _NO_DIRECT:
                continue
            chosen = scheme(name).lived(life)
            found = explore(chosen.subject(), 1, chosen.fetch, data=UNORDERED)
            assert not found.limit, "a scheme that takes longer than its limit decides nothing"
            out.append(
                {
                    "scheme": name,
                    "isa": chosen.isa,
                    "kernel": kernel,
                    "life": life,
                    "outcome": found.outcome,
                    "steps": len(found.schedule),
                }
            )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per life: how it ends on each kernel, "-" where there is none."""
    named = frame.assign(kernel=frame["kernel"].replace(_SHORT))
    wide = named.pivot(index=["isa", "life"], columns="kernel", values="outcome")[list(dict.fromkeys(_SHORT.values()))].fillna("-")
    out = wide.loc[[(isa, life) for isa in named["isa"].unique() for life in LIVES]].reset_index()
    out.columns = [str(c) for c in out.columns]
    out.attrs["units"] = {}
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: of each kernel how many lives it has, "arm64-bl-lives", and of these are safe, "arm64-bl-safe"; how
    each ends, "arm64-bl-static"; the kernels, "kernels-total", and those of them that are safe in every life, "kernels-safe"."""
    lives = frame.groupby("scheme")["outcome"]
    safe = lives.agg(lambda outcomes: int((outcomes == SAFE).sum()))
    out: dict[str, object] = {f"{name}-lives": int(n) for name, n in lives.size().items()}
    out |= {f"{name}-safe": int(n) for name, n in safe.items()}
    out |= {"kernels-total": len(safe), "kernels-safe": int((safe == lives.size()).sum())}
    return out | {f"{r.scheme}-{r.life}": r.outcome for r in frame.itertuples()}


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with kernels as the chart names them, by ISA and release."""
    return frame.assign(kernel=[f"{isa_name(r.isa)} {r.kernel}" for r in frame.itertuples()])


FIGURES = (
    Figure(
        "fig-patching-lives",
        "Which kernels are safe whatever comes and goes?",
        chart=lambda frame: heat_map("outcome", rows="kernel", columns="life", meanings=MEANINGS, letters=LETTERS)(drawn(frame)),
        table=table,
        alt="A panel per ISA: for each kernel, and for each order in which ops and direct calls come and go, a letter: s where "
        "every interleaving is safe, P where a callback can be called with another one's ops.",
        limits=LIMITS,
        kind="search",
    ),
)
