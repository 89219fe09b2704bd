"""What is left of kprobes without kretprobes: which functions, bytes and fields go, and what remains beside a breakpoint."""

from __future__ import annotations

import functools

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.counting.counters import INSTRUCTION
from tramplab.ftrace.meant import kprobes_break
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.fprobe import Fgraph, Fprobe
from tramplab.trampolines.kprobe import Kprobe, Kretprobe
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import listed
from ...memo import once
from .. import return_left
from ..costs import return_costs
from .migrated import LATEST

NAME = "kprobe_left"
TITLE = "Kprobes without kretprobes: code and fields"
#: Parts of what kprobes and kretprobes execute: what only kretprobes do, and of the rest what comes through ftrace, what any
#: breakpoint takes, what does the instruction in whose place it stands, and the probe itself.
KRETPROBE, FTRACE, EXCEPTION, INSTRUCTION_, PROBE = PARTS = (
    "kretprobe",
    "ftrace entry",
    "exception",
    "its instruction",
    "probe",
)
#: Beginnings of the names of what does the instruction: kernels' words for a step, a copy's end, and emulation.
_STEPS = ("setup_", "post_kprobe_", "kprobe_step_", "arch_simulate_", "kprobe_simulate_")
#: And of what finds the probe, calls its handlers and counts those that were missed.
_PROBES = ("get_kprobe", "kprobe_", "kprobes_", "reenter_kprobe")
#: A function and a field that kretprobes alone use here, by their pool's rings, and many others in a kernel.
_EVERYBODYS = ("_find_next_bit", "cpu")
#: Structs whose fields are watched: what each task and each CPU has.
_WATCHED = ("task_struct", "lab_pcpu")
_CALLED, _INNER = "calls_others", "two_args"
TODAY, LEFT = BARS = "today", "without"
UNITS = {"bytes": "B of code"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and function of the lab's core that kprobes or kretprobes execute and no other hook does, in the newest
    release.

    Columns: isa, function, part (of PARTS), bytes.
    """
    records = [
        {"isa": isa, "function": f, "part": part, "bytes": size} for isa in ISAS for f, (part, size) in functions(isa).items()
    ]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


@once
def fields() -> pd.DataFrame:
    """One row per ISA and field of a task or of a CPU that a kretprobe's call touches and no other call does. Columns: isa, struct,
    field, bytes."""
    items = []
    for isa in ISAS:
        every = calls(isa)
        rest = set().union(*(touched(isa, how) for how in every if how != KRETPROBE))
        for struct, field in sorted(place for place in touched(isa, KRETPROBE) - rest if place[1] not in _EVERYBODYS):
            size = kernel(isa).image.struct(struct).fields[field].size
            items.append({"isa": isa, "struct": struct, "field": field, "bytes": size})
    return pd.DataFrame(items, columns=["isa", "struct", "field", "bytes"])


@functools.cache
def kernel(isa: str) -> Kernel:
    """The kernel in which all calls of an ISA are made."""
    return Kernel(isa, LATEST)


def calls(isa: str) -> dict[str, list[tuple[Request, ...]]]:
    """Kind of probe -> what is attached in each call that is made for it: kretprobes, kprobes by a breakpoint and through ftrace,
    and others."""
    breakpoint = kprobes_break(kernel(isa).features)
    nested = Kprobe(breakpoint=True, handler="lab_kprobe_reenter"), Kprobe(breakpoint=True, filter=(_INNER,))
    kretprobes: list[tuple[Request, ...]] = [(Kretprobe(breakpoint=True, entry=True),)]
    kretprobes += [(Kretprobe(breakpoint=breakpoint, entry=entry, declines=entry),) for entry in (False, True)]
    return {
        KRETPROBE: kretprobes,
        PROBE: [(Kprobe(breakpoint=True),), (Kprobe(breakpoint=True, post=True),), nested],
        FTRACE: [] if breakpoint else [(Kprobe(),), (Kprobe(post=True),)],
        "others": [(), (Ops(),), (Ops(), Ops()), (Fprobe(),), (Fprobe(exit=True),), (Fgraph(),), (Bpf(fentry=1, fexit=1),)],
    }


@functools.cache
def _ran(isa: str, how: str) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Functions executed in the calls of one of calls(), and fields of _WATCHED that they touch."""
    made, symbols, places = kernel(isa), set(), set()
    function, cpu = made.function(_CALLED), made.cpus[0]
    for requests in calls(isa)[how]:
        with made.attached(function, *requests):
            run = made.call(function, 1, 2, 3)
            symbols |= run.symbols & set(made.image.symbols)
            places |= _places(made, dict(zip(_WATCHED, (cpu.task, cpu.pcpu), strict=True)))
    return frozenset(symbols), frozenset(places)


def executed(isa: str, how: str) -> frozenset[str]:
    """The functions that the calls of a kind execute, by the image's names."""
    return _ran(isa, how)[0]


def touched(isa: str, how: str) -> frozenset[tuple[str, str]]:
    """(struct, field) of a task and of a CPU that the calls of a kind read or write."""
    return _ran(isa, how)[1]


def _places(made: Kernel, at: dict[str, int]) -> set[tuple[str, str]]:
    """The fields of structs at these addresses that the last call accessed."""
    found = set()
    accesses = {(address, size) for _, address, _, size, what in made.machine.events().tolist() if what != INSTRUCTION}
    for struct, start in at.items():
        for name, field in made.image.struct(struct).fields.items():
            first, end = start + field.offset, start + field.offset + field.size
            if any(address < end and first < address + size for address, size in accesses):
                found.add((struct, name))
    return found


def functions(isa: str) -> dict[str, tuple[str, int]]:
    """Function -> its part and its bytes; raises TramplabError for one of which nobody has said what part of a kprobe it is."""
    image = kernel(isa).image
    others = executed(isa, "others")
    brk, ftrace, kret = (executed(isa, how) - others for how in (PROBE, FTRACE, KRETPROBE))
    by_name = {}
    for name in sorted(brk | ftrace | kret):
        if _component(kernel(isa), name) not in ("core", "trampoline") or name in _EVERYBODYS:
            continue
        part = KRETPROBE if name not in brk | ftrace else FTRACE if name not in brk else _of_breakpoint(name)
        by_name[name] = part, image.symbol(name).size
    return by_name


def _component(made: Kernel, name: str) -> str:
    at = made.image.address(name)
    return next((component for start, end, component in made.image.code if start <= at < end), "")


def _of_breakpoint(name: str) -> str:
    """What a function does that a kprobe's breakpoint leads to."""
    if name.startswith(return_costs.PARTS["exception"]):
        return EXCEPTION
    if name.startswith(_STEPS):
        return INSTRUCTION_
    if not name.startswith(_PROBES):
        raise TramplabError(f"{name} belongs to no part of a kprobe: name it in {__name__}.")
    return PROBE


# --- What is shown


def _bytes(frame: pd.DataFrame, isa: str, *parts: str) -> int:
    return int(frame["bytes"][(frame["isa"] == isa) & frame["part"].isin(parts)].sum())


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and part: functions, bytes, and whether it goes."""
    printed = frame.groupby(["isa", "part"], sort=False).agg(functions=("function", "size"), bytes=("bytes", "sum")).reset_index()
    order = printed["part"].map(PARTS.index)
    printed = printed.assign(rank=order)
    printed = printed.sort_values(["isa", "rank"], key=lambda c: c.map(list(ISAS).index) if c.name == "isa" else c)
    printed = printed.drop(columns="rank").reset_index(drop=True)
    return printed.assign(goes=["yes" if part == KRETPROBE else "no" for part in printed["part"]])


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA, bar (BARS) and part, with its bytes."""
    parts = table(frame)
    out = pd.concat([parts.assign(bar=TODAY), parts[parts["part"] != KRETPROBE].assign(bar=LEFT)])
    order = out["part"].map(PARTS.index)
    out = out.assign(rank=order).sort_values(["rank"], kind="stable").drop(columns="rank").reset_index(drop=True)
    out.attrs["units"] = UNITS
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: by ISA "x86_64-left-share" of the bytes of code; "-functions" (that go); "-ftrace" (bytes of the entry
    through it); "-instance" (bytes of the struct); "-fields" (of a task or CPU, that go); "-debian-percent", kretprobes' part of
    kprobes' code in the newest of Debian's images that all ISAs have."""
    values: dict[str, object] = {}
    data = fields()
    for isa in dict.fromkeys(frame["isa"]):
        values[f"{isa}-left-share"] = round(1 - _bytes(frame, isa, KRETPROBE) / _bytes(frame, isa, *PARTS), 3)
        values[f"{isa}-functions"] = int(((frame["isa"] == isa) & (frame["part"] == KRETPROBE)).sum())
        values[f"{isa}-ftrace"] = _bytes(frame, isa, FTRACE)
        values[f"{isa}-instance"] = kernel(isa).image.struct("kretprobe_instance").size
        some = data[data["isa"] == isa]
        members = listed(f"{r.struct.replace('lab_pcpu', 'per-CPU')}.{r.field}" for r in some.itertuples())
        values[f"{isa}-fields"] = members or "none"
    found = return_left.shares(return_left.rows())
    percent = found[found["release"] == LATEST].set_index("isa")["percent"]
    return values | {f"{isa}-debian-percent": int(n) for isa, n in percent.items()}


FIGURES = (
    Figure(
        "fig-kprobe-left",
        "What is left of kprobes without kretprobes?",
        chart=lambda frame: stacked_bars("bytes", bars=("bar",), stack="part")(drawn(frame)),
        table=table,
        alt="A panel per ISA with two bars, today and without kretprobes: bytes of code by what they are for.",
        limits=f"Bytes of functions of the lab's guest in {LATEST} that calls with kprobes or kretprobes execute and calls with "
        "other hooks do not; exceptions serve others too. No optimised kprobes.",
    ),
)
