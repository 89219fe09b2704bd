"""Which calls are seen returning when many are on their way at once: against a plain model of pools and shadow stacks
(support/models/call_trees.py), in random trees of calls with jumps and with calls that are left without a return, of one task and
of several by turns."""

import functools
import random
from dataclasses import replace

import pytest
from hypothesis import settings

from support.models.call_trees import CALLED, ROOT, depths, ended, fill, guest, left_tree, model, now, probes, script, size, tree
from support.plugins.seeds import drawn, seeds
from tramplab import Kernel
from tramplab.isa import ISAS
from tramplab.lab import boot
from tramplab.returns import Tasks
from tramplab.returns.counted import Counted, references
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, builds

BUILDS = [build for isa in ISAS for build in builds(isa)]
every_build = pytest.mark.parametrize("build", BUILDS, ids=lambda b: f"{b.isa}-{b.name}".replace(" ", ""))


@pytest.fixture(scope="module")
def jumping(tmp_path_factory):
    return guest(tmp_path_factory.getbasetemp() / "jumping")


@functools.lru_cache(maxsize=1)
def booted(build, where) -> Kernel:
    return Kernel(build.isa, build.release, meter="count", cpus=2, guest=where)


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


def check_all_is_there(k, build, nodes, at):
    """A call of a function without calls is seen."""
    task = k.cpus[0].task
    with k.attached(None, *probes(build, nodes)) as registered:
        before = now(k, registered, [task])
        k.machine.write(at, bytes(8))
        k.machine.call(k.function(ROOT).address, {k.isa.fp: k.machine.stack_top - 32, k.isa.args[0]: at})
        assert now(k, registered, [task]) - before == Counted(1, 0, 0)


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
                end, was_left = ended(m.walk(0, drawn_tree))
                gone += was_left
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
        check_all_is_there(k, build, nodes, at)
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
