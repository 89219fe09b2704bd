"""Interrupted anywhere in a hooked call, does an unwinder that follows frame pointers see the traced function and its caller?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pandas as pd

from ...analyse.unwind import APART, BOTH, CALLER, FUNCTION, NEITHER, Chain, judge, watch
from ...emulate.decode import Instruction
from ...ftrace import releases
from ...ftrace.steps import text
from ...isa import ISAS
from ...lab import hooks
from ...lab.kernel import Kernel
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.table import pivot
from ..once import once

NAME = "unwinding"
TITLE = "Where an unwinder loses the traced function or its caller"
#: A function that is traced, and one that calls it.
TRACED, CALLS, ARGUMENTS = "two_args", "calls_others", (1, 2, 3)
HOOKS = (("none", 1), ("ops", 1), ("ops", 2), ("ops-regs", 1), ("direct", 1), ("direct+ops", 1))
#: Looked at in the newest release only; see fix_up.
NEWEST = (("bpf-fentry", 1), ("bpf-fexit", 1))
#: Who makes frame records: nobody, functions compiled from C, or ftrace's trampolines as well.
NOBODY, FUNCTIONS, ALL = "none", "C", "all"
#: The unwinder that follows records, and the one that also knows where a return address is at a first instruction.
PLAIN, ENTRY = "plain", "entry"
ONE = "one, or apart"
_CALL = ["isa", "hook", "records"]
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, who makes records, hook, unwinder and stretch of the call.

    A stretch is one or more instructions of one symbol, executed one after the other, before each of which the unwinder
    finds the same. Columns: isa, release, records, hook, unwinder, component, first and last (symbol+offset), boundaries
    (instructions), found (see analyse.unwind.FOUND), wrong (what the unwinder says that is not so, or "").
    """
    out = []
    for isa in ISAS:
        for release in releases.shown():
            found = _found(isa, releases.stand_in(isa, release), HOOKS)
            if release == releases.LATEST:
                found = found + _found(isa, release, NEWEST)
            out += [{"isa": isa, "release": release, **row} for row in found]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache
def _found(isa: str, release: str, chosen: tuple[tuple[str, int], ...]) -> list[dict[str, object]]:
    """The stretches of calls with each of these hooks that the release has."""
    out = []
    for records, kernel in _kernels(isa, release):
        for name, callbacks in chosen:
            hook = hooks.get(name)
            if kernel.features[hook.needs]:
                keys = {"records": records, "hook": hooks.label(name, callbacks)}
                out += [keys | stretch for stretch in _stretches(kernel, records, hook, callbacks)]
    return out


def _kernels(isa: str, release: str) -> Iterator[tuple[str, Kernel]]:
    """Who makes records -> a kernel that is built so, or can be made so; see `without_fixup`."""
    if not releases.features(ISAS[isa], release, {})["frame_pointer"]:
        yield NOBODY, Kernel(isa, release)
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
    """One call with a hook attached, as stretches, for either unwinder."""
    caller, traced = kernel.function(CALLS), kernel.function(TRACED)
    with (
        kernel.attached(traced, *hooks.requests(hook, callbacks)),
        without_fixup(kernel) if records == FUNCTIONS else nullcontext(),
    ):
        run, boundaries = watch(kernel, caller, traced, *ARGUMENTS)

    @functools.cache
    def told(chain: Chain, truth: tuple[int, ...]) -> tuple[str, str, str, str]:
        verdict = judge(chain, truth, TRACED, CALLS, run.name_of)
        pc = chain.addresses[0]
        return run.symbol_of(pc), run.component_of(pc), verdict.found, verdict.wrong

    out: list[dict[str, object]] = []
    for unwinder, chains in (
        (PLAIN, [(b.plain, b.truth) for b in boundaries]),
        (ENTRY, [(b.at_entry, b.truth) for b in boundaries]),
    ):
        for (_, component, found, wrong), part in itertools.groupby(chains, key=lambda c: told(*c)):
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
                }
            )
    return out


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA, hook and who makes records: at how many boundaries, of how many, the plain unwinder finds function and
    caller; a column per release. Without the hooks that were not looked at in all of them."""
    frame = frame[~frame["hook"].isin([name for name, _ in NEWEST])]
    data = frame[frame["unwinder"] == PLAIN].assign(good=lambda d: d["boundaries"].where(d["found"] == BOTH, 0))
    sums = data.groupby([*_CALL, "release"], sort=False)[["good", "boundaries"]].sum()
    cells = sums.astype(str).agg("/".join, axis="columns").unstack("release")
    wide = cells.reindex(pd.MultiIndex.from_tuples(_calls(frame), names=_CALL))
    return wide[list(releases.shown())].reset_index().fillna("-").rename_axis(columns=None)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release: boundaries by how many of the two the plain unwinder finds there, also where that is none."""
    data = frame[(frame["release"] == releases.LATEST) & (frame["unwinder"] == PLAIN)]
    data = data.assign(found=data["found"].where(data["found"].isin([BOTH, NEITHER]), ONE))
    sums = data.groupby([*_CALL, "found"], sort=False)["boundaries"].sum()
    lines = [(*call, name, int(sums.get((*call, name), 0))) for call in _calls(data) for name in (BOTH, ONE, NEITHER)]
    return pd.DataFrame(lines, columns=[*_CALL, "found", "boundaries"])


