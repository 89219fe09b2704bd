"""The function graph tracer in states that few calls meet: a tracer that pauses or has gone while a call is on its way, an
interrupt between two stores, a shadow stack that is gone. Each check fails on the mutants that name it
(support/mutants/graph_mutants.py); long because each state is one check.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from support.abi.decoded import instructions
from support.abi.members import Struct, task
from support.abi.probed import GUARD, booted, ends, fails, idle, new_task, place, probing, watched
from support.mutants import graph_mutants
from tramplab import Fgraph, Fprobe, Kernel, Ops
from tramplab.returns import Tasks

#: FGRAPH_ARRAY_SIZE.
FGRAPH_PLACES = 16
#: x86-64's static call, and the others' tracers.
PLACES = (place("x86_64", "v7.2"), place("arm64", "v7.2"), place("riscv64", "v7.2"))


def depth_of_calls(k: Kernel) -> None:
    """A tracer is told a call's function and depth, and at its return how many calls had no room; all is as before afterwards, be
    calls followed or declined or without room."""
    told: list[tuple[str, int]] = []
    f, before = k.function("call_tree"), idle(k)

    def tell(end: str, struct: str) -> None:
        trace = Struct(k, struct, k.machine.register(k.isa.args[0]))
        assert trace["func"] == f.site.ip
        assert end == "in" or trace["overrun"] == 77
        told.append((end, trace["depth"]))

    script, deep = k.memory(2, 1, 0, 0), k.memory(*[1] * 299, 0)
    handlers = (("lab_graph_entry", "in", "ftrace_graph_ent"), ("lab_graph_return", "out", "ftrace_graph_ret"))
    with k.attached(f, Fgraph()):
        with ExitStack() as stack, task(k).having(trace_overrun=77):
            for name, end, struct in handlers:
                stack.enter_context(k.machine.watching(k.image.address(name), lambda e=end, s=struct: tell(e, s)))
            k.call(f, script)
        assert told == [("in", 0), ("in", 1), ("in", 2), ("out", 2), ("out", 1), ("in", 1), ("out", 1), ("out", 0)]
        assert idle(k) == before
        run = k.call(f, deep, budget=2_000_000)
        assert run.value == deep + 8 * 300 and run.hits[0] < 600 and idle(k) == before
    k.heap.give(script)
    k.heap.give(deep)
    with probing(k, Fgraph(watch=True), declines=8) as p:
        assert (p.call(first=8), p.call(first=5)) == ([1], [2])


def tracer_pauses(k: Kernel) -> None:
    """A task that has paused the tracer is not followed, and is again afterwards."""
    with probing(k, Fgraph()) as p:
        with task(k).having(tracing_graph_pause=1):
            assert p.call() == [0]
        assert p.call() == [2]


def task_without_a_shadow_stack(k: Kernel) -> None:
    """It is not followed, and its calls return."""
    with probing(k, Fgraph()) as p:
        with task(k).having(ret_stack=0):
            assert p.call() == [0]
        assert p.call() == [2]


def shadow_stack_is_gone(k: Kernel) -> None:
    """A call that returns with nothing on the shadow stack, or with a word on it that is no frame's, has no way back."""
    panics = k.image.address("lab_panics")
    with probing(k, Fgraph()) as p:

        def overwrite() -> None:
            k.machine.write_u64(task(k)["ret_stack"] + 8 * (task(k)["curr_ret_stack"] - 1), 0x3FF)

        for spoil in (lambda: task(k).put({"curr_ret_stack": 0}), overwrite):
            before = k.machine.read_u64(panics)
            assert ends(lambda spoil=spoil: p.call(spoil))
            assert k.machine.read_u64(panics) == before + 1
            new_task(k)
            assert p.call() == [2]


def guard_is_held_at_the_return(k: Kernel) -> None:
    """The entry has refused such a call: one that comes there all the same ends, and is not traced."""
    with probing(k, Fgraph()) as p:
        assert ends(lambda: p.call(lambda: task(k).put({"trace_recursion": GUARD}), lambda: task(k).put({"trace_recursion": 0})))
        new_task(k)
        assert p.call() == [2]


def tracer_that_has_gone(k: Kernel) -> None:
    """Its place has a stub then, which is called neither at the entry nor at the return."""
    place = k.image.address("fgraph_array")
    with probing(k, Fgraph()) as p:
        tracer = k.machine.read_u64(place)
        k.machine.write_u64(place, k.image.address("fgraph_stub"))
        assert p.call() == [0]
        k.machine.write_u64(place, tracer)
        assert p.call(lambda: k.machine.write_u64(place, k.image.address("fgraph_stub"))) == [1]
        k.machine.write_u64(place, tracer)
        assert p.call() == [2]


