"""Trees of calls, the guest that plays them, and a plain model of who is seen returning: pools and shadow stacks, as they are said
to be, and nothing of the lab's."""

from __future__ import annotations

import functools
import itertools
import random
import shutil
from collections.abc import Generator
from dataclasses import dataclass, field, replace

from tramplab.build.toolchain import GUEST
from tramplab.returns import counted
from tramplab.returns.counted import Counted
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK

CALLED, LANDED, ROOT = "call_tree", "tree_landing", "tree_root"
#: Words per shadow-stack frame, type word included; and for an fprobe, its header plus the owner word.
FRAME = {"x86_64": 4, "arm64": 5, "riscv64": 5}
HEADER = 2
#: How a function is left: by a return, by a jump to another one behind its calls, or with all that called it.
RETURNS, JUMPS, GONE = 0, 1, 2


class Gone(Exception):
    """All calls end here; the argument is where the script goes on."""


@dataclass
class Model:
    """Who is seen and who is missed. size: of a pool, which a kretprobe has for each function. tops: words that each task's shadow
    stack has; room: words at which nothing begins any more. frame: words of a call. entered: calls for which there was room."""

    mechanism: str
    size: int = 0
    tops: list[int] = field(default_factory=lambda: [0])
    room: int = 0
    frame: int = 0
    seen: int = 0
    missed: int = 0
    overrun: int = 0
    entered: int = 0

    def __post_init__(self):
        self.out = {CALLED: 0, LANDED: 0}

    def enter(self, task: int, function: str) -> int | None:
        """What the call took: a node, or words; None if there was no room."""
        took = self._taken(task, function)
        self.entered += took is not None
        return took

    def _taken(self, task: int, function: str) -> int | None:
        if self.mechanism == FEXIT:
            return 0
        if self.mechanism in (KRETPROBE, RETHOOK):
            taken = self.out[function] if self.mechanism == KRETPROBE else sum(self.out.values())
            if taken == self.size:
                self.missed += 1
                return None
            self.out[function] += 1
            return 1
        words, behind = self.frame, HEADER if self.mechanism == FPROBE else 0
        if self.tops[task] + words >= self.room:
            self.overrun += 1
            return None
        if behind and self.tops[task] + words + behind >= self.room:
            self.missed += 1
            return None
        self.tops[task] += words + behind
        return words + behind

    def leave(self, task: int, function: str, took: int | None) -> None:
        if took is None:
            return
        self.seen += 1
        if self.mechanism in (KRETPROBE, RETHOOK):
            self.out[function] -= took
        elif took:
            self.tops[task] -= took

    def walk(self, task: int, one, at: int = 0, function: str = CALLED):
        """A tree, from a word of its script on: stops where the body of call_tree begins, and gives where the script goes on. A
        function that jumps has not left when the other is entered; whoever is left gives nothing back."""
        took, (below, how) = self.enter(task, function), one
        if function == CALLED:
            yield
        at += 1
        for n, under in enumerate(below):
            last = how == JUMPS and n == len(below) - 1
            at = yield from self.walk(task, under, at, CALLED if not last else LANDED if function == CALLED else CALLED)
        if how == GONE:
            raise Gone(at)
        self.leave(task, function, took)
        return at

    @property
    def counted(self) -> Counted:
        return Counted(self.seen, self.missed, self.overrun)


def ended(walk: Generator[None, None, int]) -> tuple[int, bool]:
    """Where the script goes on when a walk has come to its end, and whether calls were left there."""
    try:
        while True:
            next(walk)
    except StopIteration as end:
        return end.value, False
    except Gone as where:
        return where.args[0], True


# --- Trees, and the guest that plays them


def tree(rng: random.Random, calls: int):
    """(trees below, does it leave by a jump to the last of them)."""
    left, below = calls - 1, []
    while left > 0 and len(below) < 4:
        size = rng.randint(1, left)
        below.append(tree(rng, size))
        left -= size
    return tuple(below), bool(below) and rng.random() < 0.35


