"""The machine that native times are of: what a sentence says of it, and which models of cores go with it, the nearest first."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass

import pandas as pd

from tramplab import isa as isas
from tramplab.base.errors import TramplabError
from tramplab.base.width import INDENTED_WIDTH
from tramplab.estimate import cores, judged
from tramplab.estimate.cores import Core
from tramplab.ftrace.releases import NEWEST
from tramplab.native import Result, default_hooks
from tramplab.native.cached import HOOKS, own, saved


def core(result: Result) -> Core | None:
    """The usable model of the machine's core, or else the nearest; None if no model for its ISA is usable."""
    facts = result.provenance
    return judged.nearest(str(facts["cpu"]), str(facts.get("vendor", "")), str(facts["isa"]))


def called(result: Result, name: str) -> str:
    """A machine by its core where that is modelled, else by its name."""
    modelled = cores.of_cpu(str(result.provenance["cpu"]))
    return modelled.name if modelled and modelled.isa == result.provenance["isa"] else name


def models(result: Result) -> list[Core]:
    """The usable models of the machine's ISA, the nearest first."""
    near = core(result)
    return sorted(judged.usable(str(result.provenance["isa"])), key=lambda c: c is not near)


def lead() -> tuple[Core, str]:
    """The usable model that goes with the largest saved result of hooks, and which CPU that is of, in words; the page begins with
    it. Raises TramplabError if none is saved, or no model is usable for any."""
    for result in largest():
        if near := core(result):
            known_facts = facts(result)
            how = "that of the CPU" if known_facts["exact"] else "the nearest to the CPU"
            return near, f"{near.name}, {how} on which the saved times were taken ({known_facts['cpu']})"
    raise TramplabError("no times of a CPU for which a model is usable are in data/native/; save some there.")


def largest() -> list[Result]:
    """The saved results of hooks of the newest release, those with the most hooks first."""
    found = [r for r in saved(HOOKS).values() if r.provenance["release"] == NEWEST]
    return sorted(found, key=lambda r: -len(r.rows))


def facts(result: Result) -> dict[str, object]:
    """The columns that rows of one machine share: isa, release, cpu, date, virtual, core (a name or None), exact."""
    provenance, near = result.provenance, core(result)
    return {
        "isa": provenance["isa"],
        "release": provenance["release"],
        "cpu": provenance["cpu"],
        "date": str(provenance["date"])[:10],
        "virtual": provenance["virtualised"] != "no",
        "core": near and near.name,
        "exact": near is not None and near is cores.of_cpu(str(provenance["cpu"])),
    }


def led(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the nearest model, so everything measured is there once."""
    return frame.drop_duplicates(["machine", *(c for c in ("hook", "shape", "way") if c in frame)])


def untimed(part: pd.DataFrame) -> tuple[str, ...]:
    """The hooks that `tramplab native` times by default on the machine and release of these rows, and that are not among them."""
    if part.empty:
        return ()
    try:
        every = default_hooks(isas.get(part["isa"].iloc[0]), part["release"].iloc[0])
    except TramplabError:  # the release is of another edition
        return ()
    return tuple(hook for hook in every if hook not in set(part["hook"]))


@dataclass(frozen=True)
class Said:
    """Sentences below the table of a figure."""

    sentences: str

    @property
    def html(self) -> str:
        """The text for a page, as HTML."""
        return f"<p>{html.escape(self.sentences)}</p>"

    @property
    def text(self) -> str:
        """The text for a terminal."""
        return textwrap.fill(self.sentences, INDENTED_WIDTH)


def said() -> Said:
    """Which machine built the page, on which of its times windows agree, and what failed; or why it has none."""
    try:
        result = own(HOOKS)
    except TramplabError as e:
        return Said(f"There are no times of the machine that built this page: {e}")
    return Said(" ".join([f"{result.provenance['cpu']}.", result.verdict(), *result.failures]))
