"""`python -m tramplab.vmlinux frames`: which registers each provider passes on Debian's kernels, kept in data/kernel-frames.json.

Of the plain kernels that have been fetched; what the file says of others stays.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from ...base.entries import Entry, Natural, Text
from ...base.errors import TramplabError
from ...base.paths import data_file
from ...sparsity.structures.classify import UNKNOWN
from ...sparsity.structures.providers import PROVIDERS
from ..debian.list import Package, plain
from ..hooks.hook import Absent
from ..run import frames
from ..run.machine import RealMachine
from . import store

FILE = "kernel-frames.json"

_Provider = Literal[
    "ftrace_caller",
    "ftrace_regs_caller",
    "kprobe_ftrace_handler",
    "breakpoint",
    "arch_rethook_trampoline",
    "__kretprobe_trampoline",
    "return_to_handler",
]


class _Absent(Entry, frozen=True):
    provider: _Provider
    reason: Text


class _Slot(Entry, frozen=True):
    slot: str
    offset: Natural
    size: Literal[1, 2, 4, 8]
    kind: Literal["true", "derived", "constant", "garbage", "outside"]
    rule: str


class _Frame(Entry, frozen=True):
    provider: _Provider
    consumer: str
    struct: Literal["pt_regs", "ftrace_regs"]
    size: Annotated[int, Meta(ge=8)]
    slots: Annotated[tuple[_Slot, ...], Meta(min_length=1)]


class _Kernel(store.Kernel, frozen=True):
    absent: tuple[_Absent, ...]
    frames: tuple[_Frame, ...]


File = store.File[_Kernel]


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, or is of other images than those that are
    listed."""
    return store.read(data_file(FILE), File, plain())


def made(package: Package) -> dict[str, Any]:
    """The record of a kernel that has been fetched: every provider's frame, and of absent providers why."""
    machine = RealMachine(store.opened(package))
    frames_made, absent = [], []
    for provider in PROVIDERS:
        try:
            frames_made.append(_frame(machine, provider))
        except Absent as e:
            absent.append({"provider": provider, "reason": str(e)})
    return {**store.of(package), "absent": absent, "frames": frames_made}


def _frame(machine: RealMachine, provider: str) -> dict[str, Any]:
    frame = frames.frame(machine, provider)
    slots = []
    for place in frame.places:
        slot = frame.found.slots[place.name]
        if slot.kind == UNKNOWN:
            raise TramplabError(f"{machine}, {provider}: what {place.name} holds is not explained; it is not kept.")
        slots.append({"slot": slot.name, "offset": place.offset, "size": place.size, "kind": slot.kind, "rule": slot.rule})
    head = {"provider": provider, "consumer": frame.consumer, "struct": frame.found.struct, "size": frame.found.size}
    return {**head, "slots": slots}


def text(kernels: list[dict[str, Any]]) -> str:
    """The text of the file: a line for each slot."""
    lines = []
    for kernel in kernels:
        each = ",\n".join("   " + store.lines(frame, "   ", "slots") for frame in kernel["frames"])
        head = store.lines({k: v for k, v in kernel.items() if k != "frames"}, "  ", "absent")
        lines.append(f'{head[:-1]}, "frames": [\n{each}\n  ]}}')
    return store.whole(lines)


def main() -> int:
    """Write the file again; return the exit status."""
    return store.remake(FILE, File, plain(), made, text, lambda kernel: f"{len(kernel['frames'])} providers")
