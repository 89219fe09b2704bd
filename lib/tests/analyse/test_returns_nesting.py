"""Which calls are seen returning when many are on their way at once: against a plain model of pools and shadow stacks, in random
trees of calls with jumps and with calls that are left without a return, of one task and of several by turns; bounds, and memory,
worked out by hand; and what is refused."""

import functools
import itertools
import random
import shutil
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings

from support.seeds import drawn, seeds
from tramplab import Fprobe, Kernel, Kretprobe, Ops, TramplabError
from tramplab.analyse.returns import MISSED, NOTHING, STACK, Bounds, StackEnded, Tasks, counted, held, nest
from tramplab.analyse.returns.counted import Counted
from tramplab.build.toolchain import GUEST
from tramplab.isa import ISAS
from tramplab.lab import boot
from tramplab.studies.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK, builds, get
from tramplab.trampolines.bpf import Bpf

BUILDS = [build for isa in ISAS for build in builds(isa)]
every_build = pytest.mark.parametrize("build", BUILDS, ids=lambda b: f"{b.isa}-{b.name}".replace(" ", ""))
every_isa = pytest.mark.parametrize("isa", ISAS)

# --- The model

CALLED, LANDED, ROOT = "call_tree", "tree_landing", "tree_root"
#: Words of a frame on a shadow stack, what it is included; of an fprobe's header there and the word that says whose it is.
FRAME = {"x86_64": 4, "arm64": 5, "riscv64": 5}
HEADER = 2


@dataclass
class Model:
    """Who is seen and who is missed. size: of a pool, for each function where `apart`. tops: words that each task's shadow stack
    has; room: words at which nothing begins any more. frame, more: words of a call, and behind them."""

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

    def walk(self, task: int, tree, function: str = CALLED):
        """Stops where the body of call_tree begins. A function that jumps has not left when the other is entered."""
        took = self.enter(task, function)
        if function == CALLED:
            yield
        below, jumps = tree
        for n, one in enumerate(below):
            last = jumps and n == len(below) - 1
            yield from self.walk(task, one, CALLED if not last else LANDED if function == CALLED else CALLED)
        self.leave(task, function, took)

    @property
    def counted(self) -> Counted:
        return Counted(self.seen, self.missed, self.overrun)


# --- Trees, and the guest that plays them


def tree(rng: random.Random, calls: int):
    """(trees below, does it leave by a jump to the last of them)."""
    left, below = calls - 1, []
    while left > 0 and len(below) < 4:
        size = rng.randint(1, left)
        below.append(tree(rng, size))
        left -= size
    return tuple(below), bool(below) and rng.random() < 0.35


#: How a function is left: by a return, by a jump to another one behind its calls, or with all that called it.
RETURNS, JUMPS, GONE = 0, 1, 2


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


@pytest.fixture(scope="module")
def jumping(tmp_path_factory):
    return guest(tmp_path_factory.getbasetemp() / "jumping")


@functools.lru_cache(maxsize=1)
def booted(build, where) -> Kernel:
    return Kernel(build.isa, build.release, meter="count", cpus=2, guest=where)


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


