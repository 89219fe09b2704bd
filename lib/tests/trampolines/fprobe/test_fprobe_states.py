"""fprobes in states that few calls meet: one that is disabled or unregistered while a call is on its way, words that are used
again, a CPU that RCU does not watch. Each check fails on the mutants that name it (support/mutants/fprobe_mutants.py);
long because each state is one check.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.abi.members import Struct, cpu, task
from support.abi.probed import (
    CALLED,
    DISABLED,
    GUARD,
    KPROBE_SHARED,
    TWO,
    Probes,
    booted,
    ends,
    exits,
    fails,
    new_task,
    place,
    probing,
    watched,
)
from support.mutants import fprobe_mutants
from tramplab import Fgraph, Fprobe, Kernel, Ops
from tramplab.ftrace.layout import bucket
from tramplab.isa import ISAS
from tramplab.lab.view import Function
from tramplab.returns import Tasks

#: The table that grows, with the ops of those that only see entries; and what was before.
GROWING, FIXED = (place("x86_64", "v7.2"), place("arm64", "v7.2"), place("riscv64", "v7.2")), (place("x86_64", "v6.16"),)
#: With the end of the list that v7.3 has.
ENDED = tuple(place(isa, "v7.2", fprobe_list_end="word") for isa in ISAS)
#: On return hooks.
HOOKS = (
    place("x86_64", "v5.18"),
    place("x86_64", "v6.12"),
    place("arm64", "v7.2", rethook="shadow"),
    place("riscv64", "v6.9"),
)


def disabled_at_the_entry(k: Kernel) -> None:
    """One that is disabled is called at neither end, nor does it miss anything; the others are called."""
    with probing(k, Fprobe(exit=True), Fprobe(exit=True), Fprobe(), Fprobe()) as p:
        for _ in range(2):
            assert p.call() == [2, 2, 1, 1]
            with p.struct(0).having(flags=DISABLED), p.struct(2).having(flags=DISABLED):
                assert p.call() == [0, 2, 0, 1]
        assert p.missed() == [0] * 4


def disabled_at_the_return(k: Kernel) -> None:
    """One that is disabled while a call is on its way does not see it return; the next call is seen."""
    with probing(k, *exits(2)) as p:
        for n, seen in ((0, [0, 1]), (1, [1, 0])) * 2:
            with p.struct(n).having(flags=0):
                assert p.call(lambda n=n: p.struct(n).put({"flags": DISABLED})) == seen
            assert p.call() == [1, 1]
        assert p.missed() == [0, 0]


def rcu_does_not_watch(k: Kernel) -> None:
    """No handler is called meanwhile, at neither end; a call on its way when RCU stops watching is not seen to return."""
    with probing(k, Fprobe(exit=True), Fprobe()) as p:
        for watching, seen in ((0, [0, 0]), (1, [2, 1])):
            with cpu(k).having(rcu_watching=watching):
                assert p.call() == seen
    with probing(k, *exits(1)) as p:
        assert p.call(*(lambda n=n: cpu(k).put({"rcu_watching": n}) for n in (0, 1))) == [0]
        assert p.call() == [1]


def list_is_ended(k: Kernel) -> None:
    """A probe that declines a call does not see it return, by words that the call before has left where the probe's would be; nor
    do probes of another function, which a call of that has left."""
    for declining in (0, 1):
        requests = exits(2)
        requests[declining] = Fprobe(exit=True, watch=True)
        with probing(k, *requests, declines=8) as p:
            for first, seen in ((5, 2), (8, 1), (5, 2), (8, 1)):
                assert p.call(first=first) == [seen if n == declining else 1 for n in (0, 1)]
    assert called_elsewhere(k) == [0, 0, 0]


def list_is_not_ended(k: Kernel) -> None:
    """Up to v7.2 handlers of another function's probes are called for a call that two of three decline: of words that are left as
    they are, both; where their bytes are counted as words, the last, as the address in the first is none."""
    assert called_elsewhere(k) == ([1, 0, 0] if k.features["fprobe_list_end"] == "bytes" else [1, 1, 0])


def called_elsewhere(k: Kernel) -> list[int]:
    """How often handlers of each of three probes are called in a call of another function, by the words of a call of theirs."""
    two = [Fprobe(exit=True, declines=True) for _ in range(2)]
    with (
        k.attached("no_args", Ops()),  # so that no probe is at the first address of the heap, whose low bytes are zero
        k.attached(CALLED, *exits(3)) as ones,
        k.attached("one_arg", *exits(1), *two) as others,
    ):
        p = Probes(k, (*ones, *others))
        assert p.call() == [1, 1, 1, 0, 0, 0]
        before = p.hits()
        assert k.call("one_arg", 1).value
        called = [now - then for now, then in zip(p.hits(), before, strict=True)]
        assert called[3:] == [1, 1, 1]
        return called[:3]


def data_of_an_odd_size(k: Kernel) -> None:
    """Probes with 12 bytes for each call have two words: what a handler left there is there at the return, and is nobody else's. So
    has a tracer that asks for as many."""
    with probing(k, *(Fprobe(exit=True, watch=True, data=16) for _ in range(3)), words=2) as p:
        for n in range(3):
            p.struct(n)["entry_data_size"] = 12  # which is rounded up where it is registered, too
        assert p.call() == [2, 2, 2]
        seen = watched(k, 6)
        assert [row["intact"] for row in seen] == [2] * 6
        assert sorted(row["data"] for row in seen[:3]) == sorted(row["data"] for row in seen[3:]) and seen[0]["data"]
    asked = k.isa.args[1]
    ask = k.machine.watching(
        k.image.address("fgraph_reserve_data"), lambda: k.machine.set_register(asked, k.machine.register(asked) - 4)
    )
    with probing(k, Fgraph(watch=True), words=2) as p, ask:
        assert p.call() == [2] and [row["intact"] for row in watched(k, 2)] == [2, 2]


def guard_of_entries(k: Kernel) -> None:
    """Those that see entries alone are not called while the recursion guard is held; they hold it while they run."""
    held = []
    with probing(k, Fprobe()) as p:
        with k.machine.watching(k.image.address("lab_fprobe_entry"), lambda: held.append(task(k)["trace_recursion"] & GUARD)):
            assert p.call() == [1] and any(held)
        with task(k).having(trace_recursion=GUARD):
            assert p.call() == [0]


def functions_of_one_bucket(k: Kernel) -> None:
    """A call of one is no concern of the other's probes: they do not see it, nor is room taken for them, nor do they miss it."""
    half = 120  # bytes, with a header, of the words that a call can have
    f, g = k.function(CALLED), k.function("one_arg")
    for first in (False, True):
        with (
            k.attached(f, *exits(1, half), Fprobe()) as own,
            k.attached(g, *exits(2, half), Fprobe()) as others,
            in_its_bucket(k, f, g, first),
        ):
            assert Probes(k, (*own, *others)).call() == [1, 1, 0, 0, 0]
        with (
            k.attached(f, *exits(3, half), Fprobe()) as own,
            k.attached(g, *exits(1, half), Fprobe()) as others,
            in_its_bucket(k, f, g, first),
        ):
            p, lone = Probes(k, (*own, *others)), int(not k.features["fprobe_entry_ops"])
            assert p.call() == [0, 0, 0, 1 - lone, 0, 0] and p.missed() == [1, 1, 1, lone, 0, 0]


