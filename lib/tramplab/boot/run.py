"""Booting an image for what is asked of it: probes measured, or a trial carried out."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import TramplabError
from ..vmlinux.open.unpacking.payload import bootable
from ..vmlinux.run.machine import RealMachine
from . import counted, module, plan, qemu, readings
from .counted import Booted, Row
from .probes import Probe
from .readings import Panic, Reading
from .trial import Trial


@dataclass(frozen=True)
class How:
    """How an image is booted.

    image: the file that QEMU boots.
    append: further words for the kernel's command line.
    seconds: after these a boot is given up.
    modules: kernel modules of others, by name, which are loaded first.
    """

    image: Path
    append: str = ""
    seconds: float = qemu.SECONDS
    modules: Mapping[str, bytes] | None = None


def measured(machine: RealMachine, how: How, probes: Sequence[Probe]) -> Iterator[Booted]:
    """The boot whenever it has come a step further: after each probe, and at the end. Raises TramplabError for a boot that does not
    come to its end, and one that loads no module, when what came before has been given."""
    rows = [Row(probe, absent=plan.absent(machine, probe)) for probe in probes]
    there = [row.probe for row in rows if not row.absent]
    module_ = module.made(machine.opened)
    booted = None
    with closing(_lines(machine, how, plan.plan(machine, there, tuple(how.modules or ())), module_)) as lines:
        for booted in counted.read(machine.isa, lines, module.handlers(machine.isa, module_), rows):
            yield booted
    if booted is not None and booted.refused:
        error, step = booted.refused[0]
        words = f" It says: {' / '.join(map(qemu.quotable, booted.words))}" if booted.words else ""
        raise TramplabError(f"{how.image} refuses {step.removeprefix('module ')} ({error}), so not all of this is measured.{words}")


def tried(machine: RealMachine, how: How, trial: Trial) -> list[tuple[str, Reading]]:
    """(label, reading) of all that a trial reads; a panic is the last. Raises TramplabError for a boot that ends otherwise."""
    read: list[tuple[str, Reading]] = []
    text = trial.text(machine, tuple(how.modules or ()))
    with closing(_lines(machine, how, text, module.made(machine.opened))) as lines:
        try:
            for reading in readings.read(machine.isa, lines, trial):
                read.append(reading)
        except TramplabError:
            if not (read and isinstance(read[-1][1], Panic)):
                raise
    return read


def _lines(machine: RealMachine, how: How, text: str, module_: bytes) -> Generator[str]:
    files = {"plan": text.encode(), plan.MODULE: module_, **(how.modules or {})}
    append = f"{module.words(machine.opened)} {how.append}"
    return qemu.lines(machine.isa, str(how.image), bootable(how.image), files, append, how.seconds)
