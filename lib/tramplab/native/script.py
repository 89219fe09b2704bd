"""The words that the child is told and answers in, one line each; numbers are hexadecimal.

To it     pin CPU · page SIZE · limit MS · base TASK CPU STACK · loops REPEAT CHAIN · map ADDRESS SIZE TEXT ·
          put ADDRESS BYTES · counter TYPE CONFIG · hook NAME, then its patch ADDRESS BYTES and watch ADDRESS ·
          check CALLS · time BATCH_NS WARM ROUNDS
From it   pinned ERRNO · counter ERRNO · check VALUE SEEN... NAME · batch CALLS NAME · total CALLS SEEN... NAME ·
          time NS... NAME · count CALLS WANTED COUNTED COUNTS... NAME · done; or, and then it ends,
          refused WHAT ADDRESS ERRNO · died SIGNAL PC ADDRESS NAME
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .states import NativeKernel, Region

#: (name, type, config) of the counters that are asked for (perf_event_open(2)).
COUNTERS = (("instructions", 0, 1), ("cycles", 0, 0), ("branch-misses", 0, 5))
#: The child's name for its own batches of dependent additions, and how many of them are made each time.
CHAIN, CHAIN_ADDITIONS = "-", 64


@dataclass(frozen=True)
class TimingPlan:
    """The child's task: CPU to stay on (None: any), ms until a batch counts as hanging, batches.

    calls: of each hook before anything is timed, to compare with the emulated one.
    rounds: batches per hook, 0 to check only.
    batch_ns: the length of a batch; the child makes it longer where the clock has coarse steps, and chooses the number of calls for
        it.
    warm: calls before a batch.
    counters: see COUNTERS.
    """

    cpu: int | None = None
    limit_ms: int = 5000
    calls: int = 1
    rounds: int = 0
    batch_ns: int = 20_000
    warm: int = 500
    counters: tuple[tuple[str, int, int], ...] = ()


@dataclass
class Answers:
    """The child's answers, numbers by hook name (count: of every batch).

    batch: calls in a timed batch (of the chain: times 64 additions).
    pinned: errno, None if not asked.
    counters: errno per counter asked for.
    died: (signal, pc, address, hook).
    refused: (what, address, errno).
    done: did it come to its end?
    """

    pinned: int | None = None
    counters: list[int] = field(default_factory=list)
    check: dict[str, list[int]] = field(default_factory=dict)
    batch: dict[str, list[int]] = field(default_factory=dict)
    total: dict[str, list[int]] = field(default_factory=dict)
    time: dict[str, list[int]] = field(default_factory=dict)
    count: dict[str, list[list[int]]] = field(default_factory=dict)
    died: tuple[int, int, int, str] | None = None
    refused: tuple[str, int, int] | None = None
    done: bool = False


def script(subject: NativeKernel, plan: TimingPlan) -> str:
    """The child's whole input."""
    return "\n".join(_lines(subject, plan)) + "\n"


def _lines(subject: NativeKernel, plan: TimingPlan) -> Iterator[str]:
    if plan.cpu is not None:
        yield f"pin {plan.cpu:x}"
    yield f"page {mmap.PAGESIZE:x}"
    yield f"limit {plan.limit_ms:x}"
    yield f"base {subject.task:x} {subject.cpu:x} {subject.stack:x}"
    yield f"loops {subject.repeat:x} {subject.chain:x}"
    for address, size, text in _maps(subject.regions, subject.isa.in_user_space.page):
        yield f"map {address:x} {size:x} {text:x}"
    for r in subject.regions:
        for filled in re.finditer(rb"[^\0](?:.{0,64}[^\0])*", r.data, re.DOTALL):  # the rest is zero already
            yield f"put {r.address + filled.start():x} {filled.group().hex()}"
    for _, kind, config in plan.counters:
        yield f"counter {kind:x} {config:x}"
    for s in subject.states:
        yield f"hook {s.name}"
        for address, data in s.patches:
            yield f"patch {address:x} {data.hex()}"
        for address in s.watched:
            yield f"watch {address:x}"
    yield f"check {plan.calls:x}"
    if plan.rounds:
        yield f"time {plan.batch_ns:x} {plan.warm:x} {plan.rounds:x}"


def _maps(regions: tuple[Region, ...], page: int) -> list[tuple[int, int, bool]]:
    """The pages of some regions as few maps: (address, size, is it text)."""
    pages: dict[int, bool] = {}
    for r in regions:
        pages |= dict.fromkeys(range(r.address & -page, r.address + len(r.data), page), r.text)
    maps: list[tuple[int, int, bool]] = []
    for at, text in sorted(pages.items()):
        if maps and sum(maps[-1][:2]) == at and maps[-1][2] == text:
            maps[-1] = (maps[-1][0], maps[-1][1] + page, text)
        else:
            maps.append((at, page, text))
    return maps


def answers(text: str) -> Answers:
    """Read what the child wrote; a line that is cut short is where it ended."""
    collected = Answers()
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        word, *rest = line.split()
        if word == "pinned":
            collected.pinned = int(rest[0], 16)
        elif word == "counter":
            collected.counters.append(int(rest[0], 16))
        elif word == "died":
            number, pc, address = (int(n, 16) for n in rest[:3])
            collected.died = number, pc, address, rest[3]
        elif word == "refused":
            at, errno = (int(n, 16) for n in rest[1:])
            collected.refused = rest[0], at, errno
        elif word == "done":
            collected.done = True
        elif word == "count":
            collected.count.setdefault(rest[-1], []).append([int(n, 16) for n in rest[:-1]])
        else:
            getattr(collected, word)[rest[-1]] = [int(n, 16) for n in rest[:-1]]
    return collected
