"""What does each way out of a light structure cost, and which consumers does it not serve?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from tramplab.ftrace.releases import NEWEST
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import GARBAGE, RIGHT, WRONG
from tramplab.sparsity.structures.providers import provider
from tramplab.sparsity.ways import ways_priced, ways_served
from tramplab.sparsity.ways.ways import COPY, CPU, FULL, IN_PLACE, READ, REWRITTEN, ways
from tramplab.sparsity.ways.ways_priced import Price
from tramplab.sparsity.ways.ways_served import LACKING

from ...publish.figures.chart import heat_map, stacked_bars, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import slug
from ..memo import once
from ..shared.hypothetical import named
from . import ways_drawn
from .ways_drawn import INLINED

NAME = "ways_out"
TITLE = "Ways from a light structure to a pt_regs"
#: The last release whose trampoline saves all registers for who asks for it.
SAVING = {"x86_64": NEWEST, "arm64": "v6.1", "riscv64": "v6.9"}
#: The consumers in a kprobe_multi program that reads its arguments and takes a stack trace.
WANTED = ("argument", "user-mode", "callchain")
LETTERS = {RIGHT: "r", WRONG: "W", GARBAGE: "G", LACKING: "l"}
MEANINGS = {RIGHT: theme.RIGHT, WRONG: theme.WRONG, GARBAGE: theme.WRONG, LACKING: theme.NOTICED}
#: Consumers in as few letters as a column has.
SHORT = {
    "user-mode": "mode",
    "callchain": "bt",
    "argument": "arg",
    "instruction-pointer": "ip",
    "stack-pointer": "sp",
    "stack-word": "stk",
    "interrupts": "irq",
    "conditions": "cc",
    "emulate-nop": "nop",
    "emulate-branch": "jmp",
    "emulate-call": "call",
    "emulate-step": "step",
}
UNITS = {"instructions": "added", "loads": "added", "stores": "added", "stack": "B", "memory": "B per CPU"}


@dataclass(frozen=True)
class Found:
    """One way on one ISA. outcomes: consumer -> outcome; none where nobody reads the structure as a pt_regs."""

    release: str
    way: str
    kind: str
    place: str
    hypothetical: bool
    price: Price
    outcomes: dict[str, str]


def full(isa: str) -> Iterable[Found]:
    """The way of saving all registers for all consumers: in the last release that had it, and in the newest, if that is another, by
    a trampoline of the lab's, whose structure is no pt_regs."""
    kernel = Kernel(isa, SAVING[isa])
    outcomes = ways_served.of_provider(kernel, provider("ftrace_regs_caller"))
    yield _saved(kernel, "regs", outcomes, f"{FULL}, {SAVING[isa]}")
    if SAVING[isa] != NEWEST:
        yield _saved(Kernel(isa), "own", {}, f"{FULL}, {NEWEST}")


def _saved(kernel: Kernel, saved: str, outcomes: dict[str, str], name: str) -> Found:
    priced = ways_priced.price(*ways_priced.saving(kernel, saved))
    return Found(kernel.features.release, name, FULL, IN_PLACE, saved == "own", priced, outcomes)


def made(isa: str) -> Iterable[Found]:
    """A pt_regs that is filled in, and light structures that are passed on, each by a link's handler."""
    kernel = Kernel(isa)
    read = ways_priced.call(kernel, READ)
    for way in ways(kernel):
        priced = ways_priced.of_way(kernel, way, ways_priced.call(kernel, way.link), read)
        yield Found(NEWEST, way.name, way.kind, way.place, way.hypothetical, priced, ways_served.of_way(kernel, way))
    if kernel.features["memcpy_call"]:
        yield from _inlined(Kernel(isa, memcpy_call=False))


def _inlined(kernel: Kernel) -> Iterable[Found]:
    """The fills of each CPU's pt_regs as a compiler makes them that inlines the copy, as it does those of light structures."""
    read = ways_priced.call(kernel, READ)
    for way in ways(kernel):
        if way.fill in ("plain", "kernel") and way.place == CPU:
            priced = ways_priced.of_way(kernel, way, ways_priced.call(kernel, way.link), read)
            served = ways_served.of_way(kernel, way)
            yield Found(NEWEST, f"{way.fill}, {INLINED}", way.kind, way.place, way.hypothetical, priced, served)


def moved(isa: str) -> Iterable[Found]:
    """The way of rewriting the program to read what was saved. Which programs can be is told by context_rewrite; here a consumer is
    right that reads nothing but what was saved."""
    kernel = Kernel(isa)
    outcomes = ways_served.of_registers(kernel, ways_served.saved(kernel))
    yield Found(NEWEST, REWRITTEN, REWRITTEN, IN_PLACE, True, ways_priced.rewritten(kernel), outcomes)


#: The four ways: where rows come from, for an ISA.
PARTS: tuple[Callable[[str], Iterable[Found]], ...] = (full, made, moved)


