"""fprobes on the function graph tracer: which calls fit on the shadow stack, and the tables that they are found in, by plain
models."""

import random
from contextlib import suppress

import pytest

from support.abi import fprobe_abi
from support.abi.probed import booted
from support.mutants.mutants import Mutant, broken
from tramplab import Fgraph, Fprobe, Kernel, Ops, TramplabError
from tramplab.ftrace.layout import bucket
from tramplab.ftrace.steps import Sync, Wait
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.measure import counts_of
from tramplab.returns import Tasks

PLACES = fprobe_abi.ON_GRAPH_TRACER


# --- Which calls are followed


def missed(k: Kernel, ops) -> int:
    return k.machine.read_u64(ops.address + k.image.struct("fprobe").fields["nmissed"].offset)


def followed(depth: int, frame: int, data: int, words: int, most: int) -> tuple[int, int]:
    """(calls seen, calls missed by an fprobe for want of room) of a chain of calls that deep. A frame has so many words and one
    that says what it is, what is kept for it so many and one; both are refused where the top would come to the limit.
    Of a frame that is refused an fprobe does not know."""
    top, seen, fprobes = 0, 0, 0
    for _ in range(depth):
        if top + frame + 1 >= most:
            break
        if top + frame + 1 + data + 1 >= most:
            fprobes += 1  # for this call and, as nothing is kept, for all below it that have room for a frame
            continue
        top += frame + 1 + data + 1
        seen += 1
    assert top <= words
    return seen, fprobes


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("probes", [1, 3])
def test_calls_that_do_not_fit_on_the_shadow_stack_are_missed(place, probes):
    """The stack ends before the tracers' own words, with room for a frame; all is as before afterwards."""
    k = booted(place)
    words = k.image.struct("task_struct").fields["shadow_stack"].size // 8
    frame = k.image.struct("ftrace_ret_stack").size // 8
    depth, f = words // (frame + 2 + probes) + 5, k.function("call_tree")
    at = k.memory(*[1] * (depth - 1), 0)
    seen, lost = followed(depth, frame, probes, words, words - 16 - frame - 1)
    assert 0 < seen < depth
    with k.attached(f, *(Fprobe(entry=False, exit=True) for _ in range(probes))) as registered:
        for n in (1, 2):
            run = k.call(f, at, budget=400_000)
            assert run.hits == (seen,) * probes and run.value == at + 8 * depth
            assert [missed(k, o) for o in registered] == [n * lost] * probes
    k.heap.give(at)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_whoever_declines_keeps_nothing_and_others_are_not_disturbed(place):
    """One that sees only entries, one that declines, one that wants the return: each is called as often as it should be."""
    k = booted(place)
    f = k.function("one_arg")
    alone, declines, wants = Fprobe(), Fprobe(exit=True, declines=True), Fprobe(exit=True)
    for order in ((alone, declines, wants), (wants, declines, alone), (declines, alone)):
        with k.attached(f, *order) as registered:
            hits = dict(zip([o.index for o in k.slowpath.counted], k.call(f, 1).hits, strict=True))
            assert hits == {r.index: 2 if r.request.exit and not r.request.declines else 1 for r in registered}
            depth = k.image.address("init_task") + k.image.struct("task_struct").fields["curr_ret_stack"].offset
            assert k.machine.read(depth, 4) == bytes(4)


# --- Many fprobes on many functions: who is found, and what is left when they go


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_attached_in_any_order_each_sees_its_own_functions(place):
    """Random fprobes come and go; each call is seen by those of its function, and in the end nothing is left."""
    k, rng = booted(place), random.Random(str(place))
    names = ["no_args", "one_arg", "two_args", "three_args", "four_args"]
    free, there = list(k.heap._free), []
    for _ in range(30):
        if there and rng.random() < 0.45:
            k.detach(there.pop(rng.randrange(len(there))))
        else:
            entry, left = rng.choice(((True, False), (False, True), (True, True)))
            chosen = tuple(rng.sample(names, rng.randint(1, len(names))))
            there += k.attach(None, Fprobe(entry=entry, exit=left, filter=chosen))
        name = rng.choice(names)
        counted = k.slowpath.counted
        expected = tuple((o.request.entry + o.request.exit) * o.wants(name) for o in counted)
        assert sorted(o.index for o in counted) == sorted(o.index for o in there)
        assert k.call(name, 1, 2, 3, 4).hits == expected
    k.detach(*there)
    assert not k.slowpath.ops and k.heap._free == free and k.call("one_arg", 1).hits == ()