@drawn
@every_build
def test_random_trees_are_followed_as_the_model_follows_them(build, jumping, request):
    """More than 10,000 in all: nested calls, jumps, pools and shadow stacks that are exhausted; each value, and each counter."""
    k, rounds = booted(build, jumping), 6
    at, function, task = k.memory(*[0] * 40), k.function(CALLED), k.cpus[0].task
    exhausted = jumps = 0
    for seed in seeds(request.node.name, rounds):
        rng = random.Random(seed)
        nodes = rng.randint(1, 6)
        with k.attached(None, *probes(build, nodes)) as registered:
            for _ in range(max(87, settings.default.max_examples // 2)):
                drawn_tree = tree(rng, rng.randint(1, 16))
                words = script(drawn_tree)
                k.machine.write(at, b"".join(w.to_bytes(8, "little") for w in words))
                m = model(k, build, nodes, 1, rng)
                fill(k, task, m.tops[0])
                before, start = now(k, registered, [task]), list(m.tops)
                run = k.machine.call(function.address, {k.isa.fp: k.machine.stack_top - 32, k.isa.args[0]: at})
                for _ in m.walk(0, drawn_tree):
                    pass
                assert now(k, registered, [task]) - before == m.counted, (nodes, drawn_tree)
                assert run.registers[k.isa.returns[0]] == at + 8 * len(words)
                assert m.seen + m.missed + m.overrun == size(drawn_tree) and m.tops == start
                assert build.mechanism not in (FGRAPH, FPROBE) or depths(k, [task]) == start
                exhausted += m.missed + m.overrun > 0
                jumps += any(w & 1 for w in words)
    fill(k, task, 0)
    k.heap.give(at)
    assert jumps > 50 and (exhausted > 50) == (build.mechanism != FEXIT)


class Gone(Exception):
    """All calls end here; the argument is where the script goes on."""


def play(m: Model, one, at: int = 0, function: str = CALLED) -> int:
    """A tree by the model, from a word of its script on; gives where the script goes on. Whoever is left gives nothing back."""
    took, (below, how) = m.enter(0, function), one
    at += 1
    for n, under in enumerate(below):
        last = how == JUMPS and n == len(below) - 1
        at = play(m, under, at, CALLED if not last else LANDED if function == CALLED else CALLED)
    if how == GONE:
        raise Gone(at)
    m.leave(0, function, took)
    return at


def references(k, registered) -> int:
    """Of calls to the trampolines that they are in."""
    field, images = k.image.struct("bpf_tramp_image").fields["pcref"].offset, 0
    for at in (at for ops in registered for at, name in ops.structs.items() if name.startswith("bpf_tramp_image")):
        images += int.from_bytes(k.machine.read(k.cpus[0].pcpu + k.machine.read_u64(at + field), 4), "little")
    return images


@drawn
@every_build
def test_calls_that_are_left_without_a_return_keep_what_they_took(build, jumping, request):
    """Trees one after the other, with what the ones before have lost: the same hits, misses, losses and values as by the model;
    when the task ends all is there again."""
    k = booted(build, jumping)
    root, cpu, at = k.function(ROOT), k.cpus[0], k.memory(*[0] * 40)
    boot.boot(k.machine, cpu)
    gone = unseen = 0
    for seed in seeds(request.node.name, max(20, settings.default.max_examples // 5)):
        rng = random.Random(seed)
        nodes = rng.randint(1, 8)
        m = model(k, build, nodes, 1, rng)
        with k.attached(None, *probes(build, nodes)) as registered:
            fill(k, cpu.task, m.tops[0])
            before, start, left = now(k, registered, [cpu.task]), m.tops[0], 0
            hits = sum(k.machine.read_u64(k.slowpath.memory.hits(ops.index)) for ops in registered)
            for _ in range(12):
                drawn_tree = left_tree(rng, rng.randint(1, 12))
                words = script(drawn_tree)
                k.machine.write(at, b"".join(w.to_bytes(8, "little") for w in words))
                entered, seen = m.entered, m.seen
                run = k.machine.call(root.address, {k.isa.fp: k.machine.stack_top - 32, k.isa.args[0]: at})
                try:
                    end = play(m, drawn_tree)
                except Gone as where:
                    (end,) = where.args
                    gone += 1
                left += (m.entered - entered) - (m.seen - seen)
                assert run.registers[k.isa.returns[0]] == at + 8 * end, drawn_tree
                found = now(k, registered, [cpu.task]) - before
                if build.mechanism == FGRAPH:
                    found = replace(found, seen=k.machine.read_u64(k.slowpath.memory.hits(registered[0].index)) - hits - m.entered)
                assert found == m.counted, (nodes, drawn_tree)
                assert build.mechanism not in (FGRAPH, FPROBE) or depths(k, [cpu.task]) == m.tops
                assert build.mechanism != FEXIT or references(k, registered) == left
            unseen += m.missed + m.overrun
            assert left == m.entered - m.seen and (m.tops[0] > start) == bool(left and m.room)
            warnings = k.machine.read_u64(k.image.address("lab_warnings"))
            boot.boot(k.machine, cpu)
        assert warnings == 0
        with k.attached(None, *probes(build, nodes)) as registered:
            before = now(k, registered, [cpu.task])
            k.machine.write(at, bytes(8))
            k.machine.call(root.address, {k.isa.fp: k.machine.stack_top - 32, k.isa.args[0]: at})
            assert now(k, registered, [cpu.task]) - before == Counted(1, 0, 0)
    k.heap.give(at)
    assert gone > 50 and (unseen > 50) == (build.mechanism != FEXIT)


@drawn
@every_build
def test_tasks_that_take_turns_are_followed_as_the_model_follows_them(build, jumping, request):
    """Up to four tasks on two CPUs, each in a tree of its own; whose turn it is at each call is drawn."""
    k = booted(build, jumping)
    free = list(k.heap._free)
    for seed in seeds(request.node.name, max(8, settings.default.max_examples // 20)):
        rng = random.Random(seed)
        number, nodes = rng.randint(2, 4), rng.randint(1, 5)
        trees = [tree(rng, rng.randint(1, 12)) for _ in range(number)]
        scripts = [k.memory(*script(one)) for one in trees]
        group, m = Tasks(k, k.function(CALLED), number), model(k, build, nodes, number, rng)
        tasks = [task.task for task in group.all]
        with group.ready(), k.attached(None, *probes(build, nodes)) as registered:
            m.tops = m.tops if len(m.tops) == number else [0] * number
            for task, words in zip(tasks, m.tops, strict=True):
                fill(k, task, words)
            before, start = now(k, registered, tasks), list(m.tops)
            walks = [m.walk(n, one) for n, one in enumerate(trees)]
            todo = list(range(number))
            while todo:
                n = rng.choice(todo)
                task, walk = group.all[n], walks[n]
                begun = task.bodies > 0
                on_its_way = group.go_on(task) if begun else group.begin(task, scripts[n])
                assert on_its_way == (next(walk, "over") is None)
                found = now(k, registered, tasks) - before
                if build.mechanism == FGRAPH and sum(m.tops) != sum(start):  # it counts entries in the same place
                    found = replace(found, seen=m.seen)
                assert found == m.counted
                if not on_its_way:
                    todo.remove(n)
                    assert task.value == scripts[n] + 8 * size(trees[n])
            assert m.tops == start and (not m.room or depths(k, tasks) == start)
            for task in tasks:
                fill(k, task, 0)
        for at in scripts:
            k.heap.give(at)
        assert k.heap._free == free


# --- Bounds, by hand


def made(build, cpus: int = 4):
    return lambda: Kernel(build.isa, build.release, meter="count", cpus=cpus)


@every_isa
@pytest.mark.parametrize("cpus", [1, 4, 8])
def test_a_pool_is_as_large_as_kernels_make_it(isa, cpus):
    """Ten instances of a kretprobe, or two per CPU if that is more; two nodes of an fprobe per CPU: of one task or of many."""
    for build in builds(isa):
        expected = {KRETPROBE: max(10, 2 * cpus), RETHOOK: 2 * cpus}.get(build.mechanism)
        if expected:
            found = Bounds(made(build, cpus), build.request)
            assert found.depth(64).most == found.tasks(20).most == expected
            assert found.depth(64).ends == MISSED and found.run(3, expected).counted == Counted(expected, 2 * expected, 0)


@every_isa
@pytest.mark.parametrize("more", [0, 1, 3])
def test_a_shadow_stack_has_room_for_a_depth(isa, more):
    """Whatever the tasks: frames up to the words that tracers have at the end, and one frame's; an fprobe's have a header."""
    last = 4096 // 8 - 16 - FRAME[isa]
    for mechanism, words in ((FGRAPH, FRAME[isa]), (FPROBE, FRAME[isa] + 1 + (1 + more))):
        if mechanism == FGRAPH and more:
            continue
        build = get(isa, mechanism)
        deepest = -(-(last - words) // words)  # the top is a multiple of a call's words, and below the last with them
        found = Bounds(made(build), build.request, lambda b=build: tuple(b.request() for _ in range(more)))
        for tasks in (1, 5):
            bound = found.depth(256, tasks=tasks, guess=60)
            assert (bound.most, bound.ends) == (deepest, MISSED), (mechanism, tasks)
            assert bound.beyond.right and bound.beyond.counted.lost == tasks
            frame = deepest * words + FRAME[isa] < last  # of the next call: then it is its data for which there is no room
            assert bound.beyond.counted == Counted(tasks * deepest, *((tasks, 0) if frame else (0, tasks)))
        assert found.tasks(16).ends == NOTHING
        assert found.run(2, 9).shadow == 8 * 9 * words


@every_isa
def test_frames_of_fexit_end_with_the_stack(isa):
    """16 KiB, less what handlers take on top; the function's own frame is 16 or 32 bytes. Others take nothing of the stack."""
    build = get(isa, FEXIT)
    own = {"x86_64": 16, "arm64": 32, "riscv64": 32}[isa]
    found = Bounds(made(build), build.request)
    bound, each = found.depth(512), found.run(1, 9).stack
    assert bound.ends == STACK and bound.beyond is None and each >= 64 and each % 8 == 0
    assert 0 <= 16384 - bound.most * (own + each) < 512 + own + each
    assert found.depth(512, tasks=6, guess=bound.most).most == bound.most
    with pytest.raises(StackEnded, match=f"no stack left for a call {bound.most + 1} deep"):
        nest(made(build)(), build.request(), 1, 512)
    for other in builds(isa):
        if other.mechanism != FEXIT:
            assert nest(made(other)(), other.request(), 2, 5).stack == 0


@every_isa
def test_what_a_probe_holds(isa):
    """Instances and nodes with a list or rings, by hand; shadow stacks for all tasks; everything in steps of 16."""

    def up(n: int) -> int:
        return -(-n // 16) * 16

    for build in builds(isa):
        k = made(build)()
        for calls in (1, 5, 16):
            request = {
                KRETPROBE: lambda r, n: replace(r, maxactive=n, data=24),
                RETHOOK: lambda r, n: replace(r, nodes=n),
            }.get(build.mechanism, lambda r, n: r)(build.request(), calls)
            with k.attached(k.function(CALLED), request) as (ops,):
                found = held(k, ops, 7)
            node = {KRETPROBE: up(6 * 8 + 24), RETHOOK: 64}.get(build.mechanism, 0)
            assert found["nodes"] == calls * node, build
            pool = k.features["return_pool" if k.features["kretprobe"] == "own" else "rethook"]
            pool = "objpool" if pool == "fgraph" else pool
            ring = up(16 + 8 * (1 << (calls - 1).bit_length()))
            assert found["rings"] == (4 * ring + up(4 * 8) if node and pool == "objpool" else 0), build
            assert found["shadow stacks"] == (7 * 4096 if build.mechanism in (FGRAPH, FPROBE) else 0)
            assert found["structs"] % 16 == 0 and found["code"] >= 0


@every_build
def test_nothing_is_left_behind(build):
    """Memory, hooks, and tasks; and a kernel can be used for one run after the other."""
    k = made(build)()
    heap = list(k.heap._free)
    first = nest(k, build.request(), 9, 3)
    assert nest(k, build.request(), 9, 3) == first and first.right
    assert k.heap._free == heap and not k.slowpath.counted
    assert k.call("one_arg", 5).value == 15


# --- What is refused


def test_what_is_refused_is_said():
    """In a line each, and nothing has changed."""
    k = Kernel("x86_64", meter="count")
    heap = list(k.heap._free)
    for run, message in (
        (lambda: nest(k, Kretprobe(), 1, 0), "calls 0 deep are none; give depth= 1 or more"),
        (lambda: nest(k, Kretprobe(), 0, 1), "0 tasks call nothing; give tasks= 1 or more"),
        (lambda: nest(k, Kretprobe(maxactive=0), 1, 1), "follows no call; give maxactive= 1 or more"),
        (lambda: nest(k, Ops(), 1, 1), "Ops sees no function return"),
        (lambda: nest(k, Fprobe(exit=True), 1, 1), "none at the entry"),
        (lambda: nest(k, Fprobe(), 1, 1), "one handler there"),
        (lambda: nest(k, Bpf(fentry=1), 1, 1), "one handler there"),
        (lambda: nest(k, Kretprobe(), 400, 1), "heap is full"),
        (lambda: nest(k, Kretprobe(maxactive=100_000), 1, 1), "heap is full"),
        (lambda: Bounds(lambda: k, Kretprobe).depth(0), "nothing is found up to 0; give limit= 1 or more"),
        (lambda: get("x86_64", "kretprobes"), "unknown mechanism that sees returns 'kretprobes'"),
    ):
        with pytest.raises(TramplabError, match=message) as e:
            run()
        assert "\n" not in str(e.value)
        assert k.heap._free == heap and not k.slowpath.counted
    group = Tasks(k, k.function(CALLED), 1)
    with pytest.raises(TramplabError, match=r"task 0 is in no call; begin\(\) one"):
        group.go_on(group.all[0])
