"""What is left of a hook's cost when the trampoline is made for the one function?"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pandas as pd

from tramplab.emulate.machine import COUNT, RECORD
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS, get
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import STUDIED
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.table import pivot
from ...memo import once
from ...shared.hypothetical import flagged, named
from ...shared.order import largest_first
from .what_for import SETTING, jobs

NAME = "generated"
TITLE = "Trampolines made for one function, and ftrace's"
#: What is attached, in the order of the figure; called as hooks are, but for bare: the program is called and nothing else, as
#: sketched in 2019. bpf-fentry and bpf-fexit have the enter and exit functions that came to be around each program.
VARIANTS: dict[str, Callable[[], Request]] = {
    "bare": lambda: Bpf(fentry=1, guarded=False),
    "bpf-fentry": lambda: Bpf(fentry=1),
    "bpf-fexit": lambda: Bpf(fexit=1),
    "ops-live": lambda: Ops(save="live"),
    "ops-clobbered": lambda: Ops(save="clobbered"),
    "ops": Ops,
    "ops-regs": lambda: Ops(save="regs"),
}
#: Variants that no kernel has and that are no hook of the lab's.
SKETCHED = ("bare",)
#: Variants made for the function; the others do the same for any number of arguments, so two are enough.
KNOWING = ("bare", "bpf-fentry", "ops-live")
#: Variant -> the feature it needs that the newest release does not have on every ISA.
NEEDS = {"ops-regs": "regs"}
PARTS = ("trampoline", "core", "callback")
UNITS = {"load_bytes": "B", "store_bytes": "B"}


@functools.cache
def runs() -> dict[tuple[str, int, str], Run]:
    """A call with each variant attached, and unhooked ("none"), by ISA and number of arguments, in the newest release; but for
    KNOWING, with two arguments only."""
    by_name = {}
    for isa in ISAS:
        kernel = Kernel(isa, meter=RECORD)
        had = [v for v in VARIANTS if v not in NEEDS or kernel.features[NEEDS[v]]]
        for args, name in enumerate(STUDIED):
            function, arguments = kernel.function(name), range(1, args + 1)
            by_name[isa, args, "none"] = kernel.call(function, *arguments)
            for variant in had if args == 2 else KNOWING:
                request = VARIANTS[variant]
                with kernel.attached(function, request()):
                    by_name[isa, args, variant] = kernel.call(function, *arguments)
    return by_name


@once
def rows() -> pd.DataFrame:
    """One row per ISA, number of integer arguments, variant and part of the hook (PARTS): its counts in one call.

    Columns: isa, args, variant, hypothetical, part, then the counts, then setting: how many of the instructions are landing pads,
    slots for patches, or there to reach code that no branch reaches (what_for.SETTING). `callback` is the program or callback
    itself, which differs by an instruction or two between the two kinds. A variant that the release does not have on an ISA has
    no rows there.
    """
    records = []
    for (isa, args, variant), run in runs().items():
        if variant != "none":
            head = {"isa": isa, "args": args, "variant": variant}
            setting = sum(job in SETTING for job in jobs(get(isa), run, ()))
            of = {p: {**run.counts.by_component[p].as_dict(), "setting": setting * (p == "trampoline")} for p in PARTS}
            records += [{**head, "part": p, **of[p]} for p in PARTS]
    frame = flagged(pd.DataFrame(records), "variant", also=SKETCHED)
    frame.attrs["units"] = UNITS
    return frame


def overhead(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions and bytes moved by everything but the callback: columns isa, args, variant, hypothetical, instructions, bytes,
    and alike: the instructions without those of the setting, for comparing like with like."""
    part = frame[frame["part"] != "callback"].assign(
        bytes=lambda d: d["load_bytes"] + d["store_bytes"], alike=lambda d: d["instructions"] - d["setting"]
    )
    keys = ["isa", "args", "variant", "hypothetical"]
    return part.groupby(keys, sort=False, as_index=False)[["instructions", "bytes", "alike"]].sum()


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions of everything but the callback by number of arguments, and with two also
    compared like with like."""
    data = named(overhead(frame), "variant")
    wide = data.pivot(index=["isa", "variant"], columns="args", values="instructions")
    wide["alike"] = data[data["args"] == 2].set_index(["isa", "variant"])["alike"]
    lines = data[data["args"] == 2][["isa", "variant"]]
    wide = wide.reindex(pd.MultiIndex.from_frame(lines)).astype("Int64").reset_index()
    wide.columns = [str(name) for name in wide.columns]
    wide = wide.astype(object).where(wide.notna(), "-")
    wide.attrs["units"] = {"alike": "of 2"}
    return wide


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose of a call with two arguments: "x86_64-bare-total", instructions of everything but the program;
    "x86_64-bpf-fentry-trampoline" and "-core" of a part alone; and what the way through ftrace_caller adds, "arm64-far-step"."""
    values: dict[str, object] = {}
    for r in overhead(frame[frame["args"] == 2]).itertuples():
        values[f"{r.isa}-{r.variant}-total"] = int(r.instructions)
    for r in frame[(frame["args"] == 2) & (frame["part"] != "callback")].itertuples():
        values[f"{r.isa}-{r.variant}-{r.part}"] = int(r.instructions)
    return values | {f"{isa}-far-step": far_step(isa) for isa in ISAS}


@functools.cache
def far_step(isa: str) -> int:
    """Instructions that a direct call executes more for a target that lies as far away as the ISA's layout allows."""
    kernel = Kernel(isa, meter=COUNT)
    function, counts = kernel.function(STUDIED[2]), []
    for far in (False, True):
        with kernel.attached(function, Direct(far=far)):
            counts.append(kernel.call(function, 1, 2).counts.total.instructions)
    return counts[1] - counts[0]


def _with_two(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls with two arguments, as the figure draws them."""
    return frame[frame["args"] == 2].rename(columns={"variant": "hook", "part": "component"})


_LIMITS = (
    "Emulated counts of one call, no timing. The callback counts; without it, the rest is what the hook takes."
)

FIGURES = (
    Figure(
        "fig-generated",
        "What is left when the trampoline is made for the function?",
        rows=_with_two,
        chart=lambda frame: stacked_bars("instructions")(largest_first(named(frame), "hook", "instructions")),
        table=lambda frame: pivot("instructions", index=("isa", "hook"))(named(frame)),
        alt="A panel per ISA: instructions of a hook on a function of two arguments, one bar per kind of trampoline, split into "
        "trampoline, core and callback. The table below has every number.",
        limits=_LIMITS,
        hypothetical=True,
    ),
)
