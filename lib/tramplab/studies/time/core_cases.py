"""Which models of cores are usable? Every measured case beside the estimate of the core that it was timed on."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ...analyse import cores
from ...analyse.cores import Core
from ...analyse.cycles import BAND
from ...analyse.judged import Case, judge
from ...errors import TramplabError, unknown
from ...native.kept import HOOKS, SHAPES, saved
from ...publish.figures.figure import Figure
from ..once import once
from . import native_hooks, native_shapes, published_call_ops, published_pairs

NAME = "core_cases"
TITLE = "The models of cores, held against measured times"
UNITS = {"measured": "cycles, or ratio", "estimate": "cycles, or ratio"}
#: Sets of published ratios, by core: of CALL_OPS' tables, and of pairs of hooks in one table.
_CALL_OPS = {table.core: f"published CALL_OPS {table.machine}" for table in published_call_ops.TABLES if table.core}
_PAIRS = {"cortex-a72": "published pairs"}


@once
def rows() -> pd.DataFrame:
    """One row per core and case: columns core, set, case, measured, estimate, sets (see judged.Case), inside, off.

    Native cases are those on which windows agree, in cycles over the unhooked call; published ones are ratios of what two hooks
    add. Raises TramplabError where a core's judged_by names a set that is not there, lacks one that is, or names a case that its
    set has not.
    """
    found = [case for core in cores.cores().values() for case in _checked(core, list(_cases(core)))]
    frame = pd.DataFrame([{**vars(c), "inside": c.inside, "off": round(c.off, 3)} for c in found])
    frame.attrs["units"] = UNITS
    return frame


def _checked(core: Core, found: list[Case]) -> list[Case]:
    """The cases, in the core's own order of sets."""
    there: dict[str, list[str]] = {}
    for case in found:
        there.setdefault(case.set, []).append(case.case)
    file = f"cores/{core.name}.yml"
    for name in sorted(core.judged_by.keys() ^ there.keys()):
        if name not in there:
            raise TramplabError(f"{file}: {unknown('set', name, sorted(there))}")
        raise TramplabError(f"{file}: judged_by lacks {name}, which was measured on such a core; add it.")
    for name, setting in core.judged_by.items():
        if strange := sorted(set(setting) - set(there[name])):
            raise TramplabError(f"{file}: {unknown('case', strange[0], there[name])}")
    return found


def _cases(core: Core) -> Iterator[Case]:
    """Everything that was measured on a core of this kind."""

    def case(name: str, of: str, measured: float, estimate: float) -> Case:
        return Case(core.name, name, of, round(measured, 3), round(estimate, 3), of in core.judged_by.get(name, ()))

    hooks = native_hooks.frame({n: r for n, r in saved(HOOKS).items() if cores.of_cpu(str(r.provenance["cpu"])) is core})
    for r in hooks[hooks["exact"].astype(bool) & hooks["agreed"].astype(bool) & hooks["estimate"].notna()].itertuples():
        yield case(r.machine, r.hook, r.cycles, r.estimate)
    shaped = {n: r for n, r in saved(SHAPES).items() if cores.of_cpu(str(r.provenance["cpu"])) is core}
    shapes = native_shapes.frame(shaped)
    for r in shapes[shapes["exact"].astype(bool)].itertuples():
        name = f"{r.shape}-{r.way}"
        yield case(r.machine, name, float(str(shaped[r.machine].row(f"shape-{name}")["cycles_over"])), r.cycles)
    if core.name in _CALL_OPS:
        published = published_call_ops.rows()
        mine = published[(published["cycles_ratio"].notna()) & (published["machine"] == _CALL_OPS[core.name].split()[-1])]
        for r in mine[mine["published_ratio"] != 1].itertuples():
            yield case(_CALL_OPS[core.name], r.case, r.published_ratio, r.cycles_ratio)
    if core.name in _PAIRS:
        pairs = published_pairs.rows()
        for r in pairs[pairs["core"] == core.name].itertuples():
            yield case(_PAIRS[core.name], f"{r.what}, {r.run}", r.published, r.cycles)


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per core: how many cases judge it, how many of these lie in the band, the median error, the least rank correlation,
    and whether its estimates are shown."""
    found = [Case(**{k: getattr(r, k) for k in Case.__dataclass_fields__}) for r in frame.itertuples()]
    out = []
    for core in cores.cores().values():
        v = judge(core.name, found)
        error, rank = (f"{v.error:.0%}" if v.error is not None else "-"), f"{v.rank:.2f}" if v.rank is not None else "-"
        head = {"isa": core.isa, "core": core.name, "cases": v.cases, "in band": v.inside if v.cases else "-"}
        out.append({**head, "median error": error, "rank": rank, "usable": "yes" if v.usable else "no"})
    made = pd.DataFrame(out).sort_values("isa", key=lambda isa: isa.map(["x86_64", "arm64", "riscv64"].index), kind="stable")
    made.attrs["right"] = ("in band", "median error", "rank")
    return made.reset_index(drop=True)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return judged(frame)


FIGURES = (
    Figure(
        "fig-core-cases",
        "Whose estimates hold?",
        table=judged,
        answer=lambda frame: "",
        limits=f"cases: measured times of this kind of core that set none of its parameters. in band: within {BAND:.0%} of the "
        "estimate. rank: the least Spearman correlation of a set with five cases or more. Estimates of the others are shown here "
        "only.",
        measured=True,
    ),
)
