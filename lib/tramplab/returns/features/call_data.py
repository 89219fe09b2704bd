"""The data of a call that a probe's handlers are given, and can leave for its return."""

from __future__ import annotations

import functools
import random

from ...base.errors import TramplabError
from ...lab.kernel import Kernel
from ...trampolines.bpf import Bpf
from ...trampolines.fprobe import Fprobe
from ...trampolines.fprobe.graph import MOST_DATA as GRAPH_DATA
from ...trampolines.kprobe.kretprobe import MOST_DATA
from ..counted import counted_missed
from .cell import HARMS, NO, PART, REFUSED, YES, Cell, of
from .stage import WORD, Row, Seen, Stage

#: Functions of integers, with the number of those; each returns something else for other arguments.
FUNCTIONS = {"one_arg": 1, "two_args": 2, "three_args": 3, "four_args": 4, "five_args": 5, "six_args": 6, "calls_others": 3}
#: Calls of each, with arguments that are drawn.
CALLS = 3
#: Arguments of all of them.
TRIED = CALLS * sum(FUNCTIONS.values())
#: A function that calls itself as a script says, and a script: the calls below a call, then the same of each.
NESTING, TREE = "call_tree", (2, 2, 0, 1, 0, 0)
#: The value that a handler gives the caller in place of the returned one.
CHANGED = 0x5EED0123
#: Fprobes that are tried on one function.
MOST_TOGETHER = 8
_WORD = 1 << 64


def pairs(rows: tuple[Row, ...]) -> list[tuple[Row, Row]] | None:
    """Entry and return of each call in the order of the returns, by their nesting; None where they are not nested."""
    open_, found = [], []
    for row in rows:
        if row.entered:
            open_.append(row)
        elif open_:
            found.append((open_.pop(), row))
        else:
            return None
    return None if open_ else found


def nested(stage: Stage, words: int) -> tuple[Seen, int]:
    """Calls of one function nested as TREE says, and where the script for them lies."""
    at = stage.kernel.memory(*TREE)
    try:
        with stage.attached(NESTING, words=words, calls=len(TREE)):
            return stage.call(NESTING, at), at
    finally:
        stage.kernel.heap.give(at)


def entry_data(stage: Stage) -> Cell:
    """Does each return find what was left at the entry of its own call, with calls of one function in each other?"""
    seen, _ = nested(stage, 1)
    calls = pairs(seen.rows) or []
    left = [entry.data for entry, _ in calls]
    if len(calls) == len(TREE) == len(set(left)) and all(entry.data == back.data for entry, back in calls):
        return Cell(YES)
    return Cell(PART if any(back.data in left for _, back in calls if back.data) else NO)


def holds(stage: Stage, words: int) -> bool:
    """Does a call keep so many words from its entry to its return?"""
    try:
        with stage.attached("two_args", words=words, calls=1):
            rows = stage.call("two_args", 3, 4).rows
    except TramplabError:
        return False
    return [row.intact for row in rows] == [words, words]


def most_data(stage: Stage) -> Cell:
    """How many bytes of data can a call have: as many as a kretprobe's, fewer, none? Found by trying. Raises TramplabError for a
    probe that is refused without data."""
    with stage.attached("two_args", calls=1):
        pass
    good, bad = 0, 1
    while holds(stage, bad):
        good, bad = bad, 2 * bad
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(stage, middle) else (good, middle)
    most = WORD * good
    return Cell(YES if most >= MOST_DATA else PART if most else NO, f"{most} bytes", most)


def most_together(kernel: Kernel) -> int:
    """How many fprobes on the function graph tracer can be on one function, with as much data for a call as one may have, until its
    calls are missed: they share what one tracer may keep."""
    for number in range(1, MOST_TOGETHER + 1):
        probes = [Fprobe(entry=False, exit=True, data=GRAPH_DATA, filter=("two_args",)) for _ in range(number + 1)]
        with kernel.attached(None, *probes) as registered:
            kernel.call("two_args", 3, 4)
            if any(counted_missed(kernel, ops) for ops in registered):
                return number
    return MOST_TOGETHER


@functools.cache
def _drawn(function: str) -> tuple[tuple[int, ...], ...]:
    rng = random.Random(function)
    return tuple(tuple(rng.randrange(1, _WORD) for _ in range(FUNCTIONS[function])) for _ in range(CALLS))


def _calls(stage: Stage, **told: int) -> list[tuple[tuple[int, ...], int, Seen]]:
    """(arguments, value without a probe, what was seen) of calls of all FUNCTIONS; made once for each `told`, see Stage.tell()."""
    key = "calls", tuple(told.items())
    if key not in stage.notes:
        stage.notes[key] = _made(stage, told)
    calls: list[tuple[tuple[int, ...], int, Seen]] = stage.notes[key]
    return calls


def _made(stage: Stage, told: dict[str, int]) -> list[tuple[tuple[int, ...], int, Seen]]:
    for function in FUNCTIONS:
        for arguments in _drawn(function):
            stage.expected(function, *arguments)
    calls = []
    for function in FUNCTIONS:
        with stage.attached(function, **told):
            calls += [(given, stage.expected(function, *given), stage.call(function, *given)) for given in _drawn(function)]
    return calls


def arguments_at_exit(stage: Stage) -> Cell:
    """Do the registers that the handler at the return is given still tell what the call was given? Registers that are right
    for one function and wrong for another are so by luck."""
    asked = right = 0
    for given, _, seen in _calls(stage):
        for back in seen.exits:
            asked += len(given)
            right += sum(a == b for a, b in zip(given, back.arguments, strict=False))
    if asked and right == asked:
        return Cell(YES, "", right)
    return Cell(NO, f"by luck, {right} of {asked}" if right else "never", right)


def value_read(stage: Stage) -> Cell:
    """Is the handler at the return given the value?"""
    calls = _calls(stage)
    return of(all([row.value for row in seen.exits] == [value] == [seen.value] for _, value, seen in calls))


def value_changed(stage: Stage) -> Cell:
    """Does the caller get another value if that handler stores one? BPF's verifier lets no fexit program store to its context
    (bpf_tracing_ctx_access(), include/linux/bpf.h: reads alone), whatever the trampoline would make of it."""
    calls = _calls(stage, changes=1, value=CHANGED)
    if any(seen.value is None for *_, seen in calls):
        return Cell(HARMS)
    taken = sum(seen.value == CHANGED for *_, seen in calls)
    if isinstance(stage.request, Bpf) and taken == len(calls):
        return Cell(REFUSED, "verifier")
    return of(taken == len(calls))


def declines(stage: Stage) -> Cell:
    """Can the handler at the entry say that a return is of no interest, more often than a pool has room?"""
    wanted, unwanted = (4, 6), (5, 7)
    expected = {given: stage.expected("two_args", *given) for given in (wanted, unwanted)}
    with stage.attached("two_args", declines=1, calls=2):
        right, back = True, 0
        for given in (unwanted, unwanted, unwanted, wanted):
            seen = stage.call("two_args", *given)
            right &= seen.value == expected[given] and len(seen.entries) == 1
            back += len(seen.exits) if given == unwanted else 0
            right &= given == unwanted or len(seen.exits) == 1
    return Cell(HARMS) if not right else of(back == 0)
