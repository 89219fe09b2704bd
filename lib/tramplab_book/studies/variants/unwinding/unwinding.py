"""Interrupted anywhere in a hooked call, does a kernel's unwinder see the traced function and its caller?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pandas as pd

from tramplab.emulate.decode import Instruction
from tramplab.ftrace import releases
from tramplab.ftrace.steps import text
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.unwind.unwind import BOTH, Chain, judge, watch

from ....publish.figures.figure import Figure
from ...memo import once
from . import unwound
from .unwound import FP, OFF, WITHOUT

NAME = "unwinding"
TITLE = "Where an unwinder loses the traced function or its caller"
#: A function that is traced, and one that calls it.
TRACED, CALLS, ARGUMENTS = "two_args", "calls_others", (1, 2, 3)
HOOKS = (("none", 1), ("ops", 1), ("ops", 2), ("ops-regs", 1), ("direct", 1), ("direct+ops", 1))
#: Looked at in the newest release only; see fix_up.
NEWEST = (("bpf-fentry", 1), ("bpf-fexit", 1))
#: The ISAs whose kernels can be built without frame pointers.
EITHER_WAY = ("x86_64", "riscv64")
#: Who makes frame records: nobody, functions compiled from C, or ftrace's trampolines as well.
NOBODY, FUNCTIONS, ALL = "none", "C", "all"
#: The unwinder that follows records, the one that also knows where a return address is at a first instruction, and ORC's rules.
PLAIN, ENTRY, BY_ORC = "plain", "entry", "ORC"
#: The hook that has every part of a call, and that of BPF's trampolines.
DRAWN, GENERATED = "ops x2", "bpf-fentry"
_LINE = ["isa", "hook", "unwound"]


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, who makes records, hook, unwinder and stretch of the call.

    A stretch is one or more instructions of one symbol, executed one after the other, before each of which the unwinder
    finds the same. Columns: isa, release, records, hook, unwinder, unwound (how such a kernel is unwound, see unwound.HOW),
    component, first and last (symbol+offset), boundaries (instructions), found (see unwind.unwind.FOUND), wrong (what the
    unwinder says that is not so, or ""), guessed (it assumes a frame record in code that it does not know).
    """
    out = []
    for isa in ISAS:
        for release in releases.shown():
            found = _found(isa, releases.stand_in(isa, release), HOOKS)
            if release == releases.LATEST:
                found = found + _found(isa, release, NEWEST)
            out += [{"isa": isa, "release": release, **row} for row in found]
    frame = pd.DataFrame(out)
    fixed = set(frame.loc[frame["records"] == ALL, "isa"])
    how = [
        BY_ORC if unwinder == BY_ORC else WITHOUT if records == NOBODY else OFF if records == FUNCTIONS and isa in fixed else FP
        for isa, records, unwinder in zip(frame["isa"], frame["records"], frame["unwinder"], strict=True)
    ]
    frame.insert(frame.columns.get_loc("unwinder") + 1, "unwound", how)
    return frame


@functools.cache
def _found(isa: str, release: str, chosen: tuple[tuple[str, int], ...]) -> list[dict[str, object]]:
    """The stretches of calls with each of these hooks that the release has."""
    out = []
    for records, kernel in _kernels(isa, release):
        for name, callbacks in chosen:
            if kernel.features[hooks.get(name).needs]:
                hook = hooks.of_release(name, kernel.features)
                keys = {"records": records, "hook": hooks.label(hook.name, callbacks)}
                out += [keys | stretch for stretch in _stretches(kernel, records, hook, callbacks)]
    return out


def _kernels(isa: str, release: str) -> Iterator[tuple[str, Kernel]]:
    """What makes frame records -> a kernel that is built so, or can be made so; see `without_fixup`."""
    if isa in EITHER_WAY:
        yield NOBODY, Kernel(isa, release, frame_pointer=False)
    if releases.intervals(isa, "frame_pointer"):
        kernel = Kernel(isa, release, frame_pointer=True)
        yield FUNCTIONS, kernel
        if fixup(kernel):
            yield ALL, kernel


