"""`python -m tramplab.vmlinux probes`: what Debian's kernels have of kretprobes and of what could replace them, kept in
data/kernel-probes.json.

Of the plain kernels that have been fetched; what the file says of others stays.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from msgspec import Meta

from ...base.entries import Positive
from ...base.paths import data_file
from ..debian.list import Package, plain
from ..run.probes import functions
from . import store

FILE = "kernel-probes.json"

_Part = Literal["kretprobe", "return hook", "fprobe", "kprobe", "graph tracer"]


class _Kernel(store.Kernel, frozen=True):
    """A kernel's record. parts: part -> function -> bytes."""

    parts: Annotated[dict[_Part, dict[str, Positive]], Meta(min_length=5)]


File = store.File[_Kernel]


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, or is of other images than those that are
    listed."""
    return store.read(data_file(FILE), File, plain())


def made(package: Package) -> dict[str, Any]:
    """The functions of a kernel that has been fetched, by the part that they belong to."""
    return {**store.of(package), "parts": functions(store.opened(package))}


def text(kernels: list[dict[str, Any]]) -> str:
    """The text of the file: a line for each part of a kernel."""
    lines = []
    for kernel in kernels:
        head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in kernel.items() if k != "parts")
        parts = ",\n".join(f"   {json.dumps(part)}: {json.dumps(functions)}" for part, functions in kernel["parts"].items())
        lines.append(f'{{{head}, "parts": {{\n{parts}\n  }}}}')
    return store.whole(lines)


def main() -> int:
    """Write the file again; return the exit status."""
    return store.remake(FILE, File, plain(), made, text, lambda kernel: f"{sum(map(len, kernel['parts'].values()))} functions")
