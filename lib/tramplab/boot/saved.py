"""The published results of booted kernels: data/booted/NAME.json for each plain kernel, made from its image under QEMU, read by
studies and tests. `python -m tramplab.boot` makes them again."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, field

from ..base import documents
from ..base.entries import Entry, IsaName, Natural, Release, Sha256, checked
from ..base.errors import TramplabError
from ..base.paths import data_file, temporary
from ..vmlinux.debian.fetch import content
from ..vmlinux.debian.list import FILE as LIST
from ..vmlinux.debian.list import Package, plain
from ..vmlinux.results.result import added, machine_of
from ..vmlinux.run import measure
from ..vmlinux.run.machine import RealMachine
from . import plan, qemu, run, show
from .probes import PROBES
from .trials import TRIALS

Number = Annotated[float, Meta(ge=0)] | Natural


class _Kernel(Entry, frozen=True):
    """What was booted, and on what."""

    name: str
    version: str
    release: Release
    isa: IsaName
    sha256: Sha256
    banner: Annotated[str, Meta(pattern="^Linux version ")]
    qemu: Annotated[str, Meta(pattern="^QEMU emulator version ")]
    options: str
    command_line: str


class _Probe(Entry, frozen=True):
    """A probe's row: the error and the step that the kernel refused, or what it adds to a call, and who counted how often."""

    probe: str
    refused: str = ""
    step: str = ""
    added: Number = 0
    alike: Annotated[int, Meta(ge=0, le=plan.BLOCKS)] = 0
    handlers: Natural | None = None
    hits: dict[str, Number] = field(default_factory=dict)
    expected: dict[str, Natural] = field(default_factory=dict)


class _Trial(Entry, frozen=True):
    trial: str
    label: str
    read: list[Any]


class _File(Entry, frozen=True):
    """before, after: instructions of each system call without a probe. image: what hooks add to a call of the same function of the
    image, when the lab's machine calls it: hook -> instructions of site, trampoline and C code."""

    kernel: _Kernel
    loop: Annotated[float, Meta(ge=3, le=3)]
    before: dict[str, Number]
    after: dict[str, Number]
    image: dict[str, Natural]
    probes: Annotated[tuple[_Probe, ...], Meta(min_length=1)]
    trials: Annotated[tuple[_Trial, ...], Meta(min_length=1)]


@functools.cache
def every() -> tuple[dict[str, Any], ...]:
    """All saved results, in the order of the list of packages; raises TramplabError for one that is missing or says something else
    than it may."""
    return tuple(read(p) for p in plain())


def read(package: Package) -> dict[str, Any]:
    """The saved result of an image; raises TramplabError where it is not as it may be, or of another image or other probes."""
    name = f"booted/{package.name}.json"
    found: dict[str, Any] = documents.read(name)
    checked(name, found, _File)
    image = {"name": package.name, "sha256": package.sha256, "isa": package.isa, "release": package.release}
    if not found["kernel"].items() >= image.items():
        raise TramplabError(f"{name} is of another image than {LIST} lists: run `make booted`.")
    if [row["probe"] for row in found["probes"]] != list(PROBES):
        raise TramplabError(f"{name} has other probes than there are: run `make booted`.")
    if found["before"] != found["after"]:
        raise TramplabError(f"{name}: a call without a probe executes another number after all of them: run `make booted`.")
    return found


class _Built(Entry, frozen=True):
    """A kernel that was built for a trial: from which source, with the fix or without, and what the trial read."""

    isa: IsaName
    release: Release
    source: str
    fixed: bool
    sha256: Sha256
    readings: Annotated[tuple[_Trial, ...], Meta(min_length=1)]


class _BuiltFile(Entry, frozen=True):
    kernels: Annotated[tuple[_Built, ...], Meta(min_length=2)]


@functools.cache
def guard_fix() -> tuple[dict[str, Any], ...]:
    """Kernels of one source and configuration, built without a fix of the lost guard and with it, each with what `tramplab boot
    IMAGE --trial guard-lost` read there; raises TramplabError where the file says something else than it may."""
    name = "booted/guard-fix.json"
    found = documents.read(name)
    checked(name, found, _BuiltFile)
    return tuple({**kernel, "trials": kernel["readings"]} for kernel in found["kernels"])


def row(found: dict[str, Any], probe: str) -> dict[str, Any]:
    """A probe's row of a saved result."""
    return next(r for r in found["probes"] if r["probe"] == probe)


def readings(found: dict[str, Any], trial: str, label: str) -> list[Any]:
    """What a trial read under a label."""
    return next((t["read"] for t in found["trials"] if (t["trial"], t["label"]) == (trial, label)), [])


def make(package: Package) -> dict[str, Any]:
    """Boot an image that has been fetched, once for all probes and once for each trial; raises TramplabError if it has not."""
    with temporary("tramplab-booted-") as folder:
        image = folder / Path(package.path).name
        image.write_bytes(content(package))
        machine = machine_of(image)
        how = run.How(image)
        *_, booted = run.measured(machine, how, list(PROBES.values()))
        tried = [of for trial in TRIALS.values() for of in _labelled(trial.name, run.tried(machine, how, trial))]
        measured = show.data(booted)
        kernel = {"name": package.name, "version": package.version, "release": package.release, "isa": package.isa}
        kernel |= {"sha256": package.sha256, "banner": measured.pop("banner"), "qemu": qemu.version(machine.isa)}
        kernel |= {"options": qemu.options(machine.isa), "command_line": qemu.command_line(machine.isa)}
        rows = measured.pop("probes")
        return {"kernel": kernel, **measured, "image": _image(machine), "probes": rows, "trials": tried}


def _labelled(trial: str, said: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for label, what in said:
        if not out or out[-1]["label"] != label:
            out.append({"trial": trial, "label": label, "read": []})
        out[-1]["read"].append(what)
    for row in out:  # behind a step that is refused nothing else is what it says
        row["read"] = [what for what in row["read"] if isinstance(what, tuple)][:1] or row["read"]
    return out


def _image(machine: RealMachine) -> dict[str, int]:
    """What hooks add to a call of the function that is probed, without callbacks, in the machine that the lab has."""
    rows = [measure.row(m) for m in measure.every(machine, plan.FUNCTIONS["getpid"])]
    idle = next(r for r in rows if r["hook"] == "none")
    return {r["hook"]: added(r, idle)["instructions"] for r in rows if r["status"] == measure.MEASURED and r is not idle}


def path(package: Package) -> Path:
    """The file of an image, whether it is there or not."""
    return data_file(LIST).parent.parent / "booted" / f"{package.name}.json"
