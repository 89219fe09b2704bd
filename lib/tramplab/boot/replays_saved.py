"""`python -m tramplab.boot --replay`: races replayed on Debian's kernels, kept in data/booted/replays.json.

Of the plain kernels that have been fetched, each booted once for each replay that fits it; what the file says of others stays.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..base.entries import IsaName, Release
from ..base.errors import TramplabError
from ..base.paths import data_file
from ..vmlinux.debian.fetch import image
from ..vmlinux.debian.list import Package, plain
from ..vmlinux.run.machine import RealMachine
from ..vmlinux.saved import store
from . import qemu, replaying, replays, run
from .replaying import Outcome

FILE = "booted/replays.json"
_AGAIN = "python -m tramplab.boot --replay"


class _Kernel(store.Kernel, frozen=True):
    """A kernel that was booted, on what, and what came of the replays."""

    isa: IsaName
    release: Release
    banner: Annotated[str, Meta(pattern="^Linux version ")]
    qemu: Annotated[str, Meta(pattern="^QEMU emulator version ")]
    options: str
    command_line: str
    replays: Annotated[tuple[Outcome, ...], Meta(min_length=1)]


File = store.File[_Kernel]


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, is of other images than those that are
    listed, or of other replays than there are."""
    found = store.read(data_file(FILE), File, plain(), _AGAIN)
    for kernel in found["kernels"]:
        schemes = {one["scheme"] for one in kernel["replays"]}
        wanted = [(r.scheme, r.order.does) for r in replays.REPLAYS if r.scheme in schemes]
        if [(one["scheme"], one["does"]) for one in kernel["replays"]] != wanted:
            raise TramplabError(f"{FILE}: {kernel['name']} has other replays than there are: run `{_AGAIN}`.")
    return found


def made(package: Package) -> dict[str, Any]:
    """The record of a kernel that has been fetched. Raises TramplabError where it cannot be booted."""
    machine, how = RealMachine(store.opened(package)), run.How(image(package))
    done = [replaying.replayed(machine, how, replay) for replay in replays.fitting(machine)]
    head = {**store.of(package), "isa": package.isa, "release": package.release, "banner": done[0][0]}
    head |= {"qemu": qemu.version(machine.isa), "options": qemu.options(machine.isa, held=True)}
    head |= {"command_line": qemu.command_line(machine.isa)}
    rows = msgspec.to_builtins([msgspec.structs.replace(outcome, turns=None) for _, outcome in done])
    return {**head, "replays": [{key: value for key, value in row.items() if key != "turns"} for row in rows]}


def text(kernels: list[dict[str, Any]]) -> str:
    """The text of the file: a line for each replay."""
    return store.whole(store.lines(kernel, "  ", "replays") for kernel in kernels)


def main() -> int:
    """Write the file again; return the exit status."""
    return store.remake(FILE, File, plain(), made, text, lambda kernel: ", ".join(one["outcome"] for one in kernel["replays"]))
