"""Who concludes what from which registers: every consumer on every structure, beside what a full set would have told it."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace.releases import NEWEST
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.consumers import CONSUMERS
from tramplab.sparsity.consumers.matrix import FULL, GARBAGE, NOT_ASKED, RIGHT, WRONG, matrices
from tramplab.sparsity.consumers.report import held, words
from tramplab.sparsity.structures.views import ACCESSORS, DIRECT, PARTIAL, views

from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import slug
from ..memo import once
from ..shared.consumers import NAMES
from ..variants.one_callback.register_map import broken
from . import consumer_charts, consumer_runs

NAME = "register_consumers"
TITLE = "What consumers conclude from registers"
#: Before any pt_regs was made of a ftrace_regs; the first shown with one; and the newest.
OLD, PLAIN, NEW = RELEASES = ("v6.1", "v6.16", NEWEST)
#: The release under development when p2 was said.
SAID = "v6.5"
LETTERS = {RIGHT: "r", WRONG: "W", GARBAGE: "G", NOT_ASKED: "-"}
MEANINGS = {RIGHT: theme.RIGHT, WRONG: theme.WRONG, GARBAGE: theme.WRONG, NOT_ASKED: theme.NOTHING}
ENTRY, ALL, BREAKPOINT, BACK = "ftrace_caller", "ftrace_regs_caller", "breakpoint", "return_to_handler"
MODE, CHAIN = "user-mode", "callchain"
#: Consumers that read flags.
FLAGS = ("interrupts", "conditions")
#: The fields for flags and mode.
STATE = {"x86_64": ("flags", "cs"), "arm64": ("pstate",), "riscv64": ("status",)}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release of RELEASES, view (sparsity/structures/views.py) and consumer (sparsity/consumers/consumers.py).

    Columns: isa, release, provider, way, view, struct (that the consumer reads), size (of it, in bytes), consumer, outcome (one of
    LETTERS), said, should (one answer, and the one that a full set would have given; hexadecimal, "fault" where there was none),
    fields (that it read), holds (what each of them holds, in their order, with "; " between).
    """
    return pd.DataFrame([row for isa in ISAS for release in RELEASES for row in _rows(isa, release)])


def _rows(isa: str, release: str) -> list[dict[str, object]]:
    kernel = Kernel(isa, release)
    records: list[dict[str, object]] = []
    for found in matrices(kernel, views(kernel)):
        view = found.view
        head = {"isa": isa, "release": release, "provider": view.provider.name, "way": view.way, "view": view.name}
        for cell in found.cells:
            records.append(
                {
                    **head,
                    "struct": found.frame.struct,
                    "size": found.frame.size,
                    "consumer": cell.consumer.name,
                    "outcome": cell.outcome,
                    "said": words(cell.said),
                    "should": words(cell.should),
                    "fields": " ".join(cell.fields),
                    "holds": "; ".join(held(found, cell)),
                }
            )
    return records


@once
def at_the_time() -> pd.DataFrame:
    """The same rows in SAID."""
    return pd.DataFrame([row for isa in ISAS for row in _rows(isa, SAID)])


