"""The published results of booted kernels: data/booted/NAME.json for each plain kernel, made from its image under QEMU, read by
studies and tests. `python -m tramplab.boot` makes them again."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
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
from . import plan, qemu, readings, run, show
from .probes import PROBES, Probe
from .readings import Number, Reading
from .trial import Trial
from .trials import TRIALS


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


Kind = Literal["module", "programs", "event", "records"]


class _Probe(Entry, frozen=True):
    """A probe's row: the error and the step that the kernel refused, or what it adds to a call, and who counted how often.
    reversed: what it adds when the probes are measured in the reverse order, where that is another number."""

    probe: str
    refused: str = ""
    step: str = ""
    added: Number = 0
    reversed: Number | None = None
    alike: Annotated[int, Meta(ge=0, le=plan.BLOCKS)] = 0
    handlers: Natural | None = None
    hits: dict[Kind, Number] = field(default_factory=dict)
    expected: dict[Kind, Natural] = field(default_factory=dict)


class _Trial(Entry, frozen=True):
    trial: str
    label: str
    read: Annotated[tuple[Reading, ...], Meta(min_length=1)]


class _File(Entry, frozen=True):
    """The content of an image's file.

    before, after: instructions of each system call without a probe.
    image: hook -> instructions of site, trampoline and C code that it adds where the lab's machine calls the same function.
    """

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
    _readings_checked(name, found["trials"], TRIALS)
    return found


def _readings_checked(name: str, found: list[dict[str, Any]], of: Iterable[str]) -> None:
    """Raises TramplabError where trials of these names have other labels than they read, or readings of another kind."""
    kinds = {(trial, label): kind for trial in of for label, kind in readings.kinds(TRIALS[trial]).items()}
    if [(row["trial"], row["label"]) for row in found] != list(kinds):
        raise TramplabError(f"{name} has other readings of trials than there are: run `make booted`.")
    for row in found:
        for reading in _converted(row):
            if not isinstance(reading, kinds[row["trial"], row["label"]]):
                raise TramplabError(
                    f"{name}: {row['trial']} reads nothing like {str(reading)!r} under {row['label']}: run `make booted`."
                )


class _Built(Entry, frozen=True):
    """A kernel that is there for a trial: its package and version, or those of its source, with the fix or without, and what the
    trial read."""

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
    return _of_one_trial("booted/guard-fix.json", "guard-lost")


@functools.cache
def list_not_ended() -> tuple[dict[str, Any], ...]:
    """Debian's kernels from before a fix of fprobes, with what `tramplab boot IMAGE --trial list-not-ended` read there; raises
    TramplabError where the file says something else than it may."""
    return _of_one_trial("booted/list-not-ended.json", "list-not-ended")


@functools.cache
def segment_fix() -> tuple[dict[str, Any], ...]:
    """Kernels of one source and configuration for x86-64, built without a code segment at the return and with one, each with what
    `tramplab boot IMAGE --trial old-segment` read there; raises TramplabError where the file says something else than it may."""
    return _of_one_trial("booted/segment-fix.json", "old-segment")


def _of_one_trial(name: str, trial: str) -> tuple[dict[str, Any], ...]:
    found = documents.read(name)
    checked(name, found, _BuiltFile)
    for kernel in found["kernels"]:
        _readings_checked(name, kernel["readings"], [trial])
    return tuple({**kernel, "trials": kernel["readings"]} for kernel in found["kernels"])


def row(found: dict[str, Any], probe: str) -> dict[str, Any]:
    """A probe's row of a saved result."""
    return next(r for r in found["probes"] if r["probe"] == probe)


def tried(found: dict[str, Any], trial: str, label: str) -> tuple[Reading, ...]:
    """What a trial read under a label."""
    return next((_converted(t) for t in found["trials"] if (t["trial"], t["label"]) == (trial, label)), ())


def _converted(row: dict[str, Any]) -> tuple[Reading, ...]:
    return msgspec.convert(row["read"], tuple[Reading, ...])


