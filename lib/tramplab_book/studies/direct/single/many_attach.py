"""What does it take to attach to ten, a thousand or forty thousand functions, one by one and at once?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.ftrace.steps import Step, Sync, Wait, Write
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.fprobe import Fprobe
from tramplab.trampolines.kprobe import Kprobe
from tramplab.trampolines.single import SingleSlowPath
from tramplab.vmlinux.saved.structs import sizes

from ....publish import published
from ....publish.figures.chart import dumbbell
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from .wide import ADDED, POKES, wide

NAME = "many_attach"
TITLE = "Attaching to many functions: plans, writes, waits and memory"
#: Functions that the lab attaches to: what is computed for others follows from the first four, and the last one has to agree.
COUNTED, COMPUTED = (1, 10, 100, 500, 1_000), 40_000
SHOWN = (10, 1_000, COMPUTED)
#: Waits for other CPUs, and those for tasks.
CPUS = (Sync.TEXT_POKE, Sync.FTRACE_IPI, Sync.KICK, Sync.STOP_MACHINE, Sync.FLUSH_ICACHE)
TASKS = (Sync.RCU_TASKS, Sync.RCU_TASKS_RUDE, Sync.RCU)
#: What is counted of plans, and what is computed beside it.
PLANNED, UNITS = ("plans", "text", "cpus", "tasks", "entries"), {"bytes": "B"}
_ADDRESS = 8
_MIB = 1 << 20
#: Way -> the published attach time.
_PUBLISHED = {
    "kprobe-multi": "kprobe-multi-bench",
    "tracing-multi": "tracing-multi-bench",
    "tracing-multi-buffer": "tracing-multi-bench-buffer",
}


@dataclass(frozen=True)
class Way:
    """A way to attach to many functions.

    requests: functions -> the requests, which are registered one after the other.
    per, fixed: the structs that a kernel allocates for each function, and for all.
    at_once: direct calls that are attached in one update.
    isas: those that have it.
    """

    requests: Callable[[tuple[str, ...]], list[Request]]
    per: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    at_once: bool = False
    isas: tuple[str, ...] = tuple(ISAS)


def _direct(functions: tuple[str, ...]) -> list[Request]:
    return [Direct(far=True, filter=(f,)) for f in functions]


_X86, _OTHERS = ("x86_64",), ("arm64", "riscv64")
_PROGRAM, _TRAMPOLINE = ("bpf_prog", "bpf_prog_aux"), ("bpf_trampoline", "bpf_tramp_image")
#: A function's entry in an ops' filter, and that in the table of direct calls.
_ENTRY = "ftrace_func_entry"
_FENTRY = (*_PROGRAM, "bpf_tracing_link", *_TRAMPOLINE, _ENTRY, _ENTRY)
ONE_OPS, OPS_EACH, MULTI, PROBES = "fentry, one ops", "fentry, ops each", "tracing.multi", "kprobe.multi"
WAYS = {
    "kprobe": Way(lambda names: [Kprobe(breakpoint=True, filter=(f,)) for f in names], ("kprobe",)),
    ONE_OPS: Way(_direct, _FENTRY, isas=_X86),
    OPS_EACH: Way(
        lambda names: [Bpf(fentry=1, filter=(f,)) for f in names], (*_FENTRY, "ftrace_ops", "ftrace_hash"), isas=_OTHERS
    ),
    MULTI: Way(
        _direct,
        ("bpf_tracing_multi_node", *_TRAMPOLINE, _ENTRY, _ENTRY),
        (*_PROGRAM, "bpf_tracing_multi_link"),
        at_once=True,
        isas=_X86,
    ),
    PROBES: Way(
        lambda names: [Fprobe(multi=True, filter=names)],
        ("fprobe_hlist_node", _ENTRY, ""),
        (*_PROGRAM, "bpf_kprobe_multi_link", "fprobe_hlist"),
    ),
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way of the latest release, and number of functions.

    Columns: isa, way, functions, computed (more than the guest has: see beyond()), then PLANNED: plans (updates that ftrace or the
    kprobe's code carries out), text (stores to executable memory, with the words beside functions), cpus (waits for other CPUs),
    tasks (waits for tasks), entries (those of hashes that are written); and bytes (of the structs that Debian's kernel allocates).
    """
    records = []
    with wide(COUNTED[-1]) as guest:
        for isa in ISAS:
            for name, way in WAYS.items():
                if isa in way.isas:
                    of = {n: _counted(isa, way, guest, n) for n in COUNTED} if _at_once(way) else _one_by_one(isa, way, guest)
                    of[COMPUTED] = beyond(of, COMPUTED)
                    head = {"isa": isa, "way": name}
                    records += [
                        {**head, "functions": n, "computed": n == COMPUTED, **of[n], "bytes": held(isa, way, n)} for n in of
                    ]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _at_once(way: Way) -> bool:
    return way.at_once or len(way.requests(("a", "b"))) == 1