# -- what is shown


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of which runs are shown: the newest release, without what is made of a full set."""
    some = frame[(frame["release"] == NEW) & ~((frame["provider"] == ALL) & (frame["way"] != DIRECT))]
    return some.assign(view=some["view"].str.replace(f"{ALL}, {DIRECT}", ALL), run=consumer_runs.ids(some))


def of_trap(frame: pd.DataFrame) -> pd.DataFrame:
    """What was asked of a breakpoint's pt_regs in the newest release."""
    return frame[(frame["release"] == NEW) & (frame["view"] == BREAKPOINT) & (frame["outcome"] != NOT_ASKED)]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, release, view and outcome but right: the consumers, in as many lines as they need."""
    items = []
    for (isa, release, view), part in frame.groupby(["isa", "release", "view"], sort=False):
        for outcome in (WRONG, GARBAGE):
            names = [NAMES[str(name)] for name in part["consumer"][part["outcome"] == outcome]]
            head = {"isa": isa, "release": release, "view": view, "outcome": outcome}
            words = [f"{name}," for name in names[:-1]] + names[-1:]
            items += [{**head, "consumers": line} for line in broken(words, _ROOM) if line]
    return pd.DataFrame(items)


#: Characters of the consumers in a line of the table.
_ROOM = 20


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: consumers, "consumers"; by the pt_regs that ftrace_partial_regs() makes at the entry, whether
    user_mode() and a callchain's start are right, "riscv64-v7-2-user-mode", "riscv64-v7-2-callchain". In the newest release, at the
    entry: how many conclusions are right of what accessors can be asked, through them, "accessors-right" of "accessors-asked", and
    from that pt_regs, "same-right"; of what only a pt_regs can be asked, from it, "more-right" of "more-asked", of these of flags,
    "flags-right" of "flags-asked"; from a breakpoint's, "breakpoint-right" of "breakpoint-asked". How many consumers read the
    fields of STATE, "arm64-state-readers" of "arm64-readers", and the most fields that one reads, "arm64-most-read"; and how many
    of those that a breakpoint's pt_regs serves ftrace_regs_caller's, in its last release of RELEASES, does not, "arm64-all-fails".
    What ftrace_get_regs() gives with each provider in SAID and in the newest release, "NULL", "full", or something else than it
    should, "not full", as "riscv64-v6-5-ftrace_caller-gives"."""
    some = frame[(frame["release"] == NEW) & (frame["outcome"] != NOT_ASKED)]
    out: dict[str, object] = {"consumers": some["consumer"].nunique()}
    made = frame[(frame["way"] == PARTIAL) & (frame["provider"] == ENTRY) & frame["consumer"].isin((MODE, CHAIN))]
    out |= {f"{r.isa}-{slug(r.release)}-{r.consumer}": r.outcome for r in made.itertuples()}
    new = some[some["consumer"] != FULL]
    entry, trap = new[new["provider"] == ENTRY], new[new["view"] == BREAKPOINT]
    through, converted = entry[entry["way"] == ACCESSORS], entry[entry["way"] == PARTIAL]
    asked = converted["consumer"].isin(through["consumer"])
    flags = converted["consumer"].isin(FLAGS)
    parts = {"accessors": through, "same": converted[asked], "more": converted[~asked], "flags": converted[flags]}
    parts["breakpoint"] = trap
    for name, part in parts.items():
        out |= {f"{name}-right": int((part["outcome"] == RIGHT).sum()), f"{name}-asked": len(part)}
    for isa, readers in state_readers(frame).items():
        here = trap[trap["isa"] == isa]
        out |= {f"{isa}-state-readers": len(readers), f"{isa}-readers": len(here)}
        out[f"{isa}-most-read"] = int(here["fields"].str.split().str.len().max())
    out |= {f"{isa}-all-fails": len(lost) for isa, lost in unserved(frame).items()}
    given = pd.concat([at_the_time(), some])
    for r in given[(given["consumer"] == FULL) & (given["way"] == ACCESSORS)].itertuples():
        answer = "not full" if r.outcome != RIGHT else "NULL" if r.said == "0x0" else "full"
        out[f"{r.isa}-{slug(r.release)}-{r.provider}-gives"] = answer
    return out


def unserved(frame: pd.DataFrame) -> dict[str, list[str]]:
    """ISA -> the consumers that a breakpoint's pt_regs serves, and that of ftrace_regs_caller in its last release here does not."""
    lost = {}
    for isa in ISAS:
        some = frame[(frame["isa"] == isa) & (frame["outcome"] == RIGHT)]
        full = some[(some["provider"] == ALL) & (some["way"] == DIRECT)]
        last = max(full["release"], key=RELEASES.index)
        served = [set(part["consumer"][part["release"] == last]) for part in (some[some["view"] == BREAKPOINT], full)]
        lost[isa] = [c for c in CONSUMERS if c in served[0] - served[1]]
    return lost


def state_readers(frame: pd.DataFrame) -> dict[str, list[str]]:
    """ISA -> the consumers that read its fields of STATE from a breakpoint's pt_regs, in the newest release."""
    some = frame[(frame["release"] == NEW) & (frame["view"] == BREAKPOINT)]
    return {
        isa: [r.consumer for r in some[some["isa"] == isa].itertuples() if set(state) & set(str(r.fields).split())]
        for isa, state in STATE.items()
    }


_MATRIX = heat_map("outcome", "consumer", "view", meanings=MEANINGS, letters=LETTERS, link="run")
_READ = heat_map("read", "consumer", "role", meanings=consumer_charts.READING)
FIGURES = (
    Figure(
        "fig-register-consumers",
        "Who concludes what from which registers?",
        chart=lambda frame: _MATRIX(consumer_charts.drawn(shown(frame))),
        behind=lambda frame: consumer_runs.runs(shown(frame)),
        table=table,
        alt="A panel per ISA: consumers down the side, and across the structures at a function's entry: through the accessors, as "
        "what ftrace_partial_regs() and perf's fill make of it, and a breakpoint's pt_regs. A cell says what the consumer "
        "concludes. The table has all structures and three releases.",
        limits=f"The lab's providers and consumers, {NEW}; the room into which a pt_regs is made held zeros before.",
    ),
    Figure(
        "fig-register-reads",
        "Which fields does a conclusion rest on?",
        chart=lambda frame: _READ(consumer_charts.roles(of_trap(frame))),
        table=lambda frame: consumer_charts.reads(of_trap(frame)),
        alt="A panel per ISA: consumers down the side, and across what fields of a pt_regs are for: mode and flags, program "
        "counter, stack and frame pointer, registers that functions keep, arguments. A cell is filled where the consumer reads "
        "one. The table has the fields.",
        limits="Watched as the consumers run on a full set of registers; of words of the stack the first two.",
    ),
)
