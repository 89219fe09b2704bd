"""`python -m tramplab.vmlinux walks`: what the unwinders of Debian's kernels say of hooked calls, kept in data/kernel-walks.json.

Of the plain kernels that have been fetched; what the file says of others stays.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from ...base.entries import Entry, Text
from ...base.paths import data_file
from ..debian.list import Package, plain
from ..hooks import HOOKS
from ..hooks.hook import Absent
from ..run.machine import RealMachine
from ..run.walks import Caller
from . import store

FILE = "kernel-walks.json"
#: The hooks; a direct call's own trampoline is BPF's.
WALKED = (
    "none",
    "ops",
    "ops:2",
    "bpf-fentry",
    "bpf-fexit",
    "graph",
    "fprobe",
    "fprobe-exit",
    "kprobe",
    "kretprobe",
    "kprobe-brk",
    "kretprobe-brk",
)
#: Where the walk begins: in the handler at the entry, at the return, or asleep in what the function calls.
ENTRY, RETURN, ASLEEP = PLACES = ("at entry", "at return", "asleep")

_State = Literal["right", "missing", "doubled", "wrong", "returned"]


class _Absent(Entry, frozen=True):
    hook: Text
    reason: Text


class _Walk(Entry, frozen=True):
    """A walks.Walk in the file."""

    hook: Text
    place: Literal["at entry", "at return", "asleep"]
    function: _State
    caller: _State
    outer: _State
    reliable: bool | None
    trace: Annotated[tuple[str, ...], Meta(min_length=1)]


class _Kernel(store.Kernel, frozen=True):
    absent: tuple[_Absent, ...]
    walks: tuple[_Walk, ...]


File = store.File[_Kernel]


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, or is of other images than those that are
    listed."""
    return store.read(data_file(FILE), File, plain())


def made(package: Package) -> dict[str, Any]:
    """The record of a kernel that has been fetched: every hook's walks, and of absent hooks why."""
    caller = Caller(RealMachine(store.opened(package)))
    walked, absent = [], []
    for hook in WALKED:
        try:
            for walk in caller.walks(HOOKS[hook].attach):
                frames = dict(zip(("function", "caller", "outer"), walk.frames, strict=True))
                place = ASLEEP if walk.asleep else RETURN if walk.over else ENTRY
                walked.append({"hook": hook, "place": place, **frames, "reliable": walk.reliable, "trace": list(walk.symbols)})
        except Absent as e:
            absent.append({"hook": hook, "reason": str(e)})
    return {**store.of(package), "absent": absent, "walks": walked}


def text(kernels: list[dict[str, Any]]) -> str:
    """The text of the file: a line for each walk."""
    return store.whole(store.lines(kernel, "  ", "absent", "walks") for kernel in kernels)


def main() -> int:
    """Write the file again; return the exit status."""
    return store.remake(FILE, File, plain(), made, text, lambda kernel: f"{len(kernel['walks'])} walks")