def _kernel(isa: str, guest: Path) -> tuple[Kernel, tuple[str, ...]]:
    """A kernel as releases have it, x86-64 with one ops for all direct calls, and the functions that its guest has more."""
    kernel = Kernel(isa, releases.LATEST, guest=guest, meter="count", slow_path="one-ops" if isa in _X86 else "")
    return kernel, tuple(f for f in kernel.functions if f.startswith(ADDED))


def _counted(isa: str, way: Way, guest: Path, functions: int) -> dict[str, int]:
    """The counts of a way that attaches to so many functions at once."""
    kernel, names = _kernel(isa, guest)
    requests, path = way.requests(names[:functions]), kernel.slowpath
    if way.at_once and isinstance(path, SingleSlowPath):
        steps = path.add([r for r in requests if isinstance(r, Direct)])[1]
    else:
        (request,) = requests
        steps = path.register(request)[1]
    kernel.apply(steps)
    return _count(kernel, steps)


def _one_by_one(isa: str, way: Way, guest: Path) -> dict[int, dict[str, int]]:
    """Number of functions -> the counts of a way that attaches to one after the other."""
    kernel, names = _kernel(isa, guest)
    of, counts = {}, dict.fromkeys(PLANNED, 0)
    for n, request in enumerate(way.requests(names), 1):
        steps = kernel.slowpath.register(request)[1]
        kernel.apply(steps)
        counts = {what: counts[what] + more for what, more in _count(kernel, steps).items()}
        if n in COUNTED:
            of[n] = counts
    return of


def _count(kernel: Kernel, steps: list[Step]) -> dict[str, int]:
    """The counts of one plan."""
    writes, waits = [s for s in steps if isinstance(s, Write)], [s.sync for s in steps if isinstance(s, Wait)]
    return {
        "plans": 1,
        "text": sum(kernel.machine.is_text(w.address) for w in writes),
        "cpus": sum(sync in CPUS for sync in waits),
        "tasks": sum(sync in TASKS for sync in waits),
        "entries": sum(_entries(kernel, writes)),
    }


def _entries(kernel: Kernel, writes: list[Write]) -> Iterator[int]:
    """How many entries each hash has that is written: what its struct ftrace_hash says."""
    struct = kernel.image.struct("ftrace_hash")
    count = struct.fields["count"]
    for write in writes:
        if write.why in ("the hash", "the new direct_functions"):
            yield int.from_bytes(write.data[count.offset : count.offset + count.size], "little")


def beyond(of: dict[int, dict[str, int]], functions: int) -> dict[str, int]:
    """The counts for more functions than there are. A count grows with the functions, with their square where each plan copies the
    hashes of all, and with the breakpoints that x86-64 can have at a time; these follow from the first four counts. Raises
    TramplabError if the last one is another than they give."""
    *_, last = of
    found = {}
    for what in PLANNED:
        grown = _grown({n: counts[what] for n, counts in of.items()})
        if grown(last) != of[last][what]:
            raise TramplabError(f"{what} does not grow evenly with the number of functions: it cannot be computed for {functions}.")
        found[what] = int(grown(functions))
    return found


