"""Which models of cores are usable? Every measured case beside the estimate of the core that it was timed on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pandas as pd
from msgspec.structs import asdict

from tramplab.base.errors import TramplabError, unknown
from tramplab.estimate import cores
from tramplab.estimate.cores import Core
from tramplab.estimate.cycles import BAND
from tramplab.estimate.judged import NUMBERS, Case, judge, summary
from tramplab.isa import ISAS
from tramplab.native import Result
from tramplab.native.cached import HOOKS, SHAPES, saved
from tramplab.trampolines import shapes

from ...publish.figures.figure import Figure
from ..memo import once
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
    frame = pd.DataFrame([{**asdict(c), "inside": c.inside, "off": round(c.off, 3)} for c in found])
    frame.attrs["units"] = UNITS
    return frame


def _checked(core: Core, found: list[Case]) -> list[Case]:
    """The cases, in the core's own order of sets."""
    columns: dict[str, list[str]] = {}
    for case in found:
        columns.setdefault(case.set, []).append(case.case)
    file = f"cores/{core.name}.yml"
    for name in sorted(core.judged_by.keys() ^ columns.keys()):
        if name not in columns:
            raise TramplabError(f"{file}: {unknown('set', name, sorted(columns))}")
        raise TramplabError(f"{file}: judged_by lacks {name}, which was measured on such a core; add it.")
    for name, setting in core.judged_by.items():
        if strange := sorted(set(setting) - set(columns[name])):
            raise TramplabError(f"{file}: {unknown('case', strange[0], columns[name])}")
    return found


def _cases(core: Core) -> Iterator[Case]:
    """Everything that was measured on a core of this kind."""

    def case(name: str, of: str, measured: float, estimate: float) -> Case:
        return Case(core.name, name, of, round(measured, 3), round(estimate, 3), of in core.judged_by.get(name, ()))

    for machine, result in (*saved(HOOKS).items(), *saved(SHAPES).items()):
        if cores.of_cpu(str(result.provenance["cpu"])) is core:
            for row in result.rows[1:]:
                e = _estimate(core, result, str(row["hook"])) if row["agreed"] else None
                if e is not None:
                    yield case(machine, str(row["hook"]).removeprefix("shape-"), float(str(row["cycles_over"])), e)
    if core.name in _CALL_OPS:
        published = published_call_ops.rows()
        mine = published[(published["cycles_ratio"].notna()) & (published["machine"] == _CALL_OPS[core.name].split()[-1])]
        for r in mine[mine["published_ratio"] != 1].itertuples():
            yield case(_CALL_OPS[core.name], r.case, r.published_ratio, r.cycles_ratio)
    if core.name in _PAIRS:
        pairs = published_pairs.rows()
        for r in pairs[pairs["core"] == core.name].itertuples():
            yield case(_PAIRS[core.name], f"{r.what}, {r.run}", r.published, r.cycles)


def _estimate(core: Core, result: Result, hook: str) -> float | None:
    """Cycles that a hook or a shape adds, by the model of a core; None for one that the lab does not have."""
    facts = result.provenance
    if "saves" in result.row(hook):
        return native_shapes.estimate(core.isa, core.name, next(s for s in shapes.GRID if str(s) == hook)).mid
    found = native_hooks.estimate(core.isa, hook, str(facts["release"]), int(str(facts["arguments"])), core.name)
    return float(str(found["estimate"])) if found else None


def cases(frame: pd.DataFrame) -> list[Case]:
    """The rows as cases."""
    return [Case(**{name: getattr(r, name) for name in Case.__struct_fields__}) for r in frame.itertuples()]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per core, see judged.summary()."""
    lines = pd.DataFrame(summary(cases(frame)))
    lines.attrs["right"] = NUMBERS
    return lines


def text(frame: pd.DataFrame) -> str:
    """What data/core-cases.json says, a line per case."""
    return "[\n" + ",\n".join(json.dumps(asdict(case)) for case in cases(frame)) + "\n]\n"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: parameters of golden-cove that its own times set, in cycles; of an ISA's cores how many were timed,
    "arm64-timed-total", and how many of those models are usable, "arm64-usable-total"; and of these on all ISAs how many cases
    judge them, "usable-cases", and how many lie in the band, "usable-inside"."""
    core = cores.get("golden-cove")
    values: dict[str, object] = {name: core[name].value for name in ("mispredict", "pop_flags", "forward")}
    values["branch"] = core["mispredict"].low
    found, good = cases(frame), []
    for isa in ISAS:
        timed = [v for c in cores.cores().values() if c.isa == isa and (v := judge(c.name, found)).cases]
        values |= {f"{isa}-timed-total": len(timed), f"{isa}-usable-total": sum(v.usable for v in timed)}
        good += [v for v in timed if v.usable]
    return values | {"usable-cases": sum(v.cases for v in good), "usable-inside": sum(v.inside for v in good)}


FIGURES = (
    Figure(
        "fig-core-cases",
        "Whose estimates hold?",
        table=table,
        limits=f"cases: measured times of this kind of core that set none of its parameters. in band: within {BAND:.0%} of the "
        "estimate. error: the median. rank: the least Spearman correlation of a set with five cases or more. Estimates of the "
        "others are shown here only.",
        kind="estimate",
        measured=True,
    ),
)
