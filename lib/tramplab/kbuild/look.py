"""What is looked at in a kernel that was built: its text, hooks in the image, patching explored, probes and trials booted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..base.errors import TramplabError
from ..boot import run, show
from ..boot.counted import whole
from ..boot.probes import PROBES
from ..boot.readings import Executed, Reading
from ..boot.trials import TRIALS
from ..build.symbols import FUNCTION, symbols
from ..races.explore import explore
from ..vmlinux.open.image import open_image
from ..vmlinux.results.result import result
from ..vmlinux.run import measure
from ..vmlinux.run.machine import RealMachine
from ..vmlinux.run.races import subjects
from .build import Built

#: Says which part of which kernel is looked at now.
Told = Callable[[str], None]
_POINTER = 8


def looked(kernel: Built, boot: bool = True, told: Told = lambda _: None) -> dict[str, Any]:
    """What a kernel shows, as plain data: "text" in bytes, "sites", the "result" of its image as `tramplab kernel` has it, and by
    name what is "explored", the "probes" and the "trials" of boots; what could not be looked at is "unseen". boot: is it booted?"""
    opened = open_image(kernel.image)
    machine = RealMachine(opened)
    told("its hooks")
    out: dict[str, Any] = {
        "text": _text(kernel),
        "sites": (opened.address("__stop_mcount_loc") - opened.address("__start_mcount_loc")) // _POINTER,
        "result": result(machine, machine.usual, measure.every(machine, machine.usual)),
    }
    told("its patch sites")
    try:
        out["explored"] = {scheme.name: explore(of, fetch=scheme.fetch).outcome for scheme, of in subjects(opened, None)}
    except TramplabError as e:
        out["unseen"] = [f"patching: {str(e).removeprefix(f'{kernel.image} ').rstrip('.')}"]
    if boot:
        out["probes"] = _probes(machine, run.How(kernel.image), told)
        out["trials"] = _trials(machine, run.How(kernel.image), told)
    return out


def _text(kernel: Built) -> int:
    """The bytes of all functions; sections are aligned."""
    with kernel.vmlinux.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return sum(symbol.size for symbol in symbols(table) if symbol.kind == FUNCTION)


def _probes(machine: RealMachine, how: run.How, told: Told) -> dict[str, Any]:
    """Probe -> the instructions that it adds to a call, or why it does not."""
    told("a boot with every probe")
    *_, booted = run.measured(machine, how, list(PROBES.values()))
    rows = show.data(booted)["probes"]
    return {row["probe"]: row.get("added", row.get("refused", row.get("absent"))) for row in rows}


def _trials(machine: RealMachine, how: run.How, told: Told) -> dict[str, list[float | str]]:
    """Trial and label -> what was read. Instructions are those beyond a call without hooks, where the trial reads one."""
    out: dict[str, list[float | str]] = {}
    for trial in TRIALS.values():
        told(f"a boot for {trial.name}")
        try:
            read = run.tried(machine, how, trial)
        except TramplabError as e:
            out[trial.name] = [str(e).replace(str(how.image), "the kernel")]
            continue
        idle = next((one for label, one in read if label == "none" and isinstance(one, Executed)), None)
        for label, one in read:
            out.setdefault(f"{trial.name}, {label}", []).append(_said(one, idle))
    return out


def _said(one: Reading, idle: Executed | None) -> float | str:
    return whole(one.instructions - idle.instructions) if idle and isinstance(one, Executed) else str(one)
