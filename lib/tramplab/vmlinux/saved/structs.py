"""`python -m tramplab.vmlinux structs`: bytes of the structs that attaching allocates, kept in data/kernel-structs.json.

Of the plain kernels of the latest release that have been fetched; what the file says of others stays.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from ...base.entries import Positive
from ...base.errors import TramplabError
from ...base.paths import data_file
from ...ftrace.releases import LATEST
from ..debian.list import Package, plain
from . import store

FILE = "kernel-structs.json"
STRUCTS = (
    "ftrace_ops",
    "ftrace_hash",
    "ftrace_func_entry",
    "kprobe",
    "fprobe_hlist",
    "fprobe_hlist_node",
    "bpf_kprobe_multi_link",
    "bpf_tracing_link",
    "bpf_tracing_multi_link",
    "bpf_tracing_multi_node",
    "bpf_trampoline",
    "bpf_tramp_image",
    "bpf_ksym",
    "bpf_prog",
    "bpf_prog_aux",
)


class _Kernel(store.Kernel, frozen=True):
    sizes: dict[str, Positive]


File = store.File[_Kernel]


def _wanted() -> tuple[Package, ...]:
    return tuple(p for p in plain() if p.release == LATEST)


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, or is of other images or structs than are
    listed."""
    found = store.read(data_file(FILE), File, _wanted())
    for kernel in found["kernels"]:
        if tuple(kernel["sizes"]) != STRUCTS:
            raise TramplabError(f"{FILE}: {kernel['name']} has other structs than are asked for: run `make kernels`.")
    return found


@functools.cache
def sizes(isa: str) -> dict[str, int]:
    """Struct -> bytes, in the latest release's plain kernel of an ISA; raises TramplabError where the file has none."""
    names = {p.name for p in _wanted() if p.isa == isa}
    for kernel in read()["kernels"]:
        if kernel["name"] in names:
            return dict(kernel["sizes"])
    raise TramplabError(f"{FILE} has no kernel of {isa}: run `make kernels`.")


def made(package: Package) -> dict[str, Any]:
    """The structs of a kernel that has been fetched."""
    opened = store.opened(package)
    return {**store.of(package), "sizes": {name: opened.struct(name).size for name in STRUCTS}}


def text(kernels: list[dict[str, Any]]) -> str:
    """The text of the file: a line for each kernel."""
    return store.whole(map(json.dumps, kernels))


def main() -> int:
    """Write the file again; return the exit status."""
    return store.remake(FILE, File, _wanted(), made, text, lambda kernel: f"{len(kernel['sizes'])} structs")
