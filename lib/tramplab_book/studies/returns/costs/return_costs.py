"""What does it cost to see a function return, and where do the instructions go?"""

from __future__ import annotations

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.counting.counts import Counts
from tramplab.estimate.returnstack import CALLERS, replay
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.returns.mechanisms import FEXIT, HOOKS, KRETPROBE_BPF, LATEST, MULTI, Build, builds, programs
from tramplab.vmlinux.saved import saved

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from ...shared.order import largest_first
from ...time import saved_times

NAME = "return_costs"
TITLE = "Seeing a function return, by mechanism and part"
FUNCTION, ARGUMENTS = "one_arg", (1,)
#: Part of a call -> what its functions' names begin with. A trampoline's own instructions are told by where they lie.
TRAMPOLINE, PROBE = "trampolines", "probe, guards"
PARTS = {
    "exception": tuple("lab_trap lab_error ct_nmi_ irqentry_ text_poke_ el1_ arm64_ do_el1_ handle_break riscv_v_".split()),
    "return hook": (
        *("rethook_", "arch_rethook_", "objpool_", "_find_next_bit", "arch_prepare_", "arch_kretprobe_"),
        *("__kretprobe_", "trampoline_probe_", "recycle_rp_", "lab_oldest"),
    ),
    "graph tracer": ("function_graph_", "ftrace_graph_", "ftrace_return_", "ftrace_ops_test", "fgraph_"),
    PROBE: (
        *("get_kprobe", "kprobe_", "post_kprobe_", "setup_", "arch_simulate_", "pre_handler_", "kretprobe_", "fprobe_"),
        *("aggr_pre_handler", "__bpf_", "__rcu_", "migrate_", "rcu_is_watching", "ftrace_ops_list_func"),
        *("trace_call_bpf", "get_entry_ip", "is_endbr", "arch_ftrace_get_symaddr", "memcpy"),
    ),
}
ORDER = (TRAMPOLINE, *PARTS)
#: Code that is a trampoline's, but for C whose name begins or ends so; an instruction's copy in a slot is the exception's.
_TRAMPOLINES = ("ftrace_", "bpf_trampoline", "return_to_handler", "arch_rethook_trampoline", "__kretprobe_trampoline")
_C = ("ftrace_graph_func", "ftrace_return_to_handler", "ftrace_ops_")
_C_BEHIND = ("_callback", "_handler")
#: The function that looks up a function in an ops' hashes, and the list function.
_LOOKUP, _WALK = "hash_contains_ip", "ftrace_ops_list_func"
_SLOT, _HANDLERS = "kprobe_insn_slot", ("lab_kretprobe_", "lab_fprobe_", "lab_graph_", "lab_bpf_count")
UNITS = {"instructions": "insns"}
#: The mechanisms whose handler is a BPF program; every other one's is bare.
PROGRAMS = (KRETPROBE_BPF, MULTI, FEXIT)


