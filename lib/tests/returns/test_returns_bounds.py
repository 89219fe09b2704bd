"""How many calls can be on their way at once, and what that holds: worked out by hand; and what is refused."""

from dataclasses import replace

import pytest

from support.models.call_trees import CALLED, FRAME
from tramplab import Fprobe, Kernel, Kretprobe, Ops, TramplabError
from tramplab.isa import ISAS
from tramplab.returns import MISSED, NOTHING, STACK, Bounds, StackEnded, Tasks, held, nest
from tramplab.returns.counted import Counted
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK, builds, get
from tramplab.trampolines.bpf import Bpf

BUILDS = [build for isa in ISAS for build in builds(isa)]
every_build = pytest.mark.parametrize("build", BUILDS, ids=lambda b: f"{b.isa}-{b.name}".replace(" ", ""))
every_isa = pytest.mark.parametrize("isa", ISAS)


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
    """Instances and nodes with a list or rings, by hand; shadow stacks for all tasks; everything in steps of 16, rings in pages."""

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
            rings = 4 * ring + up(4 * 8) if node and pool == "objpool" else 0
            if rings and tuple(map(int, build.release[1:].split("."))) >= (6, 12):  # a page of each CPU holds its nodes, too
                assert ring + calls * node < 4096
                rings = 4 * 4096 + up(4 * 8) - found["nodes"]
            assert found["rings"] == rings, build
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


def test_what_is_refused_is_said():
    """In a line each, and nothing has changed."""
    k = Kernel("x86_64", meter="count")
    heap = list(k.heap._free)
    for run, message in (
        (lambda: nest(k, Kretprobe(), 1, 0), "depth is a whole number from 1 to 32768, not 0"),
        (lambda: nest(k, Kretprobe(), 0, 1), "tasks is a whole number from 1 on, not 0"),
        (lambda: nest(k, Kretprobe(maxactive=-1), 1, 1), "or 0: the default"),
        (lambda: nest(k, Ops(), 1, 1), "Ops sees no function return"),
        (lambda: nest(k, Fprobe(exit=True), 1, 1), "none at the entry"),
        (lambda: nest(k, Fprobe(), 1, 1), "one handler there"),
        (lambda: nest(k, Bpf(fentry=1), 1, 1), "one handler there"),
        (lambda: nest(k, Kretprobe(several=2), 1, 1), "leave several= and observe= out, or use beside="),
        (lambda: nest(k, Fprobe(entry=False, exit=True, observe=True), 1, 1), "leave several= and observe= out"),
        (lambda: nest(k, Kretprobe(filter=("one_arg",)), 1, 1), "leave filter= and notrace= out"),
        (lambda: nest(k, Kretprobe(notrace=(CALLED,)), 1, 1), "leave filter= and notrace= out"),
        (lambda: nest(k, Kretprobe(breakpoint=True), 1, 1), "breakpoint stands where calls are stopped: ask for a probe through"),
        (lambda: nest(k, Kretprobe(), 400, 1), "heap is full: ask for fewer ops, functions, tasks or calls"),
        (lambda: nest(k, Kretprobe(maxactive=100_000), 1, 1), "heap is full"),
        (lambda: Bounds(lambda: k, Kretprobe).depth(0), "limit is a whole number from 1 on, not 0"),
        (lambda: get("x86_64", "kretprobes"), "unknown mechanism that sees returns 'kretprobes'"),
    ):
        with pytest.raises(TramplabError, match=message) as e:
            run()
        assert "\n" not in str(e.value)
        assert k.heap._free == heap and not k.slowpath.counted
    group = Tasks(k, k.function(CALLED), 1)
    with pytest.raises(TramplabError, match=r"task 0 is in no call; begin\(\) one"):
        group.go_on(group.all[0])
