"""The lab's slow path at work on a real kernel: its own structs, its own sites, and the steps that ftrace/ decides on."""

from __future__ import annotations

from dataclasses import replace

from ...base.errors import TramplabError
from ...emulate.image import Image, Symbol
from ...ftrace.layout import OpsMemory
from ...ftrace.ops import Registered, Request
from ...ftrace.slowpath import SlowPath
from ...ftrace.steps import Free, Step, Write, block
from ...lab.view import Function
from ...trampolines.plain import Ops
from ...trampolines.plain.maker import registered
from . import layout, stubs
from .machine import RealMachine

#: Variables that the slow path writes or points to; what an image has not, its slow path does not ask for.
_VARIABLES = ("ftrace_ops_list", "function_trace_op", "ftrace_nop_ops", "ftrace_list_ops", "ftrace_call_dest")
#: riscv64 has this one also where sites have a pointer to their ops, and then leaves it alone.
_ONLY_COMMON = ("ftrace_call_dest",)
_STRUCTS = ("ftrace_ops", "ftrace_ops_hash", "ftrace_hash", "ftrace_func_entry")
#: Callbacks of ours, by the lab's names.
_CALLBACKS = ("lab_callback", "lab_observe")
_NEXT = "next"


class _Common:
    """Ops that the kernel's own trampolines serve: nothing is made for them."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def serves(self, request: Request) -> bool:
        return isinstance(request, Ops)

    def check(self, request: Ops, functions: tuple[str, ...]) -> None:
        pass

    def make(self, request: Ops, functions: tuple[str, ...]) -> Registered:
        return registered(self._image, request, functions)

    def create(self, ops: Registered) -> list[Step]:
        return []

    def free(self, ops: Registered) -> list[Step]:
        return []


class KernelOps(OpsMemory):
    """The memory of ops of ours, in the kernel's own structs; there is no pool, so each comes from the heap."""

    def __init__(self, machine: RealMachine, image: Image) -> None:
        self.image, self.heap, self._machine = image, machine.heap, machine
        self._claimed = 0
        self._blocks: dict[int, list[int]] = {}

    def claim(self) -> tuple[int, int]:
        """Room for an ops: (its number, address of the struct ftrace_ops)."""
        self._claimed += 1
        return self._claimed, self.heap.take(self.image.struct("ftrace_ops").size)

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free an ops and its hashes."""
        blocks = self._blocks.pop(ops.index, ())
        return [*(Free(self.heap, at, "a hash of the ops") for at in blocks), Free(self.heap, ops.address, "the ops itself")]

    def writes(self, ops: Registered, next_ops: int, ips: dict[str, int], direct_in_ops: bool) -> list[Write]:
        """The writes that make an ops before it joins the list."""
        wanted = dict.fromkeys((ips[name] for name in ops.functions), 0)
        plan, steps = layout.hash_plan(self._machine, wanted, lambda size: self._taken(ops, size))
        hashes = self._taken(ops, self.image.struct("ftrace_ops_hash").size)
        data = layout.fields(self._machine, "ftrace_ops_hash", {"filter_hash": plan})
        steps.append(block(hashes, data, "its struct ftrace_ops_hash"))
        members = layout.members_of(self._machine, ops.func, ops.flags, hashes, self._taken(ops, stubs.BLOCK)) | {_NEXT: next_ops}
        steps.append(block(ops.address, layout.fields(self._machine, "ftrace_ops", members), "the ops itself"))
        return steps

    def _taken(self, ops: Registered, size: int) -> int:
        at = self.heap.take(max(16, size))
        self._blocks.setdefault(ops.index, []).append(at)
        return at


def slowpath(machine: RealMachine, function: Function) -> SlowPath:
    """The slow path of a real kernel, for one function. Raises TramplabError for an image whose variables cannot be found."""
    image = _seen(machine)
    sites = {function.name: function.site}
    return SlowPath(image, machine.features, machine.heap, sites, [_Common(image)], KernelOps(machine, image))


def _seen(machine: RealMachine) -> Image:
    """The image with the names that the slow path uses: of variables that it does not name itself, and of our callbacks."""
    left_alone = _ONLY_COMMON if machine.call_ops else ()
    symbols = {name: symbol for name, symbol in machine.opened.image.symbols.items() if name not in left_alone}
    for name in (n for n in _VARIABLES if n not in left_alone):
        try:
            symbols[name] = Symbol(name, machine.data(name), 8)
        except TramplabError:
            continue
    symbols["ftrace_list_end"] = Symbol("ftrace_list_end", machine.list_end, 8)
    private = machine.opened.struct("ftrace_ops").fields["private"].offset
    code = stubs.callback(machine.isa, private)
    for name in _CALLBACKS:
        symbols[name] = Symbol(name, machine.code(lambda _: code, name, "own"), len(code))
    return replace(machine.opened.image, symbols=symbols, structs={n: machine.opened.struct(n) for n in _STRUCTS})
