"""What share of a call has each way to a pt_regs, where a program runs as kprobe_multi runs it?"""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace.releases import NEWEST
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.ways import ways_priced
from tramplab.sparsity.ways.ways import CPU, FULL, IN_PLACE, LIGHT, READ, REWRITTEN, STACK, ways

from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import slug
from ..memo import once
from ..shared.hypothetical import named
from .ways import SAVING

NAME = "ways_share"
TITLE = "Ways to a pt_regs in a call like kprobe_multi's"
#: Where a link has handlers -> is one at the return?
PROBES = {"entry": False, "entry and return": True}
ENTRY, BOTH = PROBES
#: The fills that were talked about: what there is, and what makes it look like the kernel's.
FILLS = ("plain", "kernel")
#: What was merged, by where an ISA has its pt_regs.
MERGED = (f"plain, {IN_PLACE}", f"plain, {CPU}")
UNITS = {"link": "added", "instructions": "added", "share": "%"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way and probe (PROBES), in the newest release.

    Columns: isa, way, kind, place (see ways), hypothetical, probe, link (instructions that an fprobe adds whose program reads the
    ftrace_regs), instructions (that the way adds to them: of a full save what its trampoline adds to an ops), share (of both
    together, in percent).
    """
    records = []
    for isa in ISAS:
        kernel, saved = Kernel(isa), "regs" if SAVING[isa] == NEWEST else "own"
        full = ways_priced.price(*ways_priced.saving(kernel, saved))
        idle, rewritten = ways_priced.call(kernel), ways_priced.rewritten(kernel)
        for probe, exits in PROBES.items():
            read = ways_priced.call(kernel, READ, exits)
            link = ways_priced.price(read, idle).instructions
            head = {"isa": isa, "way": f"{FULL}, {NEWEST}", "kind": FULL, "place": IN_PLACE, "hypothetical": saved == "own"}
            records.append({**head, "probe": probe, "link": link, "instructions": full.instructions})
            more = {"way": REWRITTEN, "kind": REWRITTEN, "hypothetical": True}
            records.append({**head, **more, "probe": probe, "link": link, "instructions": rewritten.instructions})
            for way in ways(kernel):
                run = ways_priced.call(kernel, way.link, exits)
                head = {"isa": isa, "way": way.name, "kind": way.kind, "place": way.place, "hypothetical": way.hypothetical}
                records.append({**head, "probe": probe, "link": link, "instructions": ways_priced.price(run, read).instructions})
    frame = pd.DataFrame(records)
    frame["share"] = (100 * frame["instructions"] / (frame["link"] + frame["instructions"])).round(1)
    frame.attrs["units"] = UNITS
    return frame


@once
def inlined() -> pd.DataFrame:
    """What FILLS add to a link at the entry where a compiler inlines their copy: one row per ISA on which GCC leaves it as a call
    of memcpy(), and way. Columns: isa, way, place, call, inline (instructions), share (of what the link then adds, in percent)."""
    records = []
    for isa in ISAS:
        usual = Kernel(isa)
        if not usual.features["memcpy_call"]:
            continue
        kernels = {"call": usual, "inline": Kernel(isa, memcpy_call=False)}
        for way in ways(usual):
            if way.fill in FILLS:
                runs = {how: (ways_priced.call(k, way.link), ways_priced.call(k, READ)) for how, k in kernels.items()}
                added = {how: ways_priced.price(*pair).instructions for how, pair in runs.items()}
                whole = ways_priced.price(runs["inline"][0], ways_priced.call(kernels["inline"])).instructions
                share = round(100 * added["inline"] / whole, 1)
                records.append({"isa": isa, "way": way.name, "place": way.place, **added, "share": share})
    return pd.DataFrame(records)


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way: what it adds, its share at the entry, and with a handler at the return."""
    rows = named(frame, "way")
    both = rows[rows["probe"] == BOTH].set_index(["isa", "way"])["share"]
    part = rows[rows["probe"] == ENTRY]
    printed = part[["isa", "way"]].assign(
        instr=part["instructions"],
        entry=[f"{r.share:.1f}" for r in part.itertuples()],
        both=[f"{both[(r.isa, r.way)]:.1f}" for r in part.itertuples()],
    )
    printed.attrs = {"right": ("entry", "both"), "units": {"instr": "added", "entry": "%", "both": "%"}}
    return printed


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """What a link adds with the copy as it was merged: columns isa, probe, said (its share), part (the link, the copy),
    instructions."""
    some = frame[frame["way"].isin((f"plain, {IN_PLACE}", f"plain, {CPU}"))]
    items = []
    for r in some.itertuples():
        head = {"isa": r.isa, "probe": r.probe, "said": f"({round(r.share)} %)"}
        items += [{**head, "part": "fprobe", "instructions": r.link}, {**head, "part": "copying", "instructions": r.instructions}]
    out = pd.DataFrame(items)
    out.attrs["units"] = UNITS
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose by ISA and way, as in "arm64-plain-per-cpu": "-share" and "-both-share" in percent; what was merged, at
    the entry, "arm64-merged-percent", and what was proposed, on the stack, "arm64-proposed-percent";
    "riscv64-merged-inline-percent", see inlined()."""
    merged = (r for r in inlined().itertuples() if r.way in MERGED)
    values: dict[str, object] = {f"{r.isa}-merged-inline-percent": round(r.share) for r in merged}
    for r in frame.itertuples():
        key = f"{r.isa}-{slug(r.way)}"
        values[key + ("-share" if r.probe == ENTRY else "-both-share")] = f"{r.share:.1f} %"
        if r.probe == ENTRY:
            if r.way == f"plain, {STACK}":
                values[f"{r.isa}-proposed-percent"] = round(r.share)
            if r.way in MERGED:
                values[f"{r.isa}-merged-percent"] = round(r.share)
    return values


def chain(frame: pd.DataFrame) -> pd.DataFrame:
    """The light structures, at the entry."""
    return frame[(frame["kind"] == LIGHT) & (frame["probe"] == ENTRY)]


LIMITS = (
    "Emulated: one call of a function with a link, a tiny program that reads two arguments and counts; shares of what the link "
    "adds, with the way. both: with a handler at the return as well. "
    "The full save is what its trampoline adds to an ops."
)
FIGURES = (
    Figure(
        "fig-ways-share",
        f"What share of a kprobe_multi call are its registers? ({NEWEST})",
        chart=lambda frame: stacked_bars("instructions", bars="probe", stack="part", note="said")(drawn(frame)),
        table=table,
        alt="A panel per ISA with two bars, at the entry and with a handler at the return: the instructions that a link adds, and "
        "among them those that make the pt_regs, with their share. The table has every way.",
        limits=LIMITS,
        hypothetical=True,
    ),
)