@contextmanager
def in_its_bucket(k: Kernel, f: Function, g: Function, first: bool) -> Iterator[None]:
    """For a `with`: what the table of fprobes has of g is in the bucket of f too, in front of what is there or after it."""
    own, other = head(k, f), head(k, g)
    chains = [[k.machine.read_u64(at)] for at in (own, other)]
    for chain in chains:
        while (after := k.machine.read_u64(chain[-1])) and not after & 1:
            chain.append(after)
    one, two = chains[::-1] if first else chains
    before = {at: k.machine.read_u64(at) for at in (own, one[-1])}
    for at, value in ((own, one[0]), (one[-1], two[0])):
        k.machine.write_u64(at, value)
    try:
        yield
    finally:
        for at, value in before.items():
            k.machine.write_u64(at, value)


def head(k: Kernel, f: Function) -> int:
    """Where the bucket of a function begins."""
    table = k.image.address("fprobe_ip_table")
    if not k.features["fprobe_entry_ops"]:
        return table + 8 * bucket(f.site.ip, 8)
    grown = Struct(k, "bucket_table", k.machine.read_u64(table))
    return grown.address + k.image.struct("bucket_table").fields["buckets"].offset + 8 * (bucket(f.site.ip, 32) & grown["size"] - 1)


def place_of(p: Probes, n: int) -> Struct:
    """Where the table of fprobes has the nth."""
    nodes = p.k.image.struct("fprobe_hlist").fields["nodes"].offset
    return Struct(p.k, "fprobe_hlist_node", p.struct(n)["hlist_array"] + nodes)