@once
def _every() -> dict[str, list[Found]]:
    return {isa: [found for part in PARTS for found in part(isa)] for isa in ISAS}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and way.

    Columns: isa, release, way, kind (ways.KINDS), place (ways.PLACES), hypothetical, instructions, loads, stores, stack (B), memory
    (B of each CPU): what it adds to a call, with an ops in its trampoline, else to the link whose program reads the ftrace_regs;
    wrote (fields of the pt_regs that its handler writes, as words), right (how many consumers are), asked (of how many), serves
    (are all of WANTED right?).
    """
    records = []
    for isa, part in _every().items():
        for f in part:
            head: dict[str, object] = {"isa": isa, "release": f.release, "way": f.way, "kind": f.kind, "place": f.place}
            head["hypothetical"], p = f.hypothetical, f.price
            cost = {"instructions": p.instructions, "loads": p.loads, "stores": p.stores, "stack": p.stack, "memory": p.memory}
            right = sum(outcome == RIGHT for outcome in f.outcomes.values())
            serves = all(f.outcomes.get(consumer) == RIGHT for consumer in WANTED)
            texts = {"right": right, "asked": len(f.outcomes), "serves": serves}
            records.append({**head, **cost, "wrote": " ".join(p.wrote), **texts})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


@once
def served() -> pd.DataFrame:
    """One row per ISA, way whose structure is read, and consumer: columns isa, way, hypothetical, consumer, outcome."""
    found = [
        {"isa": isa, "way": f.way, "hypothetical": f.hypothetical, "consumer": consumer, "outcome": outcome}
        for isa, part in _every().items()
        for f in part
        for consumer, outcome in f.outcomes.items()
    ]
    frame = pd.DataFrame(found)
    frame.attrs["units"] = {}
    return frame


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per way: counts, bytes, and how many consumers are right of those that were asked."""
    rows = named(frame, "way")
    printed = rows[["isa", "way", "instructions", "loads", "stores", "stack", "memory"]].copy()
    printed["right"] = [f"{r.right}/{r.asked}" if r.asked else "-" for r in rows.itertuples()]
    printed = printed.rename(columns={"instructions": "instr", "loads": "ld", "stores": "st", "memory": "CPU"})
    printed.attrs = {"right": ("right",), "units": {"stack": "B", "CPU": "B"}}
    return printed


def letters(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per way with a letter of LETTERS for each consumer."""
    rows = named(frame, "way").assign(consumer=frame["consumer"].map(SHORT), said=frame["outcome"].map(LETTERS))
    wide = rows.pivot(index=["isa", "way"], columns="consumer", values="said")
    lines = pd.MultiIndex.from_frame(rows[["isa", "way"]].drop_duplicates())
    printed = wide.reindex(index=lines, columns=list(SHORT.values())).reset_index()
    printed.columns = [str(name) for name in printed.columns]
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by ISA and way as in "arm64-plain-per-cpu": "-added" (instructions), "-stack" (B), "-fields" (that are
    written), "-right", "-asked" and "-serves" (are all of WANTED right, "yes" or "no"?); how many of "fills-total" serve every
    consumer, "fills-whole"; and after how many full saves and other ways a kprobe's emulated step is right, "step-full-right" of
    "step-full-total", "step-other-right" of "step-other-total"."""
    values: dict[str, object] = {}
    fills = frame[frame["kind"] == COPY]
    values |= {"fills-total": len(fills), "fills-whole": int((fills["right"] == fills["asked"]).sum())}
    steps = served().query("consumer == 'emulate-step'")
    full_saves = steps["way"].str.startswith(FULL)
    for name, part in (("full", steps[full_saves]), ("other", steps[~full_saves])):
        values |= {f"step-{name}-right": int((part["outcome"] == RIGHT).sum()), f"step-{name}-total": len(part)}
    for r in frame.itertuples():
        key = f"{r.isa}-{slug(r.way)}"
        values |= {f"{key}-added": r.instructions, f"{key}-stack": r.stack, f"{key}-fields": len(r.wrote.split())}
        values |= {f"{key}-right": r.right, f"{key}-asked": r.asked, f"{key}-serves": "yes" if r.serves else "no"}
    return values


LIMITS = (
    "Emulated counts of one warm call; a fill and a light structure beside the same link whose program reads the ftrace_regs, a "
    "full save beside one of arguments."
)
_MATRIX = heat_map("outcome", "consumer", "way", meanings=MEANINGS, letters=LETTERS)
FIGURES = (
    Figure(
        "fig-ways-out",
        "What does each way to a pt_regs add, and how many are right?",
        chart=lambda frame: stacked_bars("instructions", bars="way", stack="kind", note="said")(ways_drawn.priced(frame, SAVING)),
        table=table,
        alt="A panel per ISA with a bar per way: the instructions that it adds to a call, and beside it how many of the consumers "
        "are right. The table has loads, stores, bytes of stack and of each CPU, and fills on the stack as well.",
        limits=LIMITS,
        legend="right: of as many consumers as were asked.",
        hypothetical=True,
    ),
    Figure(
        "fig-ways-served",
        "Which consumers does each way not serve?",
        rows=lambda _: served(),
        chart=lambda frame: _MATRIX(ways_drawn.compared(frame, SAVING)),
        table=letters,
        alt="A panel per ISA: consumers down the side, and across a full save, a plain copy, a copy with the mode filled in, and "
        "what the trampoline saved. A cell says whether what the consumer concludes is right, wrong, garbage, or whether the "
        "structure lacks what it reads. The table has every way.",
        limits="Emulated: each consumer beside what it concludes from a full set; what is right by chance, as a zero where zero is "
        "true, counts as right.",
        hypothetical=True,
    ),
)
