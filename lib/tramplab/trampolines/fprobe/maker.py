"""Making fprobes: a struct fprobe with its ops in it, and for one that sees functions return a struct rethook with its nodes."""

from __future__ import annotations

from ...errors import TramplabError
from ...ftrace.layout import fields
from ...ftrace.ops import FL_DYNAMIC, FL_ENABLED, FL_SAVE_REGS, Registered, Request
from ...ftrace.releases import history
from ...ftrace.steps import Free, Step, block
from ..ground import Ground
from ..plain import copied
from . import pools
from .request import Fprobe


class Fprobes:
    """Registers them; on x86-64 each gets its copy of a trampoline, as every ops does."""

    def __init__(self, ground: Ground) -> None:
        self._ground, self._image = ground, ground.image

    def serves(self, request: Request) -> bool:
        """An fprobe."""
        return isinstance(request, Fprobe)

    def check(self, request: Fprobe, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if this release has no fprobes on return hooks, or not the trampoline, or the stack is too small."""
        features = self._ground.features
        if not features["rethook"]:
            when, own = history(features.isa, "rethook"), "rethook='freelist', 'objpool' or 'shadow' builds what no kernel had"
            raise TramplabError(f"{features} has no fprobes on return hooks; {features.isa} has them {when}; {own}.")
        if request.save == "regs" and not features["regs"]:
            raise TramplabError(f"{features} has no ftrace_regs_caller; {features.isa} has it {history(features.isa, 'regs')}.")
        if request.nodes is not None and features["rethook"] == "shadow":
            raise TramplabError("rethook='shadow' has a stack for each task and no pool: leave nodes= out.")
        if request.observe and self._partial(request):
            raise TramplabError("a handler that observes needs the registers that save='args' does not hand over here.")

    def make(self, request: Fprobe, functions: tuple[str, ...]) -> Registered:
        """An ops whose function is the kernel's, and finds the fprobe around the ops."""
        regs = self._saves_regs(request)
        flags = FL_ENABLED | FL_DYNAMIC | (FL_SAVE_REGS if regs else 0)
        return Registered(request, self._image.address("fprobe_handler"), flags, functions)

    def create(self, ops: Registered) -> list[Step]:
        """The fprobe, its return hook, and the trampoline; from here on the ops is the one in the fprobe."""
        request, taken = ops.request, []

        def take(size: int) -> int:
            taken.append(self._ground.heap.take(size))
            return taken[-1]

        try:
            probe = take(self._image.struct("fprobe").size)
            values = {name: self._image.address(handler) for name, handler in _handlers(request).items()}
            steps: list[Step] = []
            if request.exit:
                nodes = request.nodes or 2 * self._ground.cpus * len(ops.functions)
                values["rethook"], steps = pools.rethook(self._ground, take, probe, nodes)
            steps.append(block(probe, fields(self._image, "fprobe", values), "the fprobe"))
            ops.address = probe
            if self._ground.features["per_ops_trampoline"]:
                steps += copied.create(self._image, self._ground.modules, ops)
        except TramplabError:
            for at in taken:
                self._ground.heap.give(at)
            raise
        ops.structs = {at: f"fprobe[{ops.index}]" if at == probe else f"fprobe[{ops.index}]'s return hook" for at in taken}
        return steps

    def free(self, ops: Registered) -> list[Step]:
        """All of its memory; what it holds does not matter any more."""
        steps: list[Step] = [Free(self._ground.heap, at, name) for at, name in ops.structs.items()]
        return steps + [Free(self._ground.modules, made.address, "the fprobe's trampoline") for made in ops.generated]

    # inside

    def _saves_regs(self, request: Fprobe) -> bool:
        return bool(self._ground.features["regs"]) and request.save != "args"

    def _partial(self, request: Fprobe) -> bool:
        """Is its handler given no registers, because there is a pt_regs and it is not filled?"""
        return bool(self._ground.features["regs"]) and not self._saves_regs(request)


def _handlers(request: Fprobe) -> dict[str, str]:
    """Members of struct fprobe, and the guest functions that they lead to."""
    found = {}
    if request.entry:
        counting = "lab_fprobe_decline" if request.declines else "lab_fprobe_entry"
        found["entry_handler"] = "lab_fprobe_observe_entry" if request.observe else counting
    if request.exit:
        found["exit_handler"] = "lab_fprobe_observe_exit" if request.observe else "lab_fprobe_exit"
    return found