def fixup(kernel: Kernel) -> list[Instruction]:
    """The instructions of ftrace's trampolines, those made for one ops included, that point the frame pointer at a record."""
    isa, image = kernel.isa, kernel.image
    places = [
        (s.address, s.size)
        for name, s in image.symbols.items()
        if s.size and name.startswith("ftrace_") and image.component_at(s.address) == "trampoline"
    ]
    places += [(o.trampoline, o.trampoline_size) for o in kernel.slowpath.ops if o.trampoline]
    found = []
    for start, size in places:
        pc = start
        while pc < start + size:
            i = kernel.machine.instruction_at(pc)
            if i.mnemonic in ("mov", "add") and i.operands.split(", ")[:2] == [isa.fp, isa.sp]:
                found.append(i)
            pc += i.size
    return found


@contextmanager
def without_fixup(kernel: Kernel) -> Iterator[None]:
    """Trampolines that leave the frame pointer alone, for the length of a `with`: its moves are NOPs, all else stays."""
    moves = fixup(kernel)
    kernel.apply([text(i.address, kernel.isa.nops[i.size], "no record here") for i in moves])
    try:
        yield
    finally:
        kernel.apply([text(i.address, i.data, "the record again") for i in moves])


def _stretches(kernel: Kernel, records: str, hook: hooks.Hook, callbacks: int) -> list[dict[str, object]]:
    """One call with a hook attached, as stretches, for each unwinder that there is for such a kernel."""
    caller, traced = kernel.function(CALLS), kernel.function(TRACED)
    with (
        kernel.attached(traced, *hooks.requests(hook, callbacks)),
        without_fixup(kernel) if records == FUNCTIONS else nullcontext(),
    ):
        run, boundaries = watch(kernel, caller, traced, *ARGUMENTS)

    @functools.cache
    def told(chain: Chain, truth: tuple[int, ...]) -> tuple[str, str, str, str, bool]:
        verdict = judge(chain, truth, TRACED, CALLS, run.name_of)
        pc = chain.addresses[0]
        return run.symbol_of(pc), run.component_of(pc), verdict.found, verdict.wrong, chain.guessed

    out: list[dict[str, object]] = []
    for unwinder, chains in (
        (PLAIN, [(b.plain, b.truth) for b in boundaries]),
        (ENTRY, [(b.at_entry, b.truth) for b in boundaries]),
        (BY_ORC, [(b.by_orc, b.truth) for b in boundaries if b.by_orc]),
    ):
        for (_, component, found, wrong, guessed), part in itertools.groupby(chains, key=lambda c: told(*c)):
            places = [run.name_of(chain.addresses[0]) for chain, _ in part]
            out.append(
                {
                    "unwinder": unwinder,
                    "component": component,
                    "first": places[0],
                    "last": places[-1],
                    "boundaries": len(places),
                    "found": found,
                    "wrong": wrong,
                    "guessed": guessed,
                }
            )
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: per ISA, hook and way of unwinding at how many instructions of a call, of how many,
    both are found; a column per release. Without the hooks that were not looked at in all of them."""
    rows = unwound.shares(frame[_ways(frame) & ~_newer(frame)])
    sums = rows.groupby([*_LINE, "release"], sort=False)[["both", "boundaries"]].sum()
    cells = sums.astype(str).agg("/".join, axis="columns").unstack("release")
    present = set(cells.index)
    lines = [line for line in itertools.product(ISAS, frame["hook"].unique(), unwound.HOW) if line in present]
    wide = cells.reindex(pd.MultiIndex.from_tuples(lines, names=_LINE))
    return wide[list(releases.shown())].reset_index().fillna("-").rename_axis(columns=None)


def _ways(frame: pd.DataFrame) -> pd.Series:
    """Whether each row is of an unwinder that a kernel could have: not of the one that knows first instructions."""
    return frame["unwinder"] != ENTRY


def _newer(frame: pd.DataFrame) -> pd.Series:
    """Whether each row is of a hook that is looked at in the newest release only."""
    return frame["hook"].isin([name for name, _ in NEWEST])


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release and ftrace's hooks, as kernels are unwound, and with the fix-up off; see unwound.shares."""
    chosen = (frame["release"] == releases.LATEST) & (frame["unwound"] != WITHOUT)
    return unwound.shares(frame[chosen & _ways(frame) & ~_newer(frame)])