def missed_without_room(k: Kernel) -> None:
    """Those that want the return miss the call; not one that is disabled, nor one that an ops of its own calls all the same."""
    own = bool(k.features["fprobe_entry_ops"])
    with probing(k, *exits(34), Fprobe(), Fprobe(exit=True)) as p:
        with p.struct(35).having(flags=DISABLED), place_of(p, 0).having(fp=0):
            assert p.call() == [0] * 34 + [int(own), 0]
        assert p.missed() == [0] + [1] * 33 + [int(not own), 0]


def probe_that_came_later(k: Kernel) -> None:
    """One that wants returns only once room was taken for the others is left out of this call, and sees the next."""
    with probing(k, Fprobe(exit=True), Fprobe(exit=True)) as p:
        for n in (0, 1):
            handler = p.struct(n)["exit_handler"]
            p.struct(n)["exit_handler"] = 0
            with k.machine.watching(
                k.image.address("fgraph_reserve_data"), lambda n=n, at=handler: p.struct(n).put({"exit_handler": at})
            ):
                assert sorted(p.call()) == [0, 2]
            assert p.call() == [2, 2]


def probe_that_has_gone(k: Kernel) -> None:
    """Its places in the table are there a while longer, without it, or its bucket is empty: it is not called, and others are."""
    with probing(k, Fprobe(exit=True), Fprobe(exit=True), Fprobe()) as p:
        with place_of(p, 0).having(fp=0), place_of(p, 2).having(fp=0):
            assert p.call() == [0, 2, 0]
        begins = head(k, p.f)
        kept = k.machine.read_u64(begins)
        k.machine.write_u64(begins, 0)
        assert p.call() == [0, 0, 0]
        k.machine.write_u64(begins, kept)
        assert p.call() == [2, 2, 1]


def probe_without_a_handler(k: Kernel) -> None:
    """Which is refused where a probe is made: the others are called."""
    with probing(k, Fprobe(exit=True), Fprobe(exit=True), Fprobe(), Fprobe()) as p:
        for n, seen in ((0, [1, 2, 1, 1]), (2, [2, 2, 0, 1])):
            with p.struct(n).having(entry_handler=0):
                assert p.call() == seen


def entry_on_a_full_stack(k: Kernel) -> None:
    """With room for a frame alone, one that sees only entries is called."""
    words = k.image.struct("task_struct").fields["shadow_stack"].size // 8
    own = k.image.struct("ftrace_ret_stack").size // 8 + 1
    with probing(k, Fprobe()) as p:
        for top, seen in ((words - 16 - 2 * own - 1, [1]), (words - 16 - 2 * own, [0])):
            with task(k).having(curr_ret_stack=top):
                assert p.call() == seen


