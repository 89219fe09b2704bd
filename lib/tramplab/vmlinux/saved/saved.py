"""The published results: data/kernels/NAME.json for each listed image, made from the image, read by studies and tests.

`python -m tramplab.vmlinux recount` makes them again.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ...base import documents
from ...base.entries import Entry, IsaName, Natural, Release, Sha256, checked
from ...base.errors import TramplabError
from ...base.paths import temporary
from ...ftrace import releases
from .. import hooks
from ..booted.mitigations import NONE
from ..debian.fetch import content
from ..debian.list import FILE, Package, packages
from ..results.result import machine_of, mitigated, result
from ..run import measure
from ..run.machine import FUNCTION

#: The status of a hook that a result says nothing of, because there was none when the image was counted.
UNCOUNTED = "uncounted"
_MISSED = ("own", "outer")

_Span = tuple[Annotated[str, Meta(pattern="^0x[0-9a-f]+$")], Annotated[str, Meta(pattern="^0x[0-9a-f]+$")]]


class _Package(Entry, frozen=True):
    name: str
    package: str
    version: str
    suite: str
    architecture: str
    flavour: str


class _Places(Entry, frozen=True):
    text: _Span
    image: _Span = ("0x0", "0x0")
    ftrace_caller: _Span = ("0x0", "0x0")


class _Kernel(Entry, frozen=True):
    version: str
    release: Release
    isa: IsaName
    container: str
    sha256: Sha256
    symbols_from: str
    types_from: str
    found: tuple[str, ...]
    places: _Places
    config: dict[str, bool]
    site: str
    booted: tuple[str, ...]
    mitigations: str
    faked: tuple[str, ...]


class _Counts(Entry, frozen=True):
    instructions: Natural
    loads: Natural
    stores: Natural
    load_bytes: Natural
    store_bytes: Natural
    branches_taken: Natural


class _Hook(Entry, frozen=True):
    """A hook's row: a reason, or what was measured."""

    hook: str
    status: Literal["measured", "absent", "failed"]
    reason: str = ""
    notes: str = ""
    components: dict[str, _Counts] = field(default_factory=dict)
    frame_bytes: int = 0
    frame_bytes_written: int = 0
    stack_bytes: Annotated[int, Meta(ge=0, le=16384)] = 0
    return_mispredicts: Annotated[dict[Literal["own", "outer"], int], Meta(min_length=2)] = field(default_factory=dict)
    symbols: dict[str, tuple[int, int, int]] = field(default_factory=dict)


class _File(Entry, frozen=True):
    """A result, see results.result and run.measure.row()."""

    package: _Package
    kernel: _Kernel
    function: str
    hooks: Annotated[tuple[_Hook, ...], Meta(min_length=1)]
    mitigated: dict[str, dict[Literal["retpolines", "safe-returns", "srso"], tuple[Natural, Natural, Natural]]] = field(
        default_factory=dict
    )


@functools.cache
def every() -> tuple[dict[str, Any], ...]:
    """All saved results, in the order of the list of packages; raises TramplabError for one that is missing or says
    something else than it may."""
    return tuple(read(p) for p in packages())


def plain() -> list[dict[str, Any]]:
    """The results of plain kernels, not of a flavour."""
    return [one for one in every() if not one["package"]["flavour"]]


def comparable() -> list[dict[str, Any]]:
    """The results of plain kernels whose release the studies show."""
    return [one for one in plain() if one["kernel"]["release"] in releases.shown()]


def newest() -> dict[str, dict[str, Any]]:
    """ISA -> its plain kernel of the newest release of which every ISA has one."""
    by_isa: dict[str, dict[str, dict[str, Any]]] = {}
    for one in plain():
        by_isa.setdefault(one["kernel"]["isa"], {})[one["kernel"]["release"]] = one
    release = max(set.intersection(*map(set, by_isa.values())), key=releases.parse)
    return {isa: of[release] for isa, of in by_isa.items()}