@pytest.mark.parametrize("isa", ISAS)
def test_the_table_grows_before_it_is_full(isa):
    """With more functions than three in four buckets it has more of them; whoever was found is found."""
    k = Kernel(isa, "v7.2", meter="count")
    table, size = k.image.address("fprobe_ip_table"), k.image.struct("bucket_table").fields["size"]
    free, there = list(k.heap._free), []

    def buckets() -> int:
        return int.from_bytes(k.machine.read(k.machine.read_u64(table) + size.offset, size.size), "little")

    several = k.functions[:16]
    for n in range(1, 8):
        there += k.attach(None, Fprobe(filter=several))
        assert buckets() == (64 if 16 * n <= 48 else 128 if 16 * n <= 96 else 256)
        assert k.call("one_arg", 1).hits == ((1,) if "one_arg" in several else (0,)) * n
    k.detach(*there)
    assert k.machine.read_u64(table) == 0 and k.heap._free == free


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_functions_fprobe_is_where_its_hash_says(place):
    """The first node of a bucket, by the kernel's hash of the address; fixed at 256 buckets where the table does not grow."""
    k = booted(place)
    f, node = k.function("three_args"), k.image.struct("fprobe_hlist_node").fields
    table = k.image.address("fprobe_ip_table")
    with k.attached(f, Fprobe(exit=True)) as (ops,):
        if k.features["fprobe_entry_ops"]:
            first = k.machine.read_u64(table) + k.image.struct("bucket_table").fields["buckets"].offset
            at = first + 8 * (bucket(f.site.ip, 32) & 63)
            found = k.machine.read_u64(at)
            assert k.machine.read_u64(found) == at | 1
        else:
            at = table + 8 * bucket(f.site.ip, 8)
            found = k.machine.read_u64(at)
            assert k.machine.read_u64(found) == 0
        assert k.machine.read_u64(found + node["fp"].offset) == ops.address
        assert k.machine.read_u64(found + node["addr"].offset) == f.site.ip
    assert k.machine.read_u64(table if k.features["fprobe_entry_ops"] else at) == 0


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_ops_is_shared_and_leaves_with_the_last(place):
    """Registered once, not dynamic; those that only see entries have one of their own where the release has it."""
    k = booted(place)
    f, g = k.function("one_arg"), k.function("two_args")
    (first,) = k.attach(f, Fprobe(exit=True))
    (second,) = k.attach(g, Fprobe())
    (third,) = k.attach(f, Fprobe())
    assert len(k.slowpath.ops) == 1 + bool(k.features["fprobe_entry_ops"])
    assert all(not o.flags & 2 for o in k.slowpath.ops)
    assert {k.image.where(o.func) for o in k.slowpath.ops} == (
        {"ftrace_graph_func", "fprobe_ftrace_entry"} if k.features["fprobe_entry_ops"] else {"ftrace_graph_func"}
    )
    k.detach(third)
    assert [k.image.where(o.func) for o in k.slowpath.wanting("one_arg")] == ["ftrace_graph_func"]
    plan = k.slowpath.unregister(second)
    waits = [s.sync for s in plan if isinstance(s, Wait)]
    assert waits[-1] is Sync.CALL_RCU
    k.apply(plan)
    assert not k.slowpath.wanting("two_args") and k.slowpath.records["two_args"].count == 0
    with pytest.raises(TramplabError, match="not registered, or not any more"):
        k.detach(second)
    k.detach(first)
    assert not k.slowpath.ops


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_handler_that_calls_what_it_watches_is_not_called_again(place):
    """The recursion guard is the tracer's: an ops whose callback calls nothing is called, and a nested entry is refused."""
    k = booted(place)
    f = k.function("one_arg")
    guard = k.image.address("init_task") + k.image.struct("task_struct").fields["trace_recursion"].offset
    with k.attached(f, Fprobe(exit=True), Ops()):
        assert k.call(f, 1).hits == (1, 2)
        k.machine.write_u64(guard, 0b11000)  # of the normal context, and the one that is given while contexts change
        run = k.call(f, 1)
        assert run.hits == (1, 0) and "return_to_handler" not in {run.symbol_of(pc) for pc in run.instructions}
        k.machine.write_u64(guard, 0)


# --- Bad input


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Fprobe(exit=True, nodes=3), "shadow stack, so leave nodes= out"),
        (Fprobe(save="regs"), "not all registers"),
        (Fprobe(exit=True, bpf=True), "no BPF program runs"),
    ],
)
@pytest.mark.parametrize("place", PLACES[:1] + PLACES[-1:], ids=str)
def test_what_only_return_hooks_have_is_refused_and_leaves_nothing(place, request_, said):
    k = booted(place)
    before = list(k.heap._free)
    with pytest.raises(TramplabError) as e:
        k.attach(k.function("one_arg"), request_)
    assert said in str(e.value) and "\n" not in str(e.value)
    assert not k.slowpath.everyone and k.heap._free == before


