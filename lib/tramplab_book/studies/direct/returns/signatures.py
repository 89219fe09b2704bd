"""What a trampoline that is called directly finds where it begins, what an ftrace callback finds, and what an adapter costs."""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.counting.counts import Counts
from tramplab.emulate.machine import RECORD
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import FUNCTIONS
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.fprobe import Fprobe
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import lines
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ..fprobe.stages import BUILDS

NAME = "signatures"
TITLE = "A direct call's arguments and a callback's, and what lies between"
DIRECT, CALLBACK = "direct call", "callback"
#: What a register holds where either begins, if it is one of the function's.
ARGUMENT = "argument"
#: What an ftrace callback is given, in the order of its own arguments.
OF_CALLBACK = ("ip", "parent ip", "ops", "ftrace_regs")
WORD = 0x5EED_A000_0000
FRAME, COPY = "frame from registers", "array from ftrace_regs"
UNITS = {"instructions": "insns"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, entry (DIRECT or CALLBACK) and register that a function takes an argument in, in the newest release.

    Columns: isa, entry, register, number (of the argument), holds (the argument's number if it is there, as "argument 0"; what a
    callback is given, by name; "" for anything else), slot (byte of the ftrace_regs that the callback is given where the argument
    is; missing for a direct call, or if it is not there).
    """
    return pd.DataFrame([row for isa in ISAS for row in (*_direct(isa), *_callback(isa))])


def _entered(kernel: Kernel, address: int, function: str, given: str = "") -> tuple[dict[str, int], bytes]:
    """All registers where an address is first reached in a call with arguments that are known, and an ftrace_regs at the address in
    the register `given`, if there is to be one."""
    found: list[tuple[dict[str, int], bytes]] = []
    m, size = kernel.machine, kernel.image.struct("ftrace_regs").size

    def begin() -> None:
        registers = m.registers()
        found.append((registers, m.read(registers[given], size) if given else b""))

    m.watch(address, begin)
    kernel.call(function, *(WORD + n for n in range(len(kernel.isa.args))))
    return found[0]


def _function(kernel: Kernel) -> str:
    """A function that takes an argument in every register that can hold one."""
    return FUNCTIONS[len(kernel.isa.args)]


def _direct(isa: str) -> list[dict[str, object]]:
    kernel = Kernel(isa)
    function = _function(kernel)
    with kernel.attached(kernel.function(function), Direct()) as (ops,):
        registers, _ = _entered(kernel, ops.direct, function)
    return [
        {"isa": isa, "entry": DIRECT, "register": r, "number": n, "holds": _argument(registers[r]), "slot": None}
        for n, r in enumerate(kernel.isa.args)
    ]


def _callback(isa: str) -> list[dict[str, object]]:
    kernel = Kernel(isa)
    function = _function(kernel)
    with kernel.attached(kernel.function(function), Ops()) as (ops,):
        last = kernel.isa.args[len(OF_CALLBACK) - 1]
        registers, memory = _entered(kernel, ops.func, function, last)
        given = (kernel.function(function).site.ip, kernel.machine.return_to, ops.address, registers[last])
        known = dict(zip(given, OF_CALLBACK, strict=True))
    items = []
    for n, r in enumerate(kernel.isa.args):
        at = memory.find((WORD + n).to_bytes(8, "little"))
        holds = _argument(registers[r]) or known.get(registers[r], "")
        items.append({"isa": isa, "entry": CALLBACK, "register": r, "number": n, "holds": holds, "slot": at if at >= 0 else None})
    return items


def _argument(value: int) -> str:
    """The words for the call's argument that a value is; "" for none."""
    return f"{ARGUMENT} {value - WORD}" if 0 <= value - WORD < len(FUNCTIONS) else ""


# --- The adapter


@once
def adapters() -> pd.DataFrame:
    """One row per ISA, number of arguments and way to the array that a BPF program is given: a trampoline that is called directly
    stores registers (FRAME), or a callback copies from ftrace_regs (COPY, behind a trampoline that has stored all of them).

    Columns: isa, arguments, way, hypothetical (no kernel runs BPF's fentry by a callback), instructions, loads, stores: over the
    same for a function without arguments.
    """
    items = []
    for isa in ISAS:
        build = BUILDS[isa][(False, False)]
        most = len(ISAS[isa].args)
        for way, part in ((FRAME, "bpf_trampoline"), (COPY, "bpf_fprobe_entry")):
            overrides = dict(build.overrides) | ({"rethook": "freelist"} if way == COPY else {})
            kernel = Kernel(isa, build.release, meter=RECORD, **overrides)
            counts = []
            for n in range(most + 1):
                request = Bpf(fentry=1) if way == FRAME else Fprobe(bpf=True, save="args")
                with kernel.attached(kernel.function(FUNCTIONS[n]), request):
                    by = kernel.call(FUNCTIONS[n], *range(1, n + 1)).counts.by_symbol
                counts.append(sum((c for name, c in by.items() if name.startswith(part)), start=Counts()))
            for n, c in enumerate(counts):
                more = c - counts[0]
                head = {"isa": isa, "arguments": n, "way": way, "hypothetical": way == COPY}
                items.append({**head, "instructions": more.instructions, "loads": more.loads, "stores": more.stores})
    frame = pd.DataFrame(items)
    frame.attrs["units"] = UNITS
    return frame


# --- What is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and register: what it holds at both entries, and where the callback finds the argument instead."""
    wide = frame.pivot(index=["isa", "register"], columns="entry", values="holds")
    slots = frame[frame["entry"] == CALLBACK].set_index(["isa", "register"])["slot"]
    order = pd.MultiIndex.from_frame(frame[["isa", "register"]].drop_duplicates())
    printed = wide.reindex(order)[[DIRECT, CALLBACK]].replace("", "-")
    printed["in memory"] = [f"ftrace_regs + {int(slots[key])}" if pd.notna(slots[key]) else "-" for key in order]
    return printed.reset_index().rename_axis(columns=None)


def _most(frame: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Way -> ISA -> instructions for as many arguments as there are registers."""
    last = frame[frame["arguments"] == frame.groupby("isa")["arguments"].transform("max")]
    return {way: dict(zip(part["isa"], part["instructions"], strict=True)) for way, part in last.groupby("way", sort=False)}


def _adapter_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way; instructions for each number of arguments."""
    named = frame.assign(way=[marked(w, h) for w, h in zip(frame["way"], frame["hypothetical"], strict=True)])
    wide = named.pivot(index=["isa", "way"], columns="arguments", values="instructions")
    order = pd.MultiIndex.from_frame(named[["isa", "way"]].drop_duplicates())
    wide = wide.reindex(order).astype("Int64").astype("string").fillna("-")
    wide.columns = [str(n) for n in wide.columns]
    out = wide.reset_index()
    out.attrs["right"] = list(wide.columns)
    return out


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    out = frame.assign(way=[marked(w, h) for w, h in zip(frame["way"], frame["hypothetical"], strict=True)])
    out.attrs["units"] = UNITS
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-copy-added" and "arm64-frame-added", instructions for all argument registers; how many of these
    there are, "arm64-registers", in how many a direct call finds the argument, "arm64-direct-there", and how many of the first hold
    what a callback is given instead, "arm64-callback-given"."""
    cost = _most(adapters())
    values: dict[str, object] = {
        f"{isa}-{key}-added": n for way, key in ((COPY, "copy"), (FRAME, "frame")) for isa, n in cost[way].items()
    }
    for isa, part in frame.groupby("isa", sort=False):
        holds = {str(entry): list(rows["holds"]) for entry, rows in part.groupby("entry")}
        values[f"{isa}-registers"] = len(holds[DIRECT])
        values[f"{isa}-direct-there"] = sum(held == f"{ARGUMENT} {n}" for n, held in enumerate(holds[DIRECT]))
        values[f"{isa}-callback-given"] = sum(held == given for held, given in zip(holds[CALLBACK], OF_CALLBACK, strict=False))
    return values


FIGURES = (
    Figure(
        "fig-argument-adapters",
        "What does it cost to hand a function's arguments to a BPF program?",
        chart=lambda frame: lines("instructions", "arguments", series="way")(_drawn(adapters())),
        table=lambda frame: _adapter_table(adapters()),
        alt="A panel per ISA, arguments against instructions over a function without arguments: a line for a trampoline that is "
        "called directly and stores registers, and one for a callback that copies from ftrace_regs.",
        limits="Emulated counts, over the same hook on a function without arguments; no timing. What the trampoline before the "
        "callback stores is the same for every function, and left out.",
        hypothetical=True,
    ),
)
