"""Booting an image for what is asked of it: probes measured, or a trial carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import TramplabError
from ..vmlinux.run.machine import RealMachine
from . import counted, module, plan, qemu, trials
from .counted import Booted
from .probes import Probe
from .trials import Trial

PANIC = "Kernel panic"
#: What QEMU boots nothing from.
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class How:
    """image: the file that QEMU boots. append: words more for the kernel. seconds: after which a boot is given up. modules: kernel
    modules of others, by name, which are loaded first."""

    image: Path
    append: str = ""
    seconds: float = qemu.SECONDS
    modules: Mapping[str, bytes] | None = None


def measured(machine: RealMachine, how: How, probes: Sequence[Probe]) -> Iterator[Booted]:
    """The boot whenever it has come a step further. Raises TramplabError for a boot that does not come to its end, when what came
    before has been given."""
    module_ = module.made(machine.opened)
    lines = _lines(machine, how, plan.plan(machine, probes, tuple(how.modules or ())), module_)
    return counted.read(machine.isa, lines, module.handlers(machine.isa, module_))


def tried(machine: RealMachine, how: How, trial: Trial) -> list[tuple[str, Any]]:
    """What a trial reads, each with its label; a panic is the last. Raises TramplabError for a boot that ends otherwise."""
    readings: list[tuple[str, Any]] = []
    text = trials.steps(machine, trial, tuple(how.modules or ()))
    try:
        for reading in trials.read(machine.isa, _lines(machine, how, text, module.made(machine.opened))):
            readings.append(reading)
    except TramplabError:
        if not (readings and str(readings[-1][1]).startswith(PANIC)):
            raise
    return readings


def _lines(machine: RealMachine, how: How, text: str, module_: bytes) -> Iterator[str]:
    with how.image.open("rb") as f:
        if f.read(len(_ELF)) == _ELF:
            raise TramplabError(f"{how.image} is an ELF file, which QEMU does not boot: give the bzImage or Image of its build.")
    files = {"plan": text.encode(), plan.MODULE: module_, **(how.modules or {})}
    return qemu.lines(machine.isa, how.image, files, how.append, how.seconds)
