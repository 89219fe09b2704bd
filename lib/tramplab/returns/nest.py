"""Calls in calls of several tasks, all on their way at once: which of them a probe sees returning, and what they take meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.arguments import whole
from ..base.errors import TramplabError
from ..ftrace.ops import Request
from ..lab.kernel import Kernel
from .counted import Counted, counted, require_counter, shadow_words
from .tasks import Tasks

#: The guest's function that calls itself as a script says.
FUNCTION = "call_tree"
#: Bytes of a word: of its script, and of a shadow stack.
WORD = 8


@dataclass(frozen=True)
class Nested:
    """The result of calls of several tasks that were all in progress at once.

    counted: what the probe counted.
    right: every call of a task returned what it does without a probe.
    stack, shadow: bytes of the task's stack that a call takes more than an unhooked one, and of its shadow stack: the mean over its
        calls except the first.
    """

    tasks: int
    depth: int
    counted: Counted
    right: bool
    stack: int
    shadow: int

    @property
    def calls(self) -> int:
        """The calls of all tasks."""
        return self.tasks * self.depth


def nest(kernel: Kernel, request: Request, tasks: int, depth: int, beside: tuple[Request, ...] = ()) -> Nested:
    """Let each task call a function that calls itself to this depth and stop in the innermost call, and then all return in turn.

    beside: further probes on the function, attached before. Raises TramplabError for a depth or tasks below 1, a request that sees
    no return, one by a breakpoint where calls are stopped, or what there is no memory for; and StackEnded where a task's stack ends
    first, after which the kernel is of no use.

    >>> from tramplab import Kretprobe
    >>> nest(Kernel("x86_64", meter="count"), Kretprobe(maxactive=3), tasks=2, depth=2).counted
    Counted(seen=3, missed=1, overrun=0)
    """
    tasks, depth = whole(tasks, "tasks", 1), whole(depth, "depth", 1, kernel.machine.places.heap.size // WORD)
    require_counter(request)
    if request.filter or request.notrace:
        raise TramplabError(f"{FUNCTION} is what is called: leave filter= and notrace= out.")
    function = kernel.function(FUNCTION)
    body = kernel.machine.read(function.site.body, WORD)
    group = Tasks(kernel, function, tasks)
    script = kernel.memory(*[1] * (depth - 1), 0)
    try:
        with group.ready():
            first, few = group.all[0], min(depth, 2)
            group.begin(first, script + WORD * (depth - few), bodies=few)
            idle = first.stops[0] - first.stops[-1]
            group.finish(first)
            with kernel.attached(function, *beside, request) as registered:
                if kernel.machine.read(function.site.body, WORD) != body:
                    where = f"on {kernel.features} the breakpoint stands where calls are stopped"
                    raise TramplabError(f"{where}: ask for a probe through ftrace, or for another release.")
                ops, addresses = registered[-1], [task.task for task in group.all]
                before = counted(kernel, ops, addresses)
                for task in group.all:
                    group.begin(task, script, bodies=depth)
                words = shadow_words(kernel, first.task)
                values = [(group.finish(task) - script) // WORD for task in group.all]
                counts = counted(kernel, ops, addresses) - before
    finally:
        kernel.heap.give(script)
    taken = (first.stops[0] - first.stops[-1]) // max(depth - 1, 1)
    return Nested(tasks, depth, counts, values == [depth] * tasks, taken - idle, WORD * words)