def left_tree(rng: random.Random, calls: int):
    """The same, and some of them end all that are on their way."""
    below, jumps = tree(rng, calls)
    gone = not jumps and rng.random() < 0.12
    return tuple(left_tree(rng, size(one)) for one in below), GONE if gone else int(jumps)


def script(one) -> list[int]:
    """As the guest below reads it: four times the calls, and how it is left behind them."""
    below, how = one
    return [4 * (len(below) - (how == JUMPS)) + how, *itertools.chain.from_iterable(map(script, below))]


def size(one) -> int:
    return 1 + sum(map(size, one[0]))


_GUEST = "\n".join(
    f"""
NOINLINE const long *{name}(const long *script)
{{
	long word = *script++, calls = word >> 2;

	while (calls-- > 0)
		script = call_tree(script);
	if (word & 1)
		__attribute__((musttail)) return {other}(script);
	if (word & 2)
		lab_jump(tree_buffer, (long)script);
	return script;
}}"""
    for name, other in ((CALLED, LANDED), (LANDED, CALLED))
)
_ROOT = f"""
const long *{ROOT}(const long *script)
{{
	long gone = lab_remember(tree_buffer);

	return gone ? (const long *)gone : call_tree(script);
}}
"""


@functools.cache
def guest(folder):
    """A guest whose function that calls itself can leave by a jump to another traced one, which calls and jumps as it does; and
    both can end all calls up to a root that is hooked by nobody."""
    shutil.copytree(GUEST, folder)
    path = folder / "functions.c"
    before, _, _ = path.read_text("utf-8").partition("/* Calls itself as a script says")
    head = f"static unsigned long tree_buffer[LAB_JUMP_WORDS];\nNOINLINE const long *{LANDED}(const long *script);\n"
    path.write_text(f"{before}\n{head}{_GUEST}\n{_ROOT}", "utf-8")
    return folder


# --- What a kernel has of them


def probes(build, nodes: int):
    """One that sees both functions return, or one for each, as the mechanism has it."""
    request, both = build.request(), (CALLED, LANDED)
    if build.mechanism == FEXIT:
        return [replace(request, filter=(name,)) for name in both]
    sizes = {KRETPROBE: {"maxactive": nodes}, RETHOOK: {"nodes": nodes}}.get(build.mechanism, {})
    return [replace(request, filter=both, **sizes)]


def now(k, registered, tasks) -> Counted:
    """What all have counted; BPF's programs count returns in one place."""
    each = [counted(k, ops, tasks) for ops in registered]
    return Counted(each[0].seen, sum(one.missed for one in each), each[0].overrun)


def model(k, build, nodes: int, tasks: int, rng: random.Random) -> Model:
    """As the guest is set up: with words on each task's shadow stack, as if it were deep in calls already."""
    made = Model(build.mechanism, nodes, frame=FRAME[build.isa])
    if build.mechanism in (FGRAPH, FPROBE):
        made.room = 4096 // 8 - 16 - FRAME[build.isa]
        made.tops = [made.room - rng.randint(1, 40) for _ in range(tasks)]
    return made


def fill(k, task: int, words: int) -> None:
    fields = k.image.struct("task_struct").fields
    if "curr_ret_stack" in fields:
        k.machine.write(task + fields["curr_ret_stack"].offset, words.to_bytes(4, "little"))


def depths(k, tasks) -> list[int]:
    fields = k.image.struct("task_struct").fields
    return [int.from_bytes(k.machine.read(t + fields["curr_ret_stack"].offset, 4), "little") for t in tasks]


def own_misses(isa: str) -> list[bool]:
    """By words of data, 0 to 15, of an fprobe on the graph tracer: where a task's shadow stack is full, was there room for the
    frame and not for the data? Then the probe's own counter has the miss, and else the task's.

    A frame, and for an fprobe's data a word of the tracer's, a header and the data, begin below 16 words and a frame from the end
    of 512; what begins is counted in words alone.
    """
    last, own = 512 - 16 - FRAME[isa], []
    for words in range(16):
        each, top = FRAME[isa] + HEADER + words, 0
        while top + each < last:
            top += each
        own.append(top + FRAME[isa] < last)
    return own
