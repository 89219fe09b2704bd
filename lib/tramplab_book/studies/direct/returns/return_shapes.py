"""Two ways to see a function return with its arguments: a node of a pool and a hijacked return address, or a frame and a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate.returnstack import CALLERS, replay
from tramplab.ftrace.ops import Registered, Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines import pool_layout
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.fprobe import Fprobe

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ..fprobe.stages import BUILDS
from ..guards.state import field_at

NAME = "return_shapes"
TITLE = "Where the arguments wait for a function to return"
FUNCTION, ARGUMENTS = "two_args", (0x5EED_0000_0001, 0x5EED_0000_0002)
#: Way -> how return hooks keep their nodes; None for a BPF trampoline that calls the function.
WAYS: dict[str, str | None] = {"direct": None, "fprobe, list": "freelist", "fprobe, rings": "objpool", "fprobe, stack": "shadow"}
STACK, TASK, POOL, REST = "stack", "task", "pool", "all else"
_POOLED = (f"'s {pool_layout.NODES}", f"'s {pool_layout.RING}")
PLACES = (STACK, TASK, POOL, REST)
UNITS = {"bytes": "B"}


@dataclass(frozen=True)
class Seen:
    """What was found when the function's body began: in which places the arguments were, and whether its return address leads to a
    return trampoline or behind a call."""

    places: tuple[str, ...]
    hijacked: bool


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way and place in memory; one program at the function's entry and one at its return.

    Columns: isa, way (a name of WAYS), hypothetical, place (a name of PLACES), loads, stores, bytes (loaded and stored) in the
    call over the unhooked one; and of the whole call in each of its rows: kept (the places that held all arguments while the
    function ran), hijacked (its return address led to a return trampoline), own and outer (mispredicted returns in the call, and
    of 8 callers above it).
    """
    records = []
    for isa in ISAS:
        build = BUILDS[isa][(False, False)]
        for way, pool in WAYS.items():
            overrides = dict(build.overrides) | ({"rethook": pool} if pool else {})
            kernel = Kernel(isa, build.release, meter=RECORD, **overrides)
            request: Request = Fprobe(bpf=True, exit=True, save="args") if pool else Bpf(fentry=1, fexit=1)
            head = {"isa": isa, "way": way, "hypothetical": pool is not None}
            records += [{**head, **row} for row in _measured(kernel, request)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _measured(kernel: Kernel, request: Request) -> Iterator[dict[str, object]]:
    function = kernel.function(FUNCTION)
    idle = _traffic(kernel, kernel.call(function, *ARGUMENTS), {})
    with kernel.attached(function, request) as (ops,):
        run = kernel.call(function, *ARGUMENTS)
        traffic = _traffic(kernel, run, ops.structs)
        seen, returns = look(kernel, ops), replay(run)
    for place in PLACES:
        (loads, stores, size), (l0, s0, b0) = traffic[place], idle[place]
        yield {
            "place": place,
            "loads": loads - l0,
            "stores": stores - s0,
            "bytes": size - b0,
            "kept": ", ".join(seen.places),
            "hijacked": seen.hijacked,
            "own": returns.own,
            "outer": returns.outer,
        }


def _place(kernel: Kernel, address: int, structs: Mapping[int, str]) -> str:
    """The place in which an address lies. structs: those that belong to the hook."""
    stack = kernel.machine.stack
    if stack.address <= address < stack.address + stack.size:
        return STACK
    if (field_at(kernel, address) or ("",))[0] == "task":
        return TASK
    owner = max((at for at in structs if at <= address), default=None)
    inside = owner is not None and address < owner + kernel.heap.taken(owner)
    return POOL if inside and owner is not None and structs[owner].endswith(_POOLED) else REST


def _traffic(kernel: Kernel, run: Run, structs: Mapping[int, str]) -> dict[str, list[int]]:
    """Place -> loads, stores and bytes of both."""
    found = {place: [0, 0, 0] for place in PLACES}
    call = run.recording
    for address, size, is_store in zip(call.address.tolist(), call.size.tolist(), call.is_store.tolist(), strict=True):
        counts = found[_place(kernel, address, structs)]
        counts[is_store] += 1
        counts[2] += size
    return found


def look(kernel: Kernel, ops: Registered) -> Seen:
    """Make a call, and look for its arguments where the function's body begins."""
    m, isa, function = kernel.machine, kernel.isa, kernel.function(FUNCTION)
    found: list[Seen] = []

    def begin() -> None:
        sp = m.register(isa.sp)
        back = m.register(isa.link) if isa.link else m.read_u64(sp)
        spans = {STACK: [(sp, m.stack_top - sp)], TASK: [(kernel.cpus[0].task, kernel.image.struct("task_struct").size)], POOL: []}
        spans[POOL] += [(at, kernel.heap.taken(at)) for at, name in ops.structs.items() if name.endswith(_POOLED)]
        places = tuple(place for place, some in spans.items() if any(_holds(m.read(*span)) for span in some))
        found.append(Seen(places, (kernel.image.where(back) or "").partition("+")[0] == "arch_rethook_trampoline"))

    m.watch(function.site.body, begin)
    kernel.call(function, *ARGUMENTS)
    return found[0]


def _holds(memory: bytes) -> bool:
    """Are all arguments in it?"""
    return all(argument.to_bytes(8, "little") in memory for argument in ARGUMENTS)


# --- What is shown


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and way: what its calls are told by, and all loads, stores and bytes."""
    keys = ["isa", "way", "hypothetical", "kept", "hijacked", "own", "outer"]
    return frame.groupby(keys, sort=False)[["loads", "stores", "bytes"]].sum().reset_index()


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    out = frame.assign(way=[marked(w, h) for w, h in zip(frame["way"], frame["hypothetical"], strict=True)])
    out.attrs["units"] = UNITS
    return out[out["bytes"] > 0]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way."""
    data = whole(frame)
    printed = data[["isa"]].assign(way=[marked(w, h) for w, h in zip(data["way"], data["hypothetical"], strict=True)])
    printed["arguments"] = data["kept"]
    printed["returns"] = ["hijacked" if h else "called" for h in data["hijacked"]]
    printed["missed"] = _missed(data)
    printed[["loads", "stores"]] = data[["loads", "stores"]]
    printed.attrs["right"] = ["missed", "loads", "stores"]
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: bytes and stores by place."""
    both = frame["bytes"].astype(str) + "/" + frame["stores"].astype(str)
    wide = frame.assign(both=both).pivot(index=["isa", "way", "own", "outer"], columns="place", values="both")
    order = pd.MultiIndex.from_frame(frame[["isa", "way", "own", "outer"]].drop_duplicates())
    return wide.reindex(index=order, columns=list(PLACES)).rename(columns={REST: "rest"}).reset_index().rename_axis(columns=None)


def _missed(known: pd.DataFrame) -> list[str]:
    """Mispredicted returns in each call, and above it."""
    return [f"{r.own}+{r.outer}" for r in known.itertuples()]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-direct-bytes", "-kept" (where the arguments are while the function runs) and "-returns"
    ("called" or "hijacked"), and the same of "-fprobe-list" and so on."""
    values: dict[str, object] = {}
    for r in whole(frame).itertuples():
        key = f"{r.isa}-{r.way.replace(', ', '-')}"
        values |= {f"{key}-bytes": int(r.bytes), f"{key}-kept": r.kept, f"{key}-returns": "hijacked" if r.hijacked else "called"}
    return values


FIGURES = (
    Figure(
        "fig-return-shapes",
        "Where does a hook keep what it needs until the function returns?",
        chart=lambda frame: stacked_bars("bytes", bars=("way",), stack="place")(_drawn(frame)),
        table=table,
        alt="A panel per ISA with a bar per way: the bytes that a call loads and stores more than the unhooked one, with a BPF "
        "program at the function's entry and one at its return, split into stack, task, pool and the rest. The table says where "
        "the arguments are while the function runs, how it returns, and which returns are mispredicted.",
        limits="Emulated accesses of one call; no timing.",
        legend=f"missed: mispredicted returns in the call + of the {CALLERS} callers above it.",
        hypothetical=True,
    ),
)