def _grown(of: dict[int, int]) -> Callable[[int], Fraction]:
    """What a count is for a number of functions, by its first four: three within one batch of breakpoints, and one of more."""
    *three, more, _ = of

    def within(functions: int) -> Fraction:
        whole = Fraction(0)
        for n in three:
            part = Fraction(of[n])
            for other in three:
                part *= Fraction(functions - other, n - other) if other != n else 1
            whole += part
        return whole

    batch = (of[more] - within(more)) / ((more - 1) // POKES)
    return lambda functions: within(functions) + batch * ((functions - 1) // POKES)


def held(isa: str, way: Way, functions: int) -> int:
    """Bytes of the structs that Debian's kernel allocates for so many functions; "" is an address."""
    of = sizes(isa) | {"": _ADDRESS}
    return sum(of[name] for name in way.fixed) + functions * sum(of[name] for name in way.per)


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way: waits for other CPUs with each of SHOWN, and for the most what else it takes."""
    wide_ = frame.pivot(index=["isa", "way"], columns="functions", values="cpus")[list(SHOWN)]
    most = frame[frame["functions"] == COMPUTED].set_index(["isa", "way"])
    lines = most[["plans"]].copy()
    for n in SHOWN:
        lines[f"waits {_short(n)}"] = wide_[n]
    lines["text"] = most["text"]
    lines["entries"] = [_millions(n) for n in most["entries"]]
    lines["MiB"] = [f"{n / _MIB:.0f}" for n in most["bytes"]]
    printed = lines.reset_index()
    printed.attrs["right"] = ("entries", "MiB")
    return printed


def _short(functions: int) -> str:
    return f"{functions // 1_000}k" if functions >= 1_000 else f"{functions}"


def _millions(entries: int) -> str:
    return f"{entries / 1e6:.0f}M" if entries >= 1e6 else f"{entries}"


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The waits with each of SHOWN, of ways that wait at all."""
    chosen = frame[frame["functions"].isin(SHOWN) & (frame["cpus"] > 0)]
    said = [f"{n:,} functions" for n in chosen["functions"]]
    return chosen.assign(functions=said).rename(columns={"cpus": "waits for other CPUs"})


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: every number of functions, the computed one in brackets; no way waits for tasks."""
    named = [f"({n})" if computed else f"{n}" for n, computed in zip(frame["functions"], frame["computed"], strict=True)]
    printed = frame.assign(functions=named).drop(columns=["computed", "tasks"])
    printed.attrs = {**frame.attrs, "right": ("functions",)}
    return printed


def attach_times() -> dict[str, float]:
    """Way -> seconds that attaching took to as many functions as a kernel has, as published."""
    return {way: published.get(id_).value for way, id_ in _PUBLISHED.items()}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-tracing-multi-40000-cpus" and what else is counted or computed, of 1, 10 and the others;
    "x86_64-tracing-multi-per" (bytes for each function) and "ksym" (of them, the struct bpf_ksym); "most" and "guest"
    (functions); "kprobe-multi-seconds" (published)."""
    values: dict[str, object] = {
        f"{r.isa}-{slug(r.way)}-{r.functions}-{what}": int(getattr(r, what))
        for r in frame.itertuples()
        for what in (*PLANNED, "bytes")
    }
    for name, way in WAYS.items():
        values |= {f"{isa}-{slug(name)}-per": held(isa, way, 1) - held(isa, way, 0) for isa in way.isas}
    seconds = {f"{way}-seconds": f"{s:.3f}" for way, s in attach_times().items()}
    return values | {"most": COMPUTED, "guest": COUNTED[-1], "ksym": sizes("x86_64")["bpf_ksym"], **seconds}


FIGURES = (
    Figure(
        "fig-many-attach",
        "How often does attaching to many functions wait for other CPUs?",
        chart=lambda frame: dumbbell("waits for other CPUs", "way", "functions", shared=True)(drawn(frame)),
        table=table,
        alt="A panel per ISA with a line per way to attach, on a logarithmic axis: waits for other CPUs with ten, a thousand and "
        "forty thousand functions. One by one they grow with the functions everywhere. At once they hardly grow on x86-64, are one "
        "on arm64, and grow with the functions on riscv64.",
        limits="Steps of the lab's plans in the latest release, no times. The lab attaches to 1,000 functions; what is computed "
        "for 40,000 follows from up to 500 and agrees with 1,000. kprobe: by a breakpoint; on x86-64's patch sites it "
        "goes through ftrace. Waits: text_poke_sync, ftrace_sync_ipi, kick_all_cpus_sync, stop_machine, flush_icache_all; "
        "arm64's own IC IVAU is none. text: stores to executable memory. entries: of hashes, written in all. MiB: structs "
        "of Debian's 7.2, without hash buckets, the code of programs and trampolines, and what the allocator adds.",
    ),
)