def make(package: Package) -> dict[str, Any]:
    """Boot an image that has been fetched, twice for all probes, the second time in the reverse order, and once for each trial;
    raises TramplabError if it has not, and where the orders differ in more than counts."""
    with _fetched(package) as (machine, how):
        measured, turned = (_measured(machine, how, probes) for probes in (list(PROBES.values()), list(PROBES.values())[::-1]))
        rows = _both(package.name, measured.pop("probes"), turned.pop("probes")[::-1])
        if any(measured[name] != turned[name] for name in turned):
            raise TramplabError(f"{package.name} counts calls without a probe otherwise when it is booted again.")
        tried = [of for trial in TRIALS.values() for of in _labelled(trial.name, run.tried(machine, how, trial))]
        kernel = {"name": package.name, "version": package.version, "release": package.release, "isa": package.isa}
        kernel |= {"sha256": package.sha256, "banner": measured.pop("banner"), "qemu": qemu.version(machine.isa)}
        kernel |= {"options": qemu.options(machine.isa), "command_line": qemu.command_line(machine.isa)}
        return {"kernel": kernel, **measured, "image": _image(machine), "probes": rows, "trials": tried}


def with_trial(package: Package, trial: Trial) -> dict[str, Any]:
    """The saved result of an image, with what a trial reads when the image is booted for it alone; what the file has else is as it
    is. Raises TramplabError as make() does."""
    found: dict[str, Any] = documents.read(f"booted/{package.name}.json")
    with _fetched(package) as (machine, how):
        read = _labelled(trial.name, run.tried(machine, how, trial))
    others = [row for row in found["trials"] if row["trial"] != trial.name]
    return found | {"trials": sorted(others + read, key=lambda row: list(TRIALS).index(row["trial"]))}


@contextmanager
def _fetched(package: Package) -> Iterator[tuple[RealMachine, run.How]]:
    """A fetched image's machine, and how it is booted."""
    with temporary("tramplab-booted-") as folder:
        image = folder / Path(package.path).name
        image.write_bytes(content(package))
        yield machine_of(image), run.How(image)


def _measured(machine: RealMachine, how: run.How, probes: Sequence[Probe]) -> dict[str, Any]:
    *_, booted = run.measured(machine, how, probes)
    return show.data(booted)


def _both(name: str, rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what another order counts, where that differs. Raises TramplabError where anything else does."""
    out = []
    for row, other in zip(rows, others, strict=True):
        if {**row, "added": 0, "alike": 0} != {**other, "added": 0, "alike": 0}:
            raise TramplabError(f"{name}: {row['probe']} is not the same when the probes are measured in the reverse order.")
        turned = {"reversed": other["added"]} if row.get("added") != other.get("added") else {}
        first = [key for key in ("probe", "added") if key in row]
        out.append({key: row[key] for key in first} | turned | row)
    return out


def _labelled(trial: str, said: list[tuple[str, Reading]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for label, what in said:
        if not out or out[-1]["label"] != label:
            out.append({"trial": trial, "label": label, "read": []})
        out[-1]["read"].append(what)
    for row in out:  # behind a step that is refused nothing else is what it says
        row["read"] = msgspec.to_builtins(readings.those(readings.Refused, row["read"])[:1] or row["read"])
    return out


def _image(machine: RealMachine) -> dict[str, int]:
    """What hooks add to a call of the function that is probed, without callbacks, in the machine that the lab has."""
    rows = [measure.row(m) for m in measure.every(machine, plan.FUNCTIONS["getpid"])]
    idle = next(r for r in rows if r["hook"] == "none")
    return {r["hook"]: added(r, idle)["instructions"] for r in rows if r["status"] == measure.MEASURED and r is not idle}


def path(package: Package) -> Path:
    """The file of an image, whether it is there or not."""
    return data_file(LIST).parent.parent / "booted" / f"{package.name}.json"
