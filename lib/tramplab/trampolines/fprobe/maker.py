"""Making fprobes: a struct fprobe with its ops in it, and for one that sees functions return a struct rethook with its nodes."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...ftrace.layout import fields
from ...ftrace.meant import fprobes_in_rings, fprobes_on_task_stack
from ...ftrace.ops import FL_DYNAMIC, FL_ENABLED, FL_SAVE_REGS, Registered, Request
from ...ftrace.releases import history
from ...ftrace.steps import Free, Step, block
from .. import pool_layout
from ..guest import Guest
from ..plain import copied
from . import multi, programs
from .fgraph import Fgraph
from .handlers import handlers
from .request import Fprobe


class Fprobes:
    """The maker of fprobes on return hooks; on x86-64 each has its copy of a trampoline, as every ops has."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._image = guest, guest.image
        self._counters: dict[int, list[int]] = {}  # index of an ops -> its programs' counters

    def serves(self, request: Request) -> bool:
        """Is it an fprobe, or the function graph tracer, for which check() says that it is not there?"""
        return isinstance(request, Fprobe | Fgraph)

    def check(self, request: Fprobe | Fgraph, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if this release has no fprobes on return hooks, or not the trampoline, or the stack is too small."""
        features = self._guest.features
        if isinstance(request, Fgraph):
            when = history(features.isa, "fgraph")
            raise TramplabError(f"the lab does not build the function graph tracer of {features}; it has {features.isa}'s {when}.")
        if not features["rethook"]:
            when, remedy = history(features.isa, "rethook"), "rethook='freelist', 'objpool' or 'shadow' builds what no kernel had"
            raise TramplabError(f"{features} has no fprobes; {features.isa} has them {when}; {remedy}.")
        if request.link:
            raise TramplabError(f"{features}'s fprobes have no links; {features.isa} has them on the function graph tracer.")
        if request.shim:
            raise TramplabError(f"{features}'s fprobes have no shims; {features.isa} has them on the function graph tracer.")
        if request.save == "regs" and not features["regs"]:
            raise TramplabError(f"{features} has no ftrace_regs_caller; {features.isa} has it {history(features.isa, 'regs')}.")
        if request.nodes is not None and fprobes_on_task_stack(features):
            raise TramplabError("rethook='shadow' has a stack for each task and no pool: leave nodes= out.")
        if request.multi and not features["regs"]:
            raise TramplabError(
                f"a link of kprobe_multi gives its program a pt_regs, and {features}'s fprobes have none; {features.isa} fills one "
                f"{history(features.isa, 'regs')}."
            )
        multi.check(self._guest, request)
        if request.bpf:
            programs.check(self._image, functions)
        if request.data and fprobes_in_rings(features):
            pool_layout.require_size(self._image, pool_layout.FPROBE_NODE, request.data)

    def make(self, request: Fprobe, functions: tuple[str, ...]) -> Registered:
        """The registration: an ops whose function is the kernel's, which finds the fprobe around the ops."""
        flags = FL_ENABLED | (FL_DYNAMIC if request.dynamic else 0) | (FL_SAVE_REGS if self._saves_regs(request) else 0)
        handler = "lab_fprobe_args_handler" if self._partial(request) else "fprobe_handler"
        return Registered(request, self._image.address(handler), flags, functions)

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make the fprobe, its return hook, and the trampoline; from here on the ops is the one in the fprobe."""
        request = ops.request
        counters: list[int] = []
        taken: dict[int, str] = {}

        def take(size: int, what: str) -> int:
            taken[at := self._guest.heap.take(size)] = what
            return at

        try:
            size = self._image.struct("fprobe").size
            outer, probe = multi.take_link(self._guest, take) if request.multi else (0, take(size, ""))
            called = multi.handlers(self._guest, request) if request.multi else handlers(request)
            values = {name: self._image.address(handler) for name, handler in called.items()}
            steps: list[Step] = []
            if request.bpf:
                values["bpf"], counters, size, steps = programs.programs(self._guest, take, request, ops.functions[0])
                values["entry_data_size"] = size if request.exit else 0
            if request.data:
                values["entry_data_size"] = request.data
            if request.exit:
                values["rethook"], made = self._rethook(take, ops, probe, values.get("entry_data_size", 0))
                steps += made
            if request.multi:
                values["entry_data_size"] = multi.COOKIE if multi.session(request) else 0
                steps += multi.link(self._guest, take, request, outer, ops.index)
            steps.append(block(probe, fields(self._image, "fprobe", values), "the fprobe"))
            ops.address = probe
            if self._guest.features["per_ops_trampoline"]:
                steps += copied.create(self._image, self._guest.modules, ops)
        except TramplabError:
            for at in taken:
                self._guest.heap.give(at)
            for number in counters:
                self._guest.counters.give(number)
            raise
        self._counters[ops.index] = counters
        ops.structs = {at: f"fprobe[{ops.index}]" + (f"'s {what}" if what else "") for at, what in taken.items()}
        return steps

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free all of an ops' memory."""
        steps: list[Step] = [Free(self._guest.heap, at, name) for at, name in ops.structs.items()]
        steps += [Free(self._guest.counters, number, "a per-CPU counter") for number in self._counters.pop(ops.index, ())]
        return steps + [Free(self._guest.modules, made.address, "the fprobe's trampoline") for made in ops.generated]

    # inside

    def _rethook(self, take: pool_layout.Take, ops: Registered, probe: int, room: int) -> tuple[int, list[Step]]:
        """Its return hook, whose nodes have so much room for a call's data."""
        nodes = ops.request.nodes or 2 * self._guest.cpus * len(ops.functions)
        return pool_layout.rethook(self._guest, take, pool_layout.FPROBE_NODE, "fprobe_exit_handler", probe, nodes, room)

    def _saves_regs(self, request: Fprobe) -> bool:
        return bool(self._guest.features["regs"]) and request.save != "args"

    def _partial(self, request: Fprobe) -> bool:
        """Does the trampoline fill only a part of the pt_regs for the handlers, as no kernel's does for fprobes on return hooks?"""
        return bool(self._guest.features["regs"]) and not self._saves_regs(request)