def lost(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release: every stretch at which one or both are missing, of a call with one ops by frame pointers, and of one
    with one fentry program, which is all that ORC's rules lose anything of."""
    calls = (frame["unwound"] == FP) & (frame["hook"] == "ops") | (frame["unwound"] == BY_ORC)
    part = frame[(frame["release"] == releases.LATEST) & calls & _ways(frame) & (frame["found"] != BOTH)]
    part = part[part["hook"] != "bpf-fexit"]
    last = part["last"].str.partition("+")[2].map(lambda offset: f"+{offset}" if offset else "")
    return part.assign(to=last)[["isa", "hook", "unwound", "first", "to", "boundaries", "found", "guessed"]].reset_index(drop=True)


def lost_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of lost() without columns that the symbols tell."""
    found = rows["found"] + rows["guessed"].map({True: ", guessed", False: ""})
    return rows.assign(found=found, count=rows["boundaries"])[["isa", "unwound", "first", "to", "count", "found"]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "release", the newest; "wrong-boundaries", at how many instructions of all calls frame pointers say
    what is not so in a kernel without them; "entry-gained", how many a call gains where first instructions are known; of ORC's
    rules "orc-found-boundaries" of "orc-all-boundaries" with ftrace's hooks in all releases, and the same by frame pointers in
    kernels built with them, "fp-found-boundaries"; of a call with one ops, by frame pointers in the newest release, the
    instructions of ftrace's trampoline, "arm64-trampoline-boundaries", and at how many of these one is missing,
    "arm64-lost-boundaries"."""
    alone = (frame["unwinder"] == PLAIN) & (frame["unwound"] == WITHOUT) & (frame["wrong"] != "")
    call = frame[frame["found"] == BOTH].groupby(["isa", "release", "records", "hook", "unwinder"], sort=False)["boundaries"].sum()
    wide = call.unstack("unwinder").fillna(0)
    calls = frame[frame["unwinder"] == PLAIN].groupby(["isa", "release", "records", "hook"], sort=False).size().index
    wide = wide.reindex(calls).fillna(0)
    gained = {int(n) for n in wide[ENTRY] - wide[PLAIN]}
    values: dict[str, object] = {
        "release": releases.LATEST,
        "wrong-boundaries": int(frame.loc[alone, "boundaries"].sum()),
        "entry-gained": " or ".join(map(str, sorted(gained))),
    }
    for name, how in (("orc", BY_ORC), ("fp", FP)):
        part = frame[_ways(frame) & (frame["unwound"] == how) & ~_newer(frame)]
        values[f"{name}-found-boundaries"] = int(part.loc[part["found"] == BOTH, "boundaries"].sum())
        values[f"{name}-all-boundaries"] = int(part["boundaries"].sum())
    one = frame[(frame["release"] == releases.LATEST) & _ways(frame) & (frame["unwound"] == FP) & (frame["hook"] == "ops")]
    for isa, part in one[one["component"] == "trampoline"].groupby("isa", sort=False):
        values[f"{isa}-trampoline-boundaries"] = int(part["boundaries"].sum())
        values[f"{isa}-lost-boundaries"] = int(part.loc[part["found"] != BOTH, "boundaries"].sum())
    return values


#: The limits of every figure of unwinding.
LIMITS = (
    "Rewritten trampolines and a lab C core, not Linux; counts, not time. ORC's stack layouts are worked out from the code; "
    "programs are C, not JIT-compiled."
)

FIGURES = (
    Figure(
        "fig-unwinding",
        f"At what share of a call are function and caller both found? ({releases.LATEST})",
        rows=newest,
        table=unwound.table,
        chart=lambda rows: unwound.chart(rows[rows["hook"] == DRAWN].replace({"hook": {DRAWN: "two callbacks"}}), "hook"),
        alt="A row per kernel and a column per part of a hook with two callbacks: the share of its instructions at which the "
        "traced function and its caller are both found. The table below has every hook.",
        limits=f"{LIMITS} fix-up off: what moves the frame pointer is a NOP.",
        legend="In the table: instructions at which both are found / all of the part.",
        hypothetical=True,
    ),
    Figure(
        "fig-unwinding-where",
        f"Where is one of them lost? (one ops, one fentry program, {releases.LATEST})",
        rows=lost,
        table=lost_table,
        limits=LIMITS,
    ),
)
