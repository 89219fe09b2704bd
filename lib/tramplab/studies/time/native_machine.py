"""The machine that native times are of: what a sentence says of it, and which model of a core goes with it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ...analyse import cores
from ...analyse.cores import Core
from ...native import Result
from ...native.host import plain


def core(result: Result) -> Core | None:
    """The model of the machine's core, or of the nearest by its maker; None if no core of its maker's is modelled."""
    facts = result.provenance
    return cores.nearest(str(facts["cpu"]), str(facts.get("vendor", "")), str(facts["isa"]))


def facts(result: Result) -> dict[str, object]:
    """The columns that rows of one machine share: isa, release, cpu, date, virtual, core (a name or None), exact."""
    told, near = result.provenance, core(result)
    return {
        "isa": told["isa"],
        "release": told["release"],
        "cpu": told["cpu"],
        "date": str(told["date"])[:10],
        "virtual": told["virtualised"] != "no",
        "core": near and near.name,
        "exact": near is not None and near is cores.of_cpu(str(told["cpu"])),
    }


def model(row: Mapping) -> str:
    """Which model a row is held against, in words."""
    if not isinstance(row["core"], str):
        return "no model of a core by its maker"
    return f"model of {row['core']}" + ("" if row["exact"] else " (the nearest by its maker)")


def where(part: pd.DataFrame) -> str:
    """A sentence on the machine whose rows these are; "" for no rows."""
    if part.empty:
        return ""
    r = part.iloc[0]
    whose = "" if r["machine"] == "here" else f" ({plain(r['machine'])}, {r['release']})"
    return f"{r['cpu']}{whose}, {'a virtual machine' if r['virtual'] else 'no virtual machine'}, {r['date']}."