def filter_of_the_tracer(k: Kernel) -> None:
    """A tracer that does not want the function is not called, but where a tracer that is alone is called without a look at that."""
    with probing(k, Fgraph()) as p, k.attached(k.function("one_arg"), Ops()) as (other,):
        ops = k.image.address("lab_graph_ops") + k.image.struct("fgraph_ops").fields["ops"].offset
        pool, size = k.image.address("lab_ops_hash_pool"), k.image.struct("ftrace_ops_hash").size
        with Struct(k, "ftrace_ops", ops).having(func_hash=pool + other.index * size):
            assert p.call() == [2 if k.features["fgraph_static_call"] else 0]
        assert p.call() == [2]


def tracers_at_other_places(k: Kernel) -> None:
    """Each place of the array is found, and each of two, at the entry and at the return."""
    with probing(k, Fgraph()) as p:
        for taken in [[n] for n in range(FGRAPH_PLACES)] + [[0, 15], [3, 4], [7, 9]]:
            with at_places(k, taken):
                assert p.call() == [2 * len(taken)], taken


def tracer_that_comes_during_the_walk(k: Kernel) -> None:
    """A place that is taken while an earlier one's tracer runs is found in the same walk."""
    bits = k.image.address("fgraph_array_bitmask")
    entry = k.image.address("lab_graph_entry")
    come = k.machine.watching(entry, lambda: k.machine.write_u64(bits, 1 << 2 | 1 << 11))
    with probing(k, Fgraph()) as p, at_places(k, [2, 11]), come:
        k.machine.write_u64(bits, 1 << 2)
        assert p.call() == [4]


def word_that_is_full_to_its_end(k: Kernel) -> None:
    """Behind a word's highest bit there is none; the places up to there have stubs."""
    array, stub = k.image.address("fgraph_array"), k.image.address("fgraph_stub")
    with probing(k, Fgraph()) as p, at_places(k, [5]):
        behind = k.machine.read(array + 8 * 63, 8)
        k.machine.write_u64(array + 8 * 63, stub)
        k.machine.write_u64(k.image.address("fgraph_array_bitmask"), 1 << 5 | 1 << 63)
        assert p.call() == [2]
        k.machine.write(array + 8 * 63, behind)


@contextmanager
def at_places(k: Kernel, taken: list[int]) -> Iterator[None]:
    """For a `with`: the tracer at the first place is at these ones instead, and nothing at the others."""
    array, bits = k.image.address("fgraph_array"), k.image.address("fgraph_array_bitmask")
    tracer, stub = k.machine.read_u64(array), k.image.address("fgraph_stub")
    before = k.machine.read(array, 8 * FGRAPH_PLACES)
    for n in range(FGRAPH_PLACES):
        k.machine.write_u64(array + 8 * n, tracer if n in taken else stub)
    k.machine.write_u64(bits, sum(1 << n for n in taken))
    yield
    k.machine.write(array, before)
    k.machine.write_u64(bits, 1)


def stack_is_at_no_address_of_the_kernels(k: Kernel) -> None:
    """A call on such a stack, as of a CPU that comes back from suspend, is not followed."""
    code = k.image.symbol("ftrace_graph_func")
    looks = [
        i.address
        for i in instructions(k.isa, code.address, k.machine.read(code.address, code.size))
        if i.text.replace(" ", "") == "testrbp,rbp"
    ]
    assert len(looks) == 1
    with probing(k, Fgraph()) as p:
        with k.machine.watching(looks[0], lambda: k.machine.set_register("rbp", k.machine.register("rbp") & (1 << 63) - 1)):
            assert p.call() == [0]
        assert p.call() == [2]


def tracer_that_declines(k: Kernel) -> None:
    """It sees the entry and no return, and the call leaves nothing on the shadow stack."""
    with probing(k, Fgraph(declines=True)) as p:
        tops = []
        assert p.call(lambda: tops.append(task(k)["curr_ret_stack"])) == [1]
        assert tops == [0]


def frame_says_where_the_return_address_was(k: Kernel) -> None:
    """An unwinder finds there where the way to the return trampoline is now, on arm64 the caller's frame pointer."""
    found = []
    frame = Struct(k, "ftrace_ret_stack", 0)

    def look() -> None:
        frame.address = task(k)["ret_stack"]
        found.append((frame["retp"], k.machine.register(k.isa.fp), frame["func"]))

    with probing(k, Fgraph()) as p:
        assert p.call(look) == [2]
        ((place, pointer, function),) = found
        assert function == p.f.site.ip
    if k.isa.name == "arm64":
        assert place == pointer
    else:
        assert k.machine.stack.address < place < k.machine.stack_top
    if k.isa.name == "x86_64":
        assert place == k.machine.stack_top - 64 - 8


def more_data_than_a_tracer_may_keep(k: Kernel) -> None:
    """32 words and no more."""
    for words, kept in ((32, 32), (33, 0)):
        with probing(k, Fgraph(watch=True), words=words) as p:
            assert p.call() == [2] and [row["intact"] for row in watched(k, 2)] == [kept] * 2


