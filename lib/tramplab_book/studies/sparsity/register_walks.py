"""The functions that a stack walk finds when it starts from the registers that a consumer was given."""

from __future__ import annotations

import pandas as pd

from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import GARBAGE
from tramplab.sparsity.consumers.walks import walk
from tramplab.sparsity.structures.views import ACCESSORS, PARTIAL, views

from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..memo import once
from . import register_consumers
from .register_consumers import CHAIN, ENTRY, RELEASES

NAME = "register_walks"
TITLE = "What a stack walk finds from the registers it is given"
#: All functions; the traced function without its caller; none; the old content of the stack decides.
EVERYBODY, FUNCTION, NOBODY, CHANCE = "all", "without the caller", "nobody", "by chance"
LETTERS = {EVERYBODY: "a", FUNCTION: "f", NOBODY: "N", CHANCE: "G"}
MEANINGS = {EVERYBODY: theme.RIGHT, FUNCTION: theme.WRONG, NOBODY: theme.NOTICED, CHANCE: theme.WRONG}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release of RELEASES and structure that a callchain can start from, in kernels with frame pointers.

    Columns: isa, release, provider, way, view, start (nowhere, from its registers, or here: from the walker's own frame), found, of
    (functions that there are up to the traced one's caller), outcome (one of LETTERS), strange (what was found between), error.
    """
    concluded = register_consumers.rows()
    stale = concluded[(concluded["consumer"] == CHAIN) & (concluded["outcome"] == GARBAGE)]
    chance = set(zip(stale["isa"], stale["release"], stale["view"], strict=True))
    return pd.DataFrame([row for isa in ISAS for release in RELEASES for row in _rows(isa, release, chance)])


def _rows(isa: str, release: str, chance: set[tuple[str, str, str]]) -> list[dict[str, object]]:
    kernel = Kernel(isa, release, frame_pointer=True)
    records: list[dict[str, object]] = []
    for view in views(kernel):
        if view.way == ACCESSORS:
            continue
        one = walk(kernel, view)
        whole = EVERYBODY if one.found == one.wanted else FUNCTION if one.found else NOBODY
        head = {"isa": isa, "release": release, "provider": view.provider.name, "way": view.way, "view": view.name}
        if (isa, release, view.name) in chance:
            whole = CHANCE
        tail = {"outcome": whole, "strange": " ".join(one.strange), "error": one.error}
        records.append({**head, "start": one.start, "found": len(one.found), "of": len(one.wanted), **tail})
    return records


# -- what is shown


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release, in which a kretprobe's trampoline has one name on all ISAs."""
    some = frame[frame["release"] == RELEASES[-1]]
    kretprobe = some["view"].str.replace("__kretprobe_trampoline", "arch_rethook_trampoline")
    return some.assign(view=kretprobe, isa=some["isa"].map(isa_name))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and structure: where the walk starts, and how many it finds of how many."""
    kernel = frame["isa"] + " " + frame["release"]
    return frame.assign(kernel=kernel)[["kernel", "view", "start", "found", "of"]].reset_index(drop=True)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: walks, "walks", those that find nobody, "nobody", those that chance decides, "chance", and those that
    find something that is not there, "strange"; those that do not start from the walker's own frame, "given", of these those
    that start from their registers, "followed", and those that find nothing though they do, something though they do not, or what
    is not there, "unlike"; and how many functions are found from what ftrace_partial_regs() makes at the entry,
    "riscv64-v7-2-converted-found"."""
    counts = frame["outcome"].value_counts()
    strange = (frame["strange"] != "") | (frame["error"] != "")
    given, followed = frame["start"] != "here", frame["start"] == "registers"
    unlike = given & (strange | (followed != (frame["found"] > 0)))
    made = frame[(frame["provider"] == ENTRY) & (frame["way"] == PARTIAL)]
    found: dict[str, object] = {f"{r.isa}-{slug(r.release)}-converted-found": r.found for r in made.itertuples()}
    return found | {
        "walks": len(frame),
        "nobody": int(counts.get(NOBODY, 0)),
        "chance": int(counts.get(CHANCE, 0)),
        "strange": int(strange.sum()),
        "given": int(given.sum()),
        "followed": int(followed.sum()),
        "unlike": int(unlike.sum()),
    }


FIGURES = (
    Figure(
        "fig-register-walks",
        "What does a stack walk find from the registers?",
        chart=lambda frame: heat_map("outcome", "view", "isa", "release", meanings=MEANINGS, letters=LETTERS)(drawn(frame)),
        table=table,
        alt="The newest release: structures down the side, ISAs across, and in every cell a colour for what the walk finds of the "
        "traced function and its caller, and at the return of the caller only. The table has all releases.",
        limits="By frame records, in kernels with frame pointers, of a function that another traced one calls; the unwinder takes "
        "no return address from where a call leaves it.",
    ),
)