def nearest(isa: str, release: str) -> dict[str, Any]:
    """The plain kernel of an ISA and a release, or the newest of those before it, or the first."""

    def version(one: dict[str, Any]) -> tuple[int, int]:
        return releases.parse(one["kernel"]["release"])

    every = [one for one in plain() if one["kernel"]["isa"] == isa]
    before = [one for one in every if version(one) <= releases.parse(release)]
    return max(before, key=version) if before else min(every, key=version)


def read(package: Package) -> dict[str, Any]:
    """The saved result of an image; raises TramplabError where it is not as it may be, or of another image."""
    name = f"kernels/{package.name}.json"
    result: dict[str, Any] = documents.read(name)
    checked(name, result, _File)
    image = {n: getattr(package, n) for n in ("sha256", "isa", "release")}
    if result["package"] != _about(package) or not result["kernel"].items() >= image.items():
        raise TramplabError(f"{name} is of another image than {FILE} lists: run `make kernels`.")
    return result


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each hook there is, in their order; that of a hook which a saved result has not yet has the status UNCOUNTED."""
    uncounted = {"status": UNCOUNTED, "reason": "not counted yet, `make kernels` counts it"}
    by_hook = {row["hook"]: row for row in found["hooks"]}
    return [by_hook.get(name, {"hook": name, **uncounted}) for name in hooks.HOOKS]


def added(isa: str, release: str, hook: str) -> int | None:
    """Instructions that a hook adds to a call in Debian's plain kernel of a release: site, trampoline and C code, without its
    callbacks; None where none was counted."""
    for one in plain():
        if (one["kernel"]["isa"], one["kernel"]["release"]) == (isa, release):
            by = {row["hook"]: row for row in one["hooks"] if row["status"] == "measured"}
            if hook in by:
                return _core(by[hook]) - _core(by["none"])
    return None


def with_mitigations(release: str, hook: str, mitigations: str) -> tuple[int, int, int] | None:
    """The instructions that a hook adds to a call, and the mispredicted returns of the call and of its callers, in x86-64's plain
    kernel of a release, booted with some mitigations or NONE; None where none was counted."""
    for one in plain():
        if (one["kernel"]["isa"], one["kernel"]["release"]) != ("x86_64", release):
            continue
        counted = one["mitigated"]
        if mitigations == NONE:
            measured = {row["hook"]: row for row in one["hooks"] if row["status"] == "measured"}
            counted = {name: {NONE: [_core(row), *map(row["return_mispredicts"].get, _MISSED)]} for name, row in measured.items()}
        if hook in counted:
            instructions, own, outer = counted[hook][mitigations]
            return instructions - counted["none"][mitigations][0], own, outer
    return None


def _core(row: dict[str, Any]) -> int:
    return sum(row["components"][c]["instructions"] for c in ("site", "trampoline", "core"))


def make(package: Package) -> dict[str, Any]:
    """Measure an image that has been fetched; raises TramplabError if it has not."""
    with temporary("tramplab-kernel-") as folder:
        path = folder / Path(package.path).name
        path.write_bytes(content(package))
        machine = machine_of(path)
        found = result(machine, FUNCTION, measure.every(machine))
        if machine.isa.name == "x86_64":
            found["mitigated"] = mitigated(machine.opened, FUNCTION)
    return {"package": _about(package), **found}


def _about(package: Package) -> dict[str, str]:
    """What a result says of the package that its image is in."""
    return {name: getattr(package, name) for name in _Package.__struct_fields__}


def text(found: dict[str, Any]) -> str:
    """A result as its file has it: a line for each fact and each hook."""
    parts = []
    for key, value in found.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        elif isinstance(value, list):
            parts.append(f" {json.dumps(key)}: [\n" + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def measured(package: Package) -> str:
    """The text of an image's file, from a new count."""
    return text(make(package))