def data_of_calls_on_their_way(k: Kernel) -> None:
    """A tracer finds what it keeps for the innermost call, and for each of its callers; a tracer that keeps nothing finds nothing,
    nor does another one."""
    f, group = k.function("call_tree"), Tasks(k, k.function("call_tree"), 1)
    script, below = k.memory(1, 1, 0), {k.isa.sp: k.machine.stack_top - 0x2000}

    def kept(idx: int, depth: int) -> int:
        given = dict(zip(k.isa.args, (idx, 0, depth), strict=False))
        return k.machine.call(k.image.address("fgraph_retrieve_parent_data"), given | below).registers[k.isa.returns[0]]

    watching = Struct(k, "lab_watching", k.image.address("lab_watching"))
    for words in (2, 0):
        with group.ready(), k.attached(f, Fgraph(watch=True)):
            watching["words"], watching["declines"] = words, 0
            k.machine.write_u64(k.image.address("lab_watched_count"), 0)
            group.begin(group.all[0], script, bodies=3)
            left = [row["data"] for row in watched(k, 3)]
            found = [kept(0, depth) for depth in range(4)]
            if words:
                assert [k.machine.read_u64(at) for at in found[:3]] == left[::-1] and found[3] == kept(1, 0) == 0
                assert all(left)
            else:
                assert found == [0] * 4
            assert group.finish(group.all[0]) == script + 24
    k.heap.give(script)


def interrupt_looks(k: Kernel) -> None:
    """At every instruction of the way in and out the frames on the shadow stack can be walked, and each has its way back."""
    looked = []

    def look() -> None:
        base, top = task(k)["ret_stack"], task(k)["curr_ret_stack"]
        looked.append(top)
        while top:
            offset = k.machine.read_u64(base + 8 * (top - 1)) & 0x3FF
            assert 0 < offset < top, f"a word that leads {offset} down, of {top}"
            top -= offset + 1
            assert k.machine.read_u64(base + 8 * top) == k.machine.return_to

    with probing(k, *traced(k)) as p, everywhere(k, look):
        k.machine.write(task(k)["ret_stack"], b"\x5a" * 8 * 40)  # no word is right by luck
        assert p.call() == [2, 2]
    assert {0} < set(looked)


def interrupt_traces(k: Kernel) -> None:
    """At every instruction of the way in and out an interrupt's own frames may be written where no frame is: the call is seen."""

    def trace() -> None:
        base, top = task(k)["ret_stack"], task(k)["curr_ret_stack"]
        k.machine.write(base + 8 * top, b"\x5a" * 8 * 40)

    with probing(k, *traced(k), words=2) as p, everywhere(k, trace):
        assert p.call() == [2, 2]
        assert [row["intact"] for row in watched(k, 4)] == [2] * 4


def traced(k: Kernel) -> list[Fprobe]:
    return [Fprobe(exit=True, watch=True, data=16) for _ in range(2)]


def everywhere(k: Kernel, do) -> ExitStack:
    """For a `with`: something is done at every instruction of the tracer's and of its fprobes'."""
    stack = ExitStack()
    for name in (
        "function_graph_enter_regs",
        "ftrace_graph_func",
        "fgraph_reserve_data",
        "ftrace_return_to_handler",
        "fprobe_return",
    ):
        if name in k.image.symbols:
            symbol = k.image.symbol(name)
            for i in instructions(k.isa, symbol.address, k.machine.read(symbol.address, symbol.size)):
                stack.enter_context(k.machine.watching(i.address, do))
    return stack


CHECKS = {
    check.__name__: check
    for check in (
        depth_of_calls,
        tracer_pauses,
        task_without_a_shadow_stack,
        shadow_stack_is_gone,
        guard_is_held_at_the_return,
        tracer_that_has_gone,
        filter_of_the_tracer,
        tracers_at_other_places,
        tracer_that_comes_during_the_walk,
        word_that_is_full_to_its_end,
        stack_is_at_no_address_of_the_kernels,
        tracer_that_declines,
        frame_says_where_the_return_address_was,
        more_data_than_a_tracer_may_keep,
        data_of_calls_on_their_way,
        interrupt_looks,
        interrupt_traces,
    )
}
#: What would have to change a static call on x86-64.
WALKS = ("tracer_that_has_gone", "tracers_at_other_places", "tracer_that_comes_during_the_walk", "word_that_is_full_to_its_end")
#: The one that looks behind the places that the array has.
BEHIND = "word_that_is_full_to_its_end"
CASES = [
    (place(where.isa, where.release, **dict(graph_mutants.UNBOUNDED)) if name == BEHIND else where, name)
    for where in PLACES
    for name in CHECKS
    if name not in (WALKS if where.isa == "x86_64" else ("stack_is_at_no_address_of_the_kernels",))
]


@pytest.mark.parametrize(("place", "check"), CASES, ids=lambda c: str(c))
def test_in_this_state_too_a_call_comes_out_right(place, check):
    CHECKS[check](booted(place))


@pytest.mark.parametrize("mutant", graph_mutants.MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """By the check that it is for: a call comes out otherwise, or not at all."""
    assert fails(CHECKS[mutant.hook], mutated(mutant).kernel)