def probe_that_goes_meanwhile(k: Kernel) -> None:
    """One that is unregistered while a call is on its way does not see it return, be there another one in its bucket or not."""
    f, group, table = k.function(CALLED), Tasks(k, k.function(CALLED), 1), k.image.address("fprobe_table")
    with group.ready(), k.attached(f, *exits(1)) as stays:
        with k.attached(f, *exits(1)) as goes:
            group.begin(group.all[0], 5, 7)
            at = table + 8 * bucket(goes[0].address, 6)
        p, kept = Probes(k, (*stays, *goes)), k.machine.read_u64(at)
        before = p.hits()
        k.machine.write_u64(at, p.struct(0)["hlist_array"])
        assert group.finish(group.all[0]) == TWO
        k.machine.write_u64(at, kept)
        assert [now - then for now, then in zip(p.hits(), before, strict=True)] == [1, 0]


def more_data_than_a_header_counts(k: Kernel) -> None:
    """Which is refused where a probe is registered: the probe does not see the return, if the list is ended, and the other does."""
    with probing(k, Fprobe(exit=True), Fprobe(exit=True)) as p:
        for n in (0, 1):
            with p.struct(n).having(entry_data_size=16 * 8):
                assert p.call() == [1 if m == n else 2 for m in (0, 1)]


def header_that_counts_too_many_words(k: Kernel) -> None:
    """The probe is not called for a call whose words it cannot have."""
    with probing(k, *exits(1)) as p:

        def count() -> None:
            at = task(k)["ret_stack"] + 8 * (task(k)["curr_ret_stack"] - 2)
            k.machine.write_u64(at, k.machine.read_u64(at) | 15 << 60)

        assert p.call(count) == [0] and p.call() == [1]


def shared_with_kprobes(k: Kernel) -> None:
    """No such fprobe is made: a call that meets one ends."""
    for request in (Fprobe(exit=True), Fprobe()):
        with probing(k, request) as p:
            with p.struct(0).having(flags=KPROBE_SHARED):
                assert ends(lambda p=p: k.call(p.f, 5, 7))
            new_task(k)
            assert p.call() == [1 + request.exit]


def table_in_pages_of_its_own(k: Kernel) -> None:
    """No such table is made: a call that meets one ends."""
    table = Struct(k, "bucket_table", 0)
    for request in (Fprobe(exit=True), Fprobe()):
        with probing(k, request) as p:
            table.address = k.machine.read_u64(k.image.address("fprobe_ip_table"))
            with table.having(nest=1):
                assert ends(lambda p=p: k.call(p.f, 5, 7))
            new_task(k)
            assert p.call() == [1 + request.exit]


CHECKS = {
    check.__name__: check
    for check in (
        disabled_at_the_entry,
        disabled_at_the_return,
        rcu_does_not_watch,
        list_is_ended,
        list_is_not_ended,
        data_of_an_odd_size,
        guard_of_entries,
        functions_of_one_bucket,
        missed_without_room,
        probe_that_came_later,
        probe_that_has_gone,
        probe_without_a_handler,
        entry_on_a_full_stack,
        probe_that_goes_meanwhile,
        more_data_than_a_header_counts,
        header_that_counts_too_many_words,
        shared_with_kprobes,
        table_in_pages_of_its_own,
    )
}
#: Of the ops of those that only see entries, and of the table that grows; of what was before; of a list that is ended; and of every
#: fprobe.
_GROWING, _FIXED = {"guard_of_entries", "table_in_pages_of_its_own"}, {"entry_on_a_full_stack"}
_OTHERS = ("list_is_ended", "more_data_than_a_header_counts")
_ALL = ("disabled_at_the_entry", "disabled_at_the_return")
CASES = [
    *((where, name) for where in GROWING for name in CHECKS if name not in (*_FIXED, *_OTHERS)),
    *((where, name) for where in FIXED for name in CHECKS if name not in (*_GROWING, *_OTHERS)),
    *((where, name) for where in ENDED for name in _OTHERS),
    *((where, name) for where in HOOKS for name in _ALL),
]


@pytest.mark.parametrize(("place", "check"), CASES, ids=lambda c: str(c))
def test_in_this_state_too_a_call_comes_out_right(place, check):
    CHECKS[check](booted(place))


@pytest.mark.parametrize("mutant", fprobe_mutants.MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """By the check that it is for: a call comes out otherwise, or not at all."""
    assert fails(CHECKS[mutant.hook], mutated(mutant).kernel)