def test_a_heap_that_is_full_leaves_nothing():
    k = Kernel("arm64", meter="count")
    taken, free = [], list(k.heap._free)
    with suppress(TramplabError):
        while True:
            taken.append(k.heap.take(256))
    with pytest.raises(TramplabError, match="heap is full"):
        k.attach(k.function("one_arg"), Fprobe(exit=True))
    assert not k.slowpath.everyone
    for at in taken:
        k.heap.give(at)
    assert k.heap._free == free
    with k.attached(k.function("one_arg"), Fprobe(exit=True)):
        assert k.call("one_arg", 2).hits == (2,)


@pytest.mark.parametrize("isa", ISAS)
def test_a_tracer_alone_sees_every_call_and_its_return(isa):
    """Deep calls too, up to the end of the shadow stack; and nobody else has the tracer meanwhile."""
    k = Kernel(isa, "v7.2", meter="count")
    f, depth = k.function("call_tree"), 400
    at = k.memory(*[1] * (depth - 1), 0)
    with k.attached(f, Fgraph()):
        for calls in (10, depth):
            run = k.call(f, at + 8 * (depth - calls), budget=2_000_000)
            assert run.value == at + 8 * depth
            assert run.hits[0] == 2 * calls if calls == 10 else 100 < run.hits[0] < 2 * depth
        for request in (Fgraph(), Fprobe(exit=True)):
            with pytest.raises(TramplabError, match="one tracer at a time: detach the other one first"):
                k.attach(f, request)
        with k.attached(f, Fprobe()):
            assert k.call(f, at + 8 * (depth - 1)).hits == (1, 2)
    with k.attached(f, Fprobe(exit=True)), pytest.raises(TramplabError, match="one tracer at a time"):
        k.attach(f, Fgraph())
    with k.attached(f, Fgraph()):
        assert k.call(f, at + 8 * (depth - 1)).hits == (2,)
    with pytest.raises(TramplabError, match="leave declines= out"):
        Fgraph(declines=True, watch=True)


def test_a_release_whose_tracer_is_not_built_says_since_when_it_is():
    k = Kernel("x86_64", "v6.12", meter="count")
    with pytest.raises(TramplabError, match=r"the function graph tracer of x86_64 v6\.12; it has x86_64's since v6\.14"):
        k.attach(k.function("one_arg"), Fgraph())


def test_more_exits_than_a_tracer_has_words_for_are_refused_as_a_hook():
    """One more is registered, as kernels do, and then none of them is called."""
    assert hooks.get("fprobe-exit").most == 32 and hooks.get("fprobe").most > 32
    k = Kernel("arm64", "v7.2", meter="count")
    for probes, called in ((32, 32), (33, 0)):
        with k.attached(k.function("one_arg"), *[Fprobe(entry=False, exit=True) for _ in range(probes)]):
            assert sum(k.call("one_arg", 1).hits) == called
    with pytest.raises(TramplabError, match="choose 1 to 32"):
        counts_of("x86_64", "fprobe-exit", callbacks=33)


def gone(k: Kernel) -> tuple[int, int]:
    """Returns that two fprobes see of a call on its way, of which one is unregistered meanwhile: that one, and the other."""
    f, exits = k.function("call_tree"), Fprobe(entry=False, exit=True)
    script, group = k.memory(0), Tasks(k, f, 1)
    with group.ready(), k.attached(f, exits) as (stays,):
        with k.attached(f, Fprobe(entry=False, exit=True)) as (goes,):
            group.begin(group.all[0], script)
        assert group.finish(group.all[0]) == script + 8
        return tuple(k.machine.read_u64(k.slowpath.memory.hits(one.index)) for one in (goes, stays))


@pytest.mark.parametrize("isa", ISAS)
def test_an_fprobe_that_is_gone_before_the_return_is_not_called(isa):
    assert gone(Kernel(isa, "v7.2", meter="count")) == (0, 1)


def test_a_guest_that_does_not_ask_whether_it_is_gone_is_found(tmp_path):
    there, instead = "if (is_fprobe_still_exist(fp) && ", "if ((is_fprobe_still_exist(fp) || 1) && "
    guest = broken(tmp_path, Mutant("x86_64", "v7.2", "", "core/fprobe_graph.c", "asks nobody", there, instead))
    assert gone(Kernel("x86_64", "v7.2", meter="count", guest=guest)) != (0, 1)


@pytest.mark.parametrize(("release", "missed_", "called"), [("v6.16", 1, 0), ("v7.2", 0, 1)])
def test_without_room_those_that_see_entries_alone_are_missed_where_they_share_the_tracer(release, missed_, called):
    k = Kernel("x86_64", release, meter="count")
    f, exits = k.function("one_arg"), [Fprobe(entry=False, exit=True) for _ in range(33)]
    with k.attached(f, *exits, Fprobe()) as ops:
        assert sum(k.call(f, 1).hits) == called
        assert [missed(k, one) for one in ops] == [1] * 33 + [missed_]
