"""What is left of a hook's cost when the trampoline is made for the one function?"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...emulate.machine import RECORD
from ...ftrace.ops import Request
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...lab.measure import FUNCTIONS
from ...lab.run import Run
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.table import pivot
from ...trampolines.bpf import Bpf
from ...trampolines.plain import Ops
from ..once import once

NAME = "generated"
TITLE = "Trampolines made for one function, and ftrace's"
#: What is attached, in the order of the figure. bare: the program is called and nothing else, as sketched in 2019; fentry:
#: with the enter and exit functions that came to be around each program.
VARIANTS: dict[str, Callable[[], Request]] = {
    "bare": lambda: Bpf(fentry=1, guarded=False),
    "fentry": lambda: Bpf(fentry=1),
    "fexit": lambda: Bpf(fexit=1),
    "ops-live": lambda: Ops(save="live"),
    "ops-clobbered": lambda: Ops(save="clobbered"),
    "ops": Ops,
    "ops-regs": lambda: Ops(save="own-regs"),
}
#: Those that know the function; the others do the same for any number of arguments, so two stand for all.
KNOWING = ("bare", "fentry", "ops-live")
CORES = ("skylake", "cortex-a72", "sifive-u74")
PARTS = ("trampoline", "core", "callback")
UNITS = {"load_bytes": "B", "store_bytes": "B"}
#: "Ten instructions", as the thread had it, give or take two.
TEN = 12


@functools.cache
def runs() -> dict[tuple[str, int, str], Run]:
    """A call with each variant attached, and unhooked ("none"), by ISA and number of arguments, in the newest release; but for
    KNOWING, with two arguments only."""
    out = {}
    for isa in ISAS:
        kernel = Kernel(isa, meter=RECORD)
        for args, name in enumerate(FUNCTIONS):
            function, arguments = kernel.function(name), range(1, args + 1)
            out[isa, args, "none"] = kernel.call(function, *arguments)
            for variant in VARIANTS if args == 2 else KNOWING:
                request = VARIANTS[variant]
                with kernel.attached(function, request()):
                    out[isa, args, variant] = kernel.call(function, *arguments)
    return out


@once
def rows() -> pd.DataFrame:
    """One row per ISA, number of integer arguments, variant and part of the hook (PARTS): its counts in one call.

    Columns: isa, args, variant, part, then the counts. `callback` is the program or callback itself, which differs by an
    instruction or two between the two kinds.
    """
    out = []
    for (isa, args, variant), run in runs().items():
        if variant != "none":
            head = {"isa": isa, "args": args, "variant": variant}
            out += [{**head, "part": p, **run.counts.by_component[p].as_dict()} for p in PARTS]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


@once
def estimates() -> pd.DataFrame:
    """One row per core and variant: cycles that the hook adds to a call with two arguments, as an estimate with its band.

    Columns: isa, core, variant, cycles, low, high.
    """
    made, out = runs(), []
    for name in CORES:
        model = core(name)
        for variant in VARIANTS:
            e = cycles.estimate(made[model.isa, 2, variant], made[model.isa, 2, "none"], model)
            band = {"cycles": e.mid, "low": e.low, "high": e.high}
            head = {"isa": model.isa, "core": name, "variant": variant}
            out.append(head | {k: round(float(v)) for k, v in band.items()})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = dict.fromkeys(("cycles", "low", "high"), "estimate")
    return frame


def overhead(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions and bytes moved by everything but the callback: columns isa, args, variant, instructions, bytes."""
    part = frame[frame["part"] != "callback"].assign(bytes=lambda d: d["load_bytes"] + d["store_bytes"])
    keys = ["isa", "args", "variant"]
    return part.groupby(keys, sort=False, as_index=False)[["instructions", "bytes"]].sum()


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions of everything but the callback: a line per ISA and variant, a column per number of arguments."""
    data = overhead(frame)
    wide = data.pivot(index=["isa", "variant"], columns="args", values="instructions")
    lines = pd.MultiIndex.from_product([dict.fromkeys(data["isa"]), VARIANTS], names=["isa", "variant"])
    wide = wide.reindex(lines).astype("Int64").reset_index()
    wide.columns = [str(name) for name in wide.columns]
    return wide.astype(object).where(wide.notna(), "-")


def cycles_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per core and variant the estimate and its band."""
    made = estimates()
    out = made[["isa", "core", "variant", "cycles"]].copy()
    out["band"] = [f"{r.low} to {r.high}" for r in made.itertuples()]
    out.attrs["units"] = {"cycles": "estimate", "band": "estimate"}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes of a call with two arguments: "x86_64-bare", instructions of everything but the program, and
    "x86_64-bare-bytes" moved; "x86_64-bare-trampoline" of the trampoline alone; cycles "skylake-bare" and "skylake-bare-band"."""
    out: dict[str, object] = {}
    for r in overhead(frame[frame["args"] == 2]).itertuples():
        out |= {f"{r.isa}-{r.variant}": int(r.instructions), f"{r.isa}-{r.variant}-bytes": int(r.bytes)}
    for r in frame[(frame["args"] == 2) & (frame["part"] != "callback")].itertuples():
        out[f"{r.isa}-{r.variant}-{r.part}"] = int(r.instructions)
    for r in estimates().itertuples():
        out |= {f"{r.core}-{r.variant}": r.cycles, f"{r.core}-{r.variant}-band": f"{r.low} to {r.high}"}
    return out


@judges("v1")
def ten_instructions_remove_the_overhead(frame: pd.DataFrame | None = None) -> Verdict:
    """For two arguments: about ten instructions, and less left than by any ftrace trampoline that saves less."""
    frame = rows() if frame is None else frame
    two = overhead(frame[frame["args"] == 2]).pivot(index="isa", columns="variant", values="instructions")
    two = two.reindex(list(dict.fromkeys(frame["isa"])))
    cases = [
        {"isa": isa, "made": made, "truth": bool(n[made] <= TEN and n[made] < n["ops-live"])}
        for isa, n in two.iterrows()
        for made in ("bare", "fentry")
    ]
    kind, on = across(pd.DataFrame(cases), {"isa": "the ISA", "made": "what is around the program"})
    words = {"x86_64": "x86-64"}
    told = [
        f"{n['bare']} on {words.get(isa, isa)} ({n['fentry']} with the enter and exit functions; ftrace's own "
        f"{n['ops-regs']} with all registers, {n['ops']} as it is, {n['ops-live']} saving only the live ones)"
        for isa, n in two.iterrows()
    ]
    because = (
        f"For two arguments a generated trampoline that does nothing but call the program takes {'; '.join(told)}. It is counted "
        f"as true where that is at most {TEN} and less than the smallest of ftrace's. What is left is the call and the frame, and "
        "what a program came to need around it is more than saving less ever saved."
    )
    found = {
        f"{words.get(isa, isa)}, {v}": int(n[v])
        for isa, n in two.iterrows()
        for v in ("bare", "fentry", "ops-live", "ops")
    }
    return Verdict(kind, because, found, on)


def with_two(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls with two arguments, as the figure draws them."""
    return frame[frame["args"] == 2].rename(columns={"variant": "hook", "part": "component"})


_LIMITS = (
    "Emulated counts of one call, no timing. The callback counts; without it, the rest is what the hook takes. ops-live, "
    "ops-clobbered and ops-regs are the lab's, of ftrace's kind with other save sets; bare is the sketch of 2019."
)

FIGURES = (
    Figure(
        "fig-generated",
        "What is left when the trampoline is made for the function?",
        rows=with_two,
        chart=stacked_bars("instructions"),
        table=pivot("instructions", index=("isa", "hook")),
        alt="A panel per ISA: instructions of a hook on a function of two arguments, one bar per kind of trampoline, split into "
        "trampoline, core and callback. The table below has every number.",
        limits=_LIMITS,
    ),
    Figure(
        "fig-generated-cycles",
        "What is it in cycles?",
        table=cycles_table,
        limits="Estimates with models of the cores, not measured times: cycles over the unhooked call of a function of two "
        "arguments, with the callback. Bands vary what is not known of the core.",
    ),
)
