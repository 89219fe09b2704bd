"""Which programs can read a light structure in place of a pt_regs, if their accesses are rewritten, or are refused?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity import context
from tramplab.sparsity.consumers.matrix import full_set
from tramplab.sparsity.context import PROGRAMS, Layout, Refused, layout, rewrite
from tramplab.sparsity.context.layout import light_slots
from tramplab.sparsity.context.programs import renamed
from tramplab.sparsity.context.refusal import (
    ESCAPE,
    HELPER,
    INVALID,
    NUMBER,
    OUTSIDE,
    PATHS,
    RANGE,
    SPLIT,
    STORE,
    THROUGH,
    UNFILLED,
    VARIABLE,
)
from tramplab.sparsity.context.run import CONTEXT, run
from tramplab.sparsity.structures import fields
from tramplab.sparsity.structures.classify import DERIVED, GARBAGE, TRUE
from tramplab.sparsity.structures.fields import FTRACE_REGS, PT_REGS
from tramplab.sparsity.structures.frames import frame as frame_of
from tramplab.sparsity.structures.frames import watched
from tramplab.sparsity.structures.providers import provider

from ...publish.figures.chart import stacked_bars, theme
from ...publish.figures.figure import Figure
from ..memo import once

NAME = "context_rewrite"
TITLE = "BPF programs on a light structure, rewritten or refused"
UNITS = {"changed": "instructions"}
PROVIDER = "ftrace_caller"
ACCEPTED = "accepted"
#: Outcome -> the word for it.
WORDS = {
    ACCEPTED: "yes",
    UNFILLED: "unfilled",
    HELPER: "helper",
    THROUGH: "through",
    PATHS: "paths",
    SPLIT: "split",
    RANGE: "range",
    STORE: "stores",
    VARIABLE: "variable",
    ESCAPE: "escapes",
    NUMBER: "number",
    OUTSIDE: "outside",
    INVALID: "invalid",
}
#: What becomes of a program in the chart, and the reasons that it has a bar for; all others are one.
_REFUSED, _OTHER = "refused", "other reasons"
MEANINGS = {ACCEPTED: theme.RIGHT, _REFUSED: theme.NOTICED}
_DRAWN = {ACCEPTED: ACCEPTED, UNFILLED: "field not filled", HELPER: "helper, pt_regs"}
#: What decides and rewrites, without instructions as bytes and text.
_REWRITER = ("arithmetic", "helpers", "helping", "layout", "refusal", "rewrite", "state", "values", "verify")
NO_KERNEL = "No kernel rewrites programs so."


@once
def rows() -> pd.DataFrame:
    """One row per ISA, in the newest release, and program of data/context-programs.yml, rewritten for ftrace_caller's structure.

    Columns: isa, release, program, shows, outcome (ACCEPTED, or the kind of reason for which it is refused), why, changed
    (instructions that differ, none is added), same (does it compute on the light structure of every hooked call what it did on a
    full set?), reads (slots of pt_regs).
    """
    frame = pd.DataFrame([row for isa in ISAS for row in _rows(isa, releases.LATEST)])
    frame.attrs["units"] = UNITS
    return frame


def _rows(isa: str, release: str) -> list[dict[str, object]]:
    kernel = Kernel(isa, release)
    image, found = kernel.image, watched(kernel, provider(PROVIDER)).values()
    contexts = [(full_set(image, seen.truth), seen.data) for seen in found]
    of = light(kernel)
    records: list[dict[str, object]] = []
    for name, written in PROGRAMS.items():
        program = written.on(kernel.isa, image.struct(PT_REGS))
        made = rewrite(program, of)
        head = {"isa": isa, "release": release, "program": name, "shows": written.shows}
        if isinstance(made, Refused):
            records.append({**head, "outcome": made.kind, "why": str(made), "changed": 0, "same": False, "reads": made.slot or ""})
            continue
        same = all(run(program, full) == run(made.program, data, address=CONTEXT) for full, data in contexts)
        tail = {"changed": len(made.changes), "same": same, "reads": " ".join(made.reads)}
        records.append({**head, "outcome": ACCEPTED, "why": "", **tail})
    return records


def light(kernel: Kernel) -> Layout:
    """The layout that says where the structure of ftrace_caller has the fields of a pt_regs, as found by running it."""
    image = kernel.image
    pt_regs, struct = image.struct(PT_REGS), image.struct(FTRACE_REGS)
    held = frame_of(kernel, provider(PROVIDER)).slots
    at = {place.offset: held[place.name].kind for place in fields.places(image, FTRACE_REGS)}
    filled = {s.name: at[s.offset] if at[s.offset] in (TRUE, DERIVED) else GARBAGE for s in light_slots(struct, pt_regs)}
    return layout(pt_regs, struct, filled, renamed(kernel.isa))


# -- what is shown


def counts(frame: pd.DataFrame) -> pd.DataFrame:
    """How many programs are accepted, and how many refused for the reasons of the chart: columns isa, why, programs, outcome (of
    MEANINGS)."""
    why = frame["outcome"].map(_DRAWN).fillna(_OTHER)
    some = frame.assign(why=why).groupby(["isa", "why"], sort=False).size().rename("programs").reset_index()
    some = some.sort_values("why", key=lambda names: names.map([*_DRAWN.values(), _OTHER].index), kind="stable")
    out = some.sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable")
    return out.assign(outcome=out["why"].where(out["why"] == ACCEPTED, _REFUSED))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per program: what becomes of it on each ISA, in a word."""
    wide = frame.pivot(index="program", columns="isa", values="outcome")[list(ISAS)]
    wide = wide.loc[list(dict.fromkeys(frame["program"]))].map(WORDS.__getitem__)
    return wide.rename_axis(columns=None).reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "programs", and by ISA how many are "arm64-accepted" and refused as nobody fills a field,
    "arm64-unfilled", or as a helper wants a pt_regs, "arm64-helper"; accepted ones that compute something else than on a full set,
    "wrong-total"; and lines of what rewrites, "rewriter-lines"."""
    wrong = (frame["outcome"] == ACCEPTED) & ~frame["same"].astype(bool)
    values: dict[str, object] = {"programs": frame["program"].nunique(), "wrong-total": int(wrong.sum())}
    sources = [Path(str(context.__file__)).with_name(f"{name}.py") for name in _REWRITER]
    values["rewriter-lines"] = sum(len(source.read_text("utf-8").splitlines()) for source in sources)
    for isa, part in frame.groupby("isa", sort=False):
        for word, kind in (("accepted", ACCEPTED), ("unfilled", UNFILLED), ("helper", HELPER)):
            values[f"{isa}-{word}"] = int((part["outcome"] == kind).sum())
    return values


FIGURES = (
    Figure(
        "fig-context-rewrite",
        "Which programs can be rewritten for a light structure?",
        chart=lambda frame: stacked_bars("programs", bars="why", stack="outcome", meanings=MEANINGS)(counts(frame)),
        table=table,
        alt="A panel per ISA with a bar for the programs that are accepted, and one for each of the two most frequent reasons for "
        "which others are refused, and for all other reasons. The table has every program.",
        limits="A verifier and an interpreter of the lab's own for a subset of BPF: no loops, atomics, calls between programs or "
        f"kfuncs; the structure is what ftrace_caller of the newest release passes. {NO_KERNEL}",
    ),
)
