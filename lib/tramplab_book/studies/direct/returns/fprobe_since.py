"""What has an fprobe cost since: on a return hook of its own, on the graph tracer that all share, and on an ops where it sees no
return?"""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate.returnstack import CALLERS, replay
from tramplab.ftrace.releases import NEWEST
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.names import image
from tramplab.lab.run import Run
from tramplab.vmlinux.saved import saved

from ....publish import published
from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ...memo import once
from ...time.saved_times import MACHINES, MEASURED, columns

NAME = "fprobe_since"
TITLE = "An fprobe at a function's entry and at its return, release by release"
FUNCTION, ARGUMENTS = "one_arg", (1,)
#: Event -> the hook.
EVENTS = {"entry": "fprobe", "return": "fprobe-exit"}
#: ISA -> releases: the last one with return hooks where there was one, one with the graph tracer for all, and the newest.
RELEASES = {"x86_64": ("v6.12", "v6.16", NEWEST), "arm64": ("v6.16", NEWEST), "riscv64": ("v6.9", "v6.16", NEWEST)}
#: Who looks a function up in an ops' hashes, for the list function or for the graph tracer.
_LOOKUP = "hash_contains_ip"
#: Part of a call -> what its functions' names begin with; what begins with none is a trampoline's or a site's.
PARTS = {
    "list function": ("ftrace_ops_list_func",),
    "return hook": ("rethook_", "arch_rethook_", "objpool_"),
    "graph tracer": ("function_graph_", "ftrace_graph_", "ftrace_return_", "ftrace_ops_test", "fgraph_", _LOOKUP),
    "fprobe": ("fprobe_", "rcu_is_watching"),
}
TRAMPOLINE, HANDLER = "site, trampoline", "lab_fprobe_"
ORDER = (TRAMPOLINE, *PARTS)
#: Trampolines whose names begin as a part's do.
_RETURNS = ("arch_rethook_trampoline", "return_to_handler")
UNITS = {"instructions": "insns"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, event, release and part of a call: what a hooked call executes more than the unhooked one, without the
    handler.

    Columns: isa, event, release, part (a name of ORDER), instructions, loads, stores; and for the whole call, in each of its
    rows: debian (instructions that Debian's kernel of the same release adds, missing where there is none), own and outer
    (mispredicted returns in the call, and of 8 callers above it).
    """
    records = []
    for isa, known in RELEASES.items():
        for release in known:
            kernel = Kernel(isa, release, meter=RECORD)
            function = kernel.function(FUNCTION)
            idle = kernel.call(function, *ARGUMENTS)
            for event, hook in EVENTS.items():
                with kernel.attached(function, *hooks.requests(hooks.get(hook), 1)):
                    hooked = kernel.call(function, *ARGUMENTS)
                head = {"isa": isa, "event": event, "release": release}
                records += [{**head, **part, **_whole(isa, release, hook, hooked)} for part in _parts(hooked, idle)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _parts(hooked: Run, idle: Run) -> list[dict[str, object]]:
    """The counts of each part; the function is left out, and so is what the idle site does."""
    found = dict.fromkeys(ORDER, idle.counts.total - idle.counts.total)
    walked = "ftrace_ops_list_func" in hooked.symbols
    for name, counts in hooked.counts.by_symbol.items():
        if name.startswith(HANDLER):
            continue
        starts = [part for part, begins in PARTS.items() if name.startswith(begins) and not name.startswith(_RETURNS)]
        if name == _LOOKUP and walked:
            starts = ["list function"]
        found[starts[0] if starts else TRAMPOLINE] += counts
    found[TRAMPOLINE] -= idle.counts.total
    return [{"part": p, "instructions": c.instructions, "loads": c.loads, "stores": c.stores} for p, c in found.items()]


def _whole(isa: str, release: str, hook: str, hooked: Run) -> dict[str, object]:
    returns = replay(hooked)
    return {"debian": saved.added(isa, release, image(hook)), "own": returns.own, "outer": returns.outer}


# --- What is shown


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA, event and release: instructions, loads and stores of all parts, and what is known of the whole call."""
    how = {**dict.fromkeys(("instructions", "loads", "stores"), "sum"), **dict.fromkeys(("debian", "own", "outer"), "first")}
    return frame.groupby(["isa", "event", "release"], sort=False).agg(how).reset_index()


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Bars by event and release; what a call does not have is not drawn. The last release with rethook, which is not the same on
    every ISA, has one name in all panels, and each panel says its own."""
    early = {isa: known[0] for isa, known in RELEASES.items() if len(known) == max(map(len, RELEASES.values()))}
    old = frame["release"] == frame["isa"].map(early)
    out = frame.assign(call=frame["event"] + ", " + frame["release"].mask(old, "rethook")).sort_values("event", kind="stable")
    out["isa"] = [f"{isa} (rethook: {early[isa]})" if isa in early else isa for isa in out["isa"]]
    out.attrs["units"] = UNITS
    return out[out["instructions"] > 0]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The golden table, with the cycles that each machine measured."""
    counted = golden(frame)
    cycles = columns([(r.isa, r.release, EVENTS[r.event]) for r in counted.itertuples()])
    printed = counted.assign(**cycles)
    printed.attrs = {"right": [*counted.attrs["right"], *cycles], "units": dict.fromkeys(cycles, "cycles")}
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps. A line per ISA, event and release: instructions here and in Debian's kernel, stores,
    mispredicted returns in the call and above it."""
    all_ = totals(frame)
    printed = all_[["isa", "event", "release", "instructions"]].rename(columns={"instructions": "insns"})
    printed["Debian"] = ["-" if pd.isna(n) else str(int(n)) for n in all_["debian"]]
    printed["stores"] = all_["stores"]
    printed["missed"] = [f"{r.own}+{r.outer}" for r in all_.itertuples()]
    printed.attrs["right"] = ["insns", "Debian", "stores", "missed"]
    return printed


#: What was published for the move to the graph tracer: a name, and the ids before and after.
PUBLISHED = {
    "v11": ("x86-fgraph-v11-before", "x86-fgraph-v11-after"),
    "v15": ("x86-fgraph-v15-before", "x86-fgraph-v15-after"),
}


def speeds() -> pd.DataFrame:
    """Throughput after the move over that before, as published. Columns: round, event, before, after (millions a second), ratio,
    message."""
    items = []
    for name, (before, after) in PUBLISHED.items():
        for event, bench in (("entry", "kprobe-multi"), ("return", "kretprobe-multi")):
            was, now = (published.get(f"{of}-{bench}") for of in (before, after))
            items.append({"round": name, "event": event, "before": was.value, "after": now.value, "ratio": now.value / was.value})
    return pd.DataFrame(items)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-return-v7-2-added", instructions, "-debian", "-missed" (in the call and above
    it); and "v11-return-ratio", throughput after the move over that before, published."""
    values: dict[str, object] = {}
    for r in totals(frame).itertuples():
        key = f"{r.isa}-{r.event}-{r.release.replace('.', '-')}"
        values |= {f"{key}-added": int(r.instructions), f"{key}-missed": f"{r.own}+{r.outer}"}
        if not pd.isna(r.debian):
            values[f"{key}-debian"] = int(r.debian)
    return values | {f"{r.round}-{r.event}-ratio": f"{r.ratio:.2f}" for r in speeds().itertuples()}


FIGURES = (
    Figure(
        "fig-fprobe-releases",
        "What does an fprobe add to a call, release by release?",
        chart=lambda frame: stacked_bars("instructions", bars=("call",), stack="part")(_drawn(frame)),
        table=table,
        alt="A panel per ISA with a bar per event and release: the instructions that an fprobe at a function's entry and one at "
        "its return add to a call, split into site and trampolines, list function, return hook, graph tracer and the fprobe. "
        "The table has Debian's kernels beside, stores, mispredicted returns and measured cycles.",
        limits="Emulated counts of one call with one probe, without the handler. "
        f"Debian: the same call in the release's package, where it has fprobes. {MEASURED}",
        legend=f"missed: mispredicted returns in the call + of the {CALLERS} callers above it.",
        kind="measured",
        machine=MACHINES,
        measured=True,
    ),
)
