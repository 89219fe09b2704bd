"""Which kernels the bounds of return hooks are shown in, where each keeps what a call needs, and how large a pool is asked for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.returns import NODES, RINGS, SHADOW, Bounds, held, nest
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK, Build, builds

from ....publish.phrases import isa_name, listed

#: CPUs of the kernels, and the most tasks that are in a call on them at once.
CPUS, TASKS = 4, 12
#: Where a call's state is: nodes on one list, or in a ring for each CPU; the task's shadow stack; a frame on its own stack.
LIST, RING, STACK, FRAME = "list", "rings", "shadow stack", "stack frame"
POOLS = (LIST, RING)
#: (mechanism, where) -> how charts and tables call it; in order.
NAMES: Mapping[tuple[str, str], str] = {
    (KRETPROBE, LIST): "kretprobe, list",
    (KRETPROBE, RING): "kretprobe, rings",
    (RETHOOK, LIST): "fprobe, list",
    (RETHOOK, RING): "fprobe, rings",
    (FGRAPH, STACK): "graph tracer",
    (FPROBE, STACK): "fprobe, graph",
    (FEXIT, FRAME): "BPF fexit",
}
#: Mechanism -> what its request calls the size of its pool.
SIZES: Mapping[str, str] = {KRETPROBE: "maxactive", RETHOOK: "nodes"}


def kernel(build: Build, cpus: int = CPUS) -> Kernel:
    """A kernel with so many CPUs, which only counts."""
    return Kernel(build.isa, build.release, meter="count", cpus=cpus)


def sized(build: Build, calls: int) -> Request:
    """A probe whose pool is for so many calls at a time, where it has one."""
    request = build.request()
    if build.mechanism not in SIZES:
        return request
    chosen: dict[str, Any] = {SIZES[build.mechanism]: calls}
    return dataclasses.replace(request, **chosen)


def bounds(build: Build) -> Bounds:
    """The bounds of a build's probe as kernels make it."""
    return Bounds(lambda: kernel(build), build.request)


def held_by(made: Kernel, request: Request, tasks: int) -> dict[str, int]:
    """Bytes by part that a probe holds in a kernel with so many tasks."""
    with made.attached(made.function("call_tree"), request) as (ops, *_):
        return held(made, ops, tasks)


@functools.cache
def keeps(build: Build) -> str:
    """The place of a call's state, told from what the probe holds and what a call takes of the stack."""
    made = kernel(build)
    found = held_by(made, build.request(), 1)
    if found[SHADOW]:
        return STACK
    if found[RINGS]:
        return RING
    if found[NODES]:
        return LIST
    return FRAME if nest(made, build.request(), 1, 2).stack else ""


@functools.cache
def shown(isa: str) -> dict[str, Build]:
    """Name -> a kernel for each, the newest of those that keep it in one place."""
    found = {NAMES[build.mechanism, keeps(build)]: build for build in builds(isa)}
    return {name: found[name] for name in NAMES.values() if name in found}


def by_isa(values: Mapping[str, object], what: str = "") -> str:
    """A value per ISA, in a sentence; ISAs with the same one are named together.

    >>> by_isa({"x86_64": "3 and 2", "arm64": "1", "riscv64": "1"}, "calls")
    '3 and 2 calls on x86-64, 1 on arm64 and riscv64'
    >>> by_isa({"x86_64": 7, "arm64": 7}, "calls")
    '7 calls'
    """
    groups: dict[str, list[str]] = {}
    for isa, value in values.items():
        groups.setdefault(str(value), []).append(isa_name(isa))
    names = [f" {what}" if what else "", *[""] * len(groups)]
    if len(groups) == 1:
        return f"{next(iter(groups))}{names[0]}"
    return ", ".join(f"{value}{name} on {listed(isas)}" for (value, isas), name in zip(groups.items(), names, strict=False))