def part(name: str, walked: bool = False) -> str:
    """The part of a call that a function belongs to; "" for a handler. walked: is the list of ops? Raises TramplabError for an
    unknown function.

    >>> part("arch_rethook_trampoline"), part("arch_rethook_trampoline_callback"), part("bpf_trampoline[0]")
    ('trampolines', 'return hook', 'trampolines')
    """
    if name.startswith(_HANDLERS):
        return ""
    if name.startswith(_SLOT):
        return "exception"
    if name == _LOOKUP:
        return PROBE if walked else "graph tracer"
    if name.startswith(_TRAMPOLINES) and not name.startswith(_C) and (name == "return_to_handler" or not name.endswith(_C_BEHIND)):
        return TRAMPOLINE
    for known, begins in PARTS.items():
        if name.startswith(begins):
            return known
    raise TramplabError(f"{name} belongs to no part of a hooked return: name it in PARTS of {__name__}.")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism and part of a call: what a call executes more than the unhooked one, without the handlers.

    Columns: isa, mechanism, release, name (as shown), part (a name of ORDER), instructions, loads, stores; and for the whole call,
    in each of its rows: debian (instructions that Debian's kernel of the same release adds, missing where none was counted), traps
    (exceptions taken), own and outer (mispredicted returns in the call, and of 8 callers above it).
    """
    records = []
    for isa in ISAS:
        for build in compared(isa):
            hooked, idle = calls(build)
            head = {"isa": isa, "mechanism": build.mechanism, "release": build.release, "name": build.name}
            whole = _whole(build, hooked)
            records += [{**head, **found, **whole} for found in _parts(hooked, idle)]
    frame = pd.DataFrame(records).astype({"debian": "Int64"})
    frame.attrs["units"] = UNITS
    return frame


def compared(isa: str) -> list[Build]:
    """The builds that see returns with a bare handler, and then those of the newest kernel that run a BPF program there, fexit
    last."""
    bare = [build for build in builds(isa) if build.mechanism != FEXIT]
    program = [build for build in (*programs(isa), *builds(isa)) if build.mechanism in PROGRAMS and build.release == LATEST]
    return [*bare, *program]


def calls(build: Build) -> tuple[Run, Run]:
    """A call that is seen returning, and the same unhooked."""
    return with_and_without(build.kernel(), build.request())


def with_and_without(kernel: Kernel, request: Request) -> tuple[Run, Run]:
    """The call that is compared, with this request attached, and unhooked."""
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS)
    with kernel.attached(function, request):
        return kernel.call(function, *ARGUMENTS), idle


def added(hooked: Run, idle: Run) -> Counts:
    """What a hooked call executes more than the unhooked one, without the handlers."""
    less = idle.counts.total
    return sum((c for name, c in hooked.counts.by_symbol.items() if name == FUNCTION or part(name)), less - less) - less


def _parts(hooked: Run, idle: Run) -> list[dict[str, object]]:
    """The counts of each part of a call. The function's own, and its site's, count as the trampolines' as far as there are more of
    them than in the unhooked call."""
    found = dict.fromkeys(ORDER, idle.counts.total - idle.counts.total)
    for name, counts in hooked.counts.by_symbol.items():
        whose = TRAMPOLINE if name == FUNCTION else part(name, _WALK in hooked.symbols)
        if whose:
            found[whose] += counts
    found[TRAMPOLINE] -= idle.counts.total
    return [{"part": p, "instructions": c.instructions, "loads": c.loads, "stores": c.stores} for p, c in found.items()]


def _whole(build: Build, hooked: Run) -> dict[str, object]:
    returns = replay(hooked)
    return {
        "debian": saved.added(build.isa, build.release, build.image),
        "traps": int(hooked.recording.each(lambda pc: hooked.name_of(pc) == "lab_trap_entry").sum()),
        "own": returns.own,
        "outer": returns.outer,
    }


# --- What is shown


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and mechanism: instructions, loads and stores of all parts, and what is known of the whole call."""
    whole = ["debian", "traps", "own", "outer"]
    how = {**dict.fromkeys(("instructions", "loads", "stores"), "sum"), **dict.fromkeys(whole, "first")}
    return frame.groupby(["isa", "mechanism", "release", "name"], sort=False).agg(how).reset_index()


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the newest release that are not 0, by mechanism; the table has the releases before."""
    out = largest_first(frame[(frame["instructions"] > 0) & (frame["release"] == LATEST)], "name", "instructions")
    out.attrs["units"] = UNITS
    return out


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The golden table, and the cycles that each saved machine took more."""
    printed, all_ = golden(frame), totals(frame)
    timed = saved_times.columns([(str(r.isa), str(r.release), HOOKS[str(r.mechanism)]) for r in all_.itertuples()])
    made = printed.assign(**timed)
    made.attrs = {"right": [*printed.attrs["right"], *timed], "units": dict.fromkeys(timed, "cycles")}
    return made


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps. A line per ISA and mechanism: instructions here and in Debian's kernel, exceptions, and
    mispredicted returns in the call and above it."""
    all_ = totals(frame)
    printed = all_[["isa", "name", "instructions"]].rename(columns={"instructions": "insns"})
    printed["Debian"] = ["-" if pd.isna(n) else str(int(n)) for n in all_["debian"]]
    printed["trap"] = all_["traps"]
    printed["missed"] = [f"{r.own}+{r.outer}" for r in all_.itertuples()]
    printed.attrs["right"] = ["insns", "Debian", "trap", "missed"]
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "x86_64-kretprobe-added" of the newest kernel and "x86_64-kretprobe-v5-17-added": instructions;
    "-debian", "-traps", and by part "x86_64-kretprobe-exception-step"."""
    values: dict[str, object] = {}
    for r in totals(frame).itertuples():
        key = f"{r.isa}-{slug(r.name)}"
        values |= {f"{key}-added": int(r.instructions), f"{key}-traps": int(r.traps)}
        if not pd.isna(r.debian):
            values[f"{key}-debian"] = int(r.debian)
    for r in frame.itertuples():
        values[f"{r.isa}-{slug(r.name)}-{slug(r.part)}-step"] = int(r.instructions)
    return values


FIGURES = (
    Figure(
        "fig-return-costs",
        "What does it cost to see a function return?",
        chart=lambda frame: stacked_bars("instructions", bars=("name",), stack="part")(_drawn(frame)),
        table=table,
        alt="A panel per ISA with a bar per mechanism: the instructions that one probe on a function's return adds to a call, "
        "split into trampolines, exceptions, return hook, graph tracer, and the probe's own with guards; those named BPF run a "
        "program, the others a bare handler. "
        "The table has Debian's kernels beside, exceptions, mispredicted returns and, for x86-64, measured cycles.",
        limits="Emulated counts of one call with one probe that sees the return, without its handler: where it is named BPF a BPF "
        "program, with what runs that, else a bare one. Cycles are native ones of the call, in user mode, where windows agree. "
        "Debian: the same call in the release's package, where it was counted; the trampoline of BPF fexit and the slot of a "
        "breakpoint are the lab's there.",
        legend=f"missed: mispredicted returns in the call + of the {CALLERS} callers above it.",
        kind="measured",
        machine=saved_times.MACHINES,
        measured=True,
    ),
)
