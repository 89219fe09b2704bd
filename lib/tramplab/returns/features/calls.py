"""Calls in calls, of handlers, by a jump and across exceptions."""

from __future__ import annotations

from ...ftrace.ops import Registered
from ...lab.kernel import Kernel
from ...trampolines.bpf import Bpf
from ...trampolines.kprobe import Kprobe
from ..nest import Nested, nest
from .call_data import TREE, nested, pairs
from .cell import HARMS, NO, PART, YES, Cell, of
from .stage import WORD, Stage

#: Calls that handlers make at most in one call: what still makes them then would never end.
MOST = 6
#: A function that others jump to, one that does, and one that calls it.
TARGET, JUMPS, CALLS = "two_args", "tail_call", "calls_others"
#: A function that nobody hooks but a kprobe.
BELOW = "one_arg"
#: Calls in each other that are more than a pool or a shadow stack is for; frames of BPF's trampoline are on the stack, which has
#: room for fewer.
DEEP, DEEP_FRAMES = 130, 64
#: Words of data of a call with which that is tried: whether a shadow stack has no room for the frame or for the data depends on
#: both sizes.
SIZES = range(16)


def _script_ends(tree: tuple[int, ...], at: int) -> list[int]:
    """The value that each call of a script returns, in the order of the returns: where the script continues."""
    ends: list[int] = []

    def walk(n: int) -> int:
        calls, n = tree[n], n + 1
        for _ in range(calls):
            n = walk(n)
        ends.append(at + WORD * n)
        return n

    walk(0)
    return ends


def nesting(stage: Stage) -> Cell:
    """Is each return of a function that calls itself seen once, in order, with its own value?"""
    seen, at = nested(stage, 0)
    ends = _script_ends(TREE, at)
    if seen.value != ends[-1]:
        return Cell(HARMS)
    return of([row.value for row in seen.exits] == ends and pairs(seen.rows) is not None)


def _recursion(stage: Stage, where: str) -> Cell:
    """The outcome of calls of the probed function that its own handler makes. where: the member of struct lab_watching that says
    what the handler calls."""
    value, inner = stage.expected(TARGET, 10, 20), stage.expected(TARGET, 1, 2)
    instructions = {where: stage.address(TARGET), "most": MOST}
    with stage.attached(TARGET, calls=2 * MOST, **instructions) as registered:
        seen = stage.call(TARGET, 10, 20)
        made, counted = stage.told("called"), stage.missed(registered)
    returned = stage.kernel.machine.read_u64(stage.kernel.image.address("lab_watch_value"))
    if seen.value != value or returned != inner or not made:
        return Cell(HARMS, "wrong")
    if made >= MOST:
        return Cell(HARMS, "endless")
    inside = len(seen.exits) - 1
    missed = made - inside
    fates = (inside, "seen"), (counted, "counted"), (max(missed - counted, 0), "lost")
    counts = ", ".join(f"{n} {what}" for n, what in fates if n)
    return Cell(YES if missed <= counted else PART, counts, missed)


def recursion_at_entry(stage: Stage) -> Cell:
    """What becomes of calls of the probed function that its handler at the entry makes?"""
    return _recursion(stage, "at_entry")


def recursion_at_exit(stage: Stage) -> Cell:
    """What becomes of calls of the probed function that its handler at the return makes?"""
    return _recursion(stage, "at_exit")


def tail_call(stage: Stage) -> Cell:
    """A function leaves by a jump to another one: are both seen returning?"""
    value = stage.expected(JUMPS, 7, 9)
    with stage.attached(JUMPS, TARGET):
        seen = stage.call(JUMPS, 7, 9)
    if seen.value != value:
        return Cell(HARMS)
    entered = [row.arguments[:2] for row in seen.entries] == [(7, 9), (9, 7)]
    values = [row.value for row in seen.exits]
    return Cell(YES if entered and values == [value] * 2 else PART if values else NO)


def _kprobe(stage: Stage, function: str, called: tuple[str, tuple[int, ...]], **told: int) -> tuple[bool, int, int, int]:
    """Make a call with a kprobe by a breakpoint on a function: was it right and its return seen, how many hits had the kprobe, how
    many did it miss, and how many returns were seen?"""
    name, arguments = called
    value = stage.expected(name, *arguments)
    with stage.attached(name, **told), stage.kernel.attached(stage.kernel.function(function), Kprobe(breakpoint=True)) as (probe,):
        seen = stage.call(name, *arguments)
        hits = stage.kernel.machine.read_u64(stage.kernel.slowpath.memory.hits(probe.index))
        missed = _kprobe_missed(stage.kernel, probe)
    return seen.value == value, hits, missed, len(seen.exits)


def _kprobe_missed(kernel: Kernel, ops: Registered) -> int:
    field = kernel.image.struct("kprobe").fields["nmissed"]
    places = [at for at, name in ops.structs.items() if name.endswith("]")]
    return sum(int.from_bytes(kernel.machine.read(at + field.offset, field.size), "little") for at in places)


def kprobe_below(stage: Stage) -> Cell:
    """A breakpoint between entry and return: is the kprobe hit, and the return seen all the same?"""
    right, hits, _, returns = _kprobe(stage, TARGET, (CALLS, (3, 4, 5)))
    return Cell(HARMS) if not right else of(hits == 1 and returns == 1)


def kprobe_in_handler(stage: Stage) -> Cell:
    """A breakpoint in what the handler at the return calls: is the kprobe hit?"""
    instructions = {"at_exit": stage.address(BELOW), "most": 1}
    right, hits, missed, returns = _kprobe(stage, BELOW, (TARGET, (3, 4)), **instructions)
    if not right or returns != 1:
        return Cell(HARMS)
    return of(hits == 1, "" if hits else "missed, counted" if missed else "missed")


def without_room(stage: Stage) -> list[Nested]:
    """More calls on their way than there is room for, with each of SIZES where that may matter: a pool has calls, whatever their
    size."""
    depth = DEEP_FRAMES if isinstance(stage.request, Bpf) else DEEP
    return [nest(stage.kernel, request, 1, depth) for request in stage.sized(SIZES[:1] if stage.pooled else SIZES)]


def misses_told(stage: Stage) -> Cell:
    """Does the probe's own counter have the missed calls when more calls are in progress than there is room for, with any size of
    data?"""
    runs = without_room(stage)
    if not all(run.right for run in runs):
        return Cell(HARMS)
    missed = [run.calls - run.counted.seen for run in runs]
    if not any(missed):
        return Cell(YES, "none missed", 0)
    agreeing = sum(run.counted.missed == calls for run, calls in zip(runs, missed, strict=True))
    if agreeing == len(runs):
        return Cell(YES, number=agreeing)
    if agreeing:
        return Cell(PART, f"{agreeing} of {len(runs)} sizes", agreeing)
    return Cell(NO, "the task's" if any(run.counted.overrun for run in runs) else "nobody's", agreeing)
