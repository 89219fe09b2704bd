"""The result for one kernel image as plain data, and opening an image for it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..booted.mitigations import NONE, WITH
from ..open.image import Opened, open_image
from ..open.opening import opening
from ..run import measure
from ..run.machine import RealMachine
from ..run.measure import Measured
from . import facts

#: Code that a kernel makes when a hook is attached, and that the lab makes in an image, by its symbol in results: what is its JIT's
#: for BPF, and the place where a probed instruction is stepped.
MADE = {"bpf_trampoline": "lab's trampoline", "kprobe_insn_slot": "lab's slot"}


def made(row: dict[str, Any]) -> str:
    """The part of a measured hook's code that the lab has made, a word of MADE; "" for none."""
    return next((word for symbol, word in MADE.items() if symbol in row["symbols"]), "")


def machine_of(path: Path, mitigations: str = NONE) -> RealMachine:
    """Open an image and boot it as far as calls need; raises TramplabError, one sentence, for what cannot be."""
    with opening(path):
        return RealMachine(open_image(path), mitigations)


def result(machine: RealMachine, function: str, measured: Iterable[Measured]) -> dict[str, Any]:
    """The results of one kernel: its facts, the traced function, what is run of its body where that is not all ("body"), and a row
    for each hook."""
    said = machine.function(function).said
    body = {"body": said} if said else {}
    return {"kernel": facts.of(machine), "function": function, **body, "hooks": [measure.row(m) for m in measured]}


def mitigated(opened: Opened, function: str) -> dict[str, dict[str, list[int]]]:
    """Each hook of an x86-64 kernel, with the mitigations of WITH: instructions of a call, of site, trampoline and C code, and the
    mispredicted returns of the call and of its callers, see estimate.returnstack."""
    found: dict[str, dict[str, list[int]]] = {}
    for mitigations in WITH:
        for row in (measure.row(m) for m in measure.every(RealMachine(opened, mitigations), function)):
            if row["status"] == measure.MEASURED:
                counts = [added(row)["instructions"], *(row["return_mispredicts"][n] for n in ("own", "outer"))]
                found.setdefault(row["hook"], {})[mitigations] = counts
    return found


def added(row: dict[str, Any], idle: dict[str, Any] | None = None) -> dict[str, int]:
    """The counts that a hook can change: those outside the traced function and the callbacks. idle: a row to subtract."""
    names = row["components"]["site"]
    total = {n: sum(row["components"][c][n] for c in ("site", "trampoline", "core")) for n in names}
    return {n: total[n] - added(idle)[n] for n in names} if idle else total