def unwinders(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release: all boundaries, and at how many the plain unwinder finds the function, its caller, both in order, or
    something wrong, and the second one both."""
    data = frame[frame["release"] == releases.LATEST]
    plain, found = data["unwinder"] == PLAIN, data["found"]
    picked = {
        "all": plain,
        "function": plain & found.isin([BOTH, FUNCTION, APART]),
        "caller": plain & found.isin([BOTH, CALLER, APART]),
        "both": plain & (found == BOTH),
        "wrong": plain & (data["wrong"] != ""),
        "entry: both": (data["unwinder"] == ENTRY) & (found == BOTH),
    }
    counted = data[_CALL].assign(**{name: data["boundaries"].where(rows, 0) for name, rows in picked.items()})
    sums = counted.groupby(_CALL, sort=False).sum()
    return sums.reindex(pd.MultiIndex.from_tuples(_calls(data), names=_CALL)).reset_index()


def _calls(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """What there is of ISA, hook and who makes records, in the order of tables."""
    there = set(frame[_CALL].itertuples(index=False, name=None))
    return [call for call in itertools.product(ISAS, frame["hook"].unique(), (NOBODY, FUNCTIONS, ALL)) if call in there]


def lost(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest release with one ops: every stretch in which the plain unwinder lacks one or both, callbacks left out."""
    part = frame[
        (frame["release"] == releases.LATEST)
        & (frame["hook"] == "ops")
        & (frame["unwinder"] == PLAIN)
        & (frame["records"] != NOBODY)
        & (frame["found"] != BOTH)
    ]
    last = part["last"].str.partition("+")[2].map(lambda offset: f"+{offset}" if offset else "")
    return part.assign(to=last)[["isa", "records", "first", "to", "boundaries", "found"]].reset_index(drop=True)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: "release", the newest, and of a call there with one ops "x86_64-all-both" of
    "x86_64-all-boundaries", the same in the trampoline alone ("x86_64-all-trampoline-both") and with the second unwinder
    ("x86_64-all-entry-both"); "wrong", at how many boundaries of all calls the plain unwinder says what is not so."""
    part = frame[(frame["release"] == releases.LATEST) & (frame["hook"] == "ops")]
    out: dict[str, object] = {
        "release": releases.LATEST,
        "wrong": int(frame.loc[(frame["wrong"] != "") & (frame["unwinder"] == PLAIN), "boundaries"].sum()),
    }
    for (isa, records), own in part.groupby(["isa", "records"], sort=False):
        plain, entry = (own[own["unwinder"] == u] for u in (PLAIN, ENTRY))
        inside = plain[plain["component"] == "trampoline"]
        for name, some in (("", plain), ("-entry", entry), ("-trampoline", inside)):
            good = some.loc[some["found"] == BOTH, "boundaries"].sum()
            out |= {f"{isa}-{records}{name}-both": int(good)}
            out |= {f"{isa}-{records}{name}-boundaries": int(some["boundaries"].sum())}
    return out


_LIMITS = (
    "Emulated, exact: the moment before each instruction from the traced function's first to its return, in a call made by "
    "compiled code. records: who makes frame records, nobody, functions compiled from C, or all; for C, what moves the frame "
    "pointer in ftrace's trampolines is a NOP. Leaf functions of arm64 make no record. Of the stubs that direct calls go "
    "to, only arm64's makes records."
)

FIGURES = (
    Figure(
        "fig-unwinding",
        f"Does an unwinder find the traced function and its caller? ({releases.LATEST})",
        rows=newest,
        table=pivot("boundaries", across="found", index=tuple(_CALL)),
        chart=stacked_bars("boundaries", bars=("hook", "records"), stack="found", facet="isa"),
        alt="A panel per ISA with a bar per hook and way of building the kernel: the instruction boundaries of one call, by "
        "what an unwinder that follows frame pointers finds there. The table below has every number.",
        limits=_LIMITS,
    ),
    Figure(
        "fig-unwinding-where",
        f"Where is one of them lost? (one ops, {releases.LATEST})",
        table=lost,
        limits=_LIMITS,
    ),
    Figure(
        "fig-unwinding-entry",
        f"Which of the two does it find, and when is it wrong? ({releases.LATEST})",
        table=unwinders,
        limits=_LIMITS
        + " entry: an unwinder that also knows where the return address is at a function's first instruction.",
    ),
    Figure(
        "fig-unwinding-releases",
        "At how many boundaries are both found, release by release?",
        table=table,
        limits=_LIMITS,
    ),
)
