"""Registering and unregistering, against a model of its own.

After every step of a random sequence the model is compared with the records, with the guest's structs and text bytes,
decoded by hand, and with what calls of the traced functions really do.
"""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.models.accounting_guest import Guest
from support.models.accounting_model import POOL_SIZE, Facts, every_kernel
from support.models.accounting_subject import NAMES, Subject, patched, subject_with
from tramplab import Bpf, Direct, Kernel, Ops
from tramplab.base.errors import TramplabError
from tramplab.trampolines.plain.request import REDIRECTING
from tramplab.trampolines.saving import SETS

# --- Random sequences

names = st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple)
few_names = st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=2).map(tuple)
wishes = {"recursion": st.booleans(), "rcu": st.booleans(), "dynamic": st.booleans()}
one_or_two = st.integers(1, 2)
requests = st.one_of(
    st.builds(
        Ops,
        save=st.sampled_from(["args", "args", "regs", *SETS]),
        filter=names,
        notrace=st.one_of(st.just(()), names),
        **wishes,
    ),
    st.sampled_from([(save, callback) for callback, sets in REDIRECTING.items() for save in sets]).flatmap(
        lambda way: st.builds(patched, st.just(way[0]), few_names, st.just(way[1]), **wishes)
    ),
    st.builds(Direct, far=st.booleans(), filter=names.filter(bool)),
    st.builds(  # what guards programs is no matter here, and not known for every release
        Bpf,
        fentry=one_or_two,
        fexit=st.integers(0, 2),
        fmod_ret=st.integers(0, 1),
        filter=few_names,
        guarded=st.just(False),
    ),
)
#: So many trampolines of the largest save set always fit into the room for them; test_saving.py fills it.
MOST_SETS = 2
#: A request is registered; a number picks one of those registered and takes it away.
sequences = st.lists(st.one_of(requests, st.integers(0, 20)), min_size=1, max_size=16)
#: Few per kernel, as there are 24 kernels; `make fuzz` multiplies them.
few = settings(max_examples=max(settings.default.max_examples // 12, 5))


@every_kernel
@few
@given(sequence=sequences, last=st.randoms(use_true_random=False))
def test_random_sequences(isa, release, sequence, last):
    """After every step of a sequence: count, flags, targets, text, literals, list and common calls are the model's;
    calls reach exactly the callbacks they should. What must be refused is, and changes nothing. Back to zero, in
    whatever order, everything is as booted."""
    s = Subject(isa, release)
    for step in sequence:
        if isinstance(step, int):
            if not s.model.tracers:
                continue
            s.unregister(s.model.tracers[step % len(s.model.tracers)])
        else:
            full = getattr(step, "save", "") in SETS and sum(t.own_set for t in s.model.tracers) == MOST_SETS
            if full or not s.register(step):
                continue
        s.check()
        s.play()
    left = list(s.model.tracers)
    last.shuffle(left)
    for t in left:
        s.unregister(t)
        s.check()
    s.play()
    s.check_idle()


# --- Sequences worth having every time


@every_kernel
def test_call_ops_asks_the_ops_that_comes_or_goes(isa, release):
    """Whether the last ops may be called through the literal is decided by the one just added or *removed*: so a lone
    ops that needs the assist function gets the fast path when a plain one left it alone, and a plain one loses it.
    Where there is no CALL_OPS the flag never appears."""
    for stays, goes in itertools.product((Ops(recursion=True), Ops()), repeat=2):
        s = subject_with(isa, release, type(stays)(recursion=stays.recursion, filter=("one_arg",)))
        alone = "CALL_OPS_EN" in s.k.slowpath.records["one_arg"].names
        assert alone == (s.facts.call_ops and not stays.recursion)
        s.register(Ops(recursion=goes.recursion, filter=("one_arg",)))
        s.check()
        assert "CALL_OPS" not in s.k.slowpath.records["one_arg"].names
        s.unregister(s.model.tracers[0])
        s.check()
        assert ("CALL_OPS_EN" in s.k.slowpath.records["one_arg"].names) == (s.facts.call_ops and not goes.recursion)
        s.play()


@every_kernel
def test_direct_call_gives_way_and_comes_back(isa, release):
    """A direct call alone on a function is what its site calls, if it reaches; with an ops beside it both go through a
    common trampoline; when the ops has gone the site calls it again. Both stubs run in all three states."""
    for far in (False, True):
        s = Subject(isa, release)
        if not s.register(Direct(far=far, filter=("one_arg",))):
            assert not s.facts.direct
            return
        stub = s.k.image.address("lab_direct_far" if far else "lab_direct_near")
        # far is out of reach for arm64's BL, and for riscv's JALR behind a fixed AUIPC
        expected = not far or isa == "x86_64" or (isa == "riscv64" and not s.facts.call_ops)
        for _ in range(2):
            s.check()
            s.play()
            assert (s.guest.site("one_arg") == stub) == expected
            s.register(Ops(filter=("one_arg",)))
            s.check()
            s.play()
            name = "ftrace_regs_caller" if s.facts.regs else "ftrace_caller"
            assert s.guest.site("one_arg") == s.k.image.address(name)
            s.unregister(s.model.tracers[0])


@every_kernel
def test_rcu_ops_wait_until_rcu_watches(isa, release):
    """While RCU is not watching, an ops with the RCU flag is not called, alone or in the list; others are, unless the list's guard
    asks, too. Afterwards it is called again."""
    watching = "lab_boot_pcpu"
    for beside in ([], [Ops(filter=("one_arg",))], [Ops(filter=("two_args",))]):
        s = subject_with(isa, release, Ops(rcu=True, filter=("one_arg",)), *beside)
        at = s.k.image.address(watching) + s.k.image.struct("lab_pcpu").fields["rcu_watching"].offset
        for value in (1, 0, 1):
            s.k.machine.write(at, value.to_bytes(4, "little"))
            hits = s.k.call("one_arg", 1).hits
            called = value or not s.k.features["recursion_rcu_test"]
            assert hits == (*(int(called and "one_arg" in r.filter) for r in beside), value)


@every_kernel
def test_refusals_change_nothing(isa, release):
    """A second direct call on a function, also hidden among others, and regs that the release never had: refused
    without a trace. A good request in front of a bad one is taken back."""
    s = Subject(isa, release)
    s.register(Ops(filter=("two_args",)))
    s.register(Direct(filter=("one_arg", "no_args")))
    bad = [Direct(filter=("one_arg",)), Direct(filter=("three_args", "no_args")), Direct(far=True, filter=("no_args",))]
    bad += [] if s.facts.regs else [Ops(save="regs"), Ops(save="regs", filter=("one_arg",))]
    for request in bad:
        assert not s.register(request)
        good = Ops(filter=("three_args",))
        with pytest.raises(TramplabError):
            s.k.attach(None, good, request)
        t = s.model.make(good)
        s.model.register(t)
        s.model.unregister(t)
        s.check()
    s.play()


@every_kernel
def test_every_kind_of_ops_beside_every_other(isa, release):
    """Two of a kind and two of different kinds, on one function and on two that overlap, in both orders: what may share does
    and is called, what may not is refused without a trace; what is left when the first or the second goes is as if alone."""
    kinds = [
        lambda f: Ops(filter=f),
        lambda f: Ops(save="regs", filter=f),
        lambda f: Ops(save="live", filter=f),
        lambda f: patched("args", f),
        lambda f: patched("regs", f),
        lambda f: patched("ip+sp", f, "lab_call_instead"),
        lambda f: Direct(filter=f),
        lambda f: Bpf(fentry=1, filter=f[:1], guarded=False),
        lambda f: Bpf(fexit=1, fmod_ret=1, filter=f[:1], guarded=False),
    ]
    s = Subject(isa, release)
    for first, second in itertools.product(kinds, repeat=2):
        for goes in (0, 1):
            if not s.register(first(("two_args", "one_arg"))):
                break
            s.register(second(("two_args",)))
            s.check()
            s.play()
            s.unregister(s.model.tracers[goes % len(s.model.tracers)])
            s.check()
            s.play()
            while s.model.tracers:
                s.unregister(s.model.tracers[0])
    s.check_idle()


@every_kernel
def test_a_name_twice_counts_once(isa, release):
    """A function named twice in a filter is one function, for ops and for direct calls."""
    twice = ("one_arg", "two_args", "one_arg")
    s = subject_with(isa, release, Ops(filter=twice), Direct(filter=twice), Ops(notrace=twice))
    s.play()
    while s.model.tracers:
        s.unregister(s.model.tracers[0])
        s.check()
    s.check_idle()


@pytest.mark.parametrize(
    ("isa", "release"),
    [("x86_64", "v6.12"), ("arm64", "v6.1"), ("arm64", "v7.2"), ("riscv64", "v6.12"), ("riscv64", "v7.2")],
)
def test_as_many_ops_as_there_is_room_for(isa, release):
    """128 ops on a function are all called; one more is refused without a trace; taken away in a random order they
    leave nothing behind, and 128 fit again."""
    s, rnd = Subject(isa, release), random.Random(release)
    for n in range(POOL_SIZE):
        assert s.register(Ops(filter=("one_arg",), save="regs" if s.facts.regs and n % 3 == 0 else "args"))
    s.check()
    s.play()
    for request in (Ops(), Ops(filter=("two_args",)), *([Direct(filter=("two_args",))] if s.facts.direct else [])):
        assert not s.register(request)
    for n in rnd.sample(range(POOL_SIZE), POOL_SIZE):
        s.unregister(s.model.tracers[n % len(s.model.tracers)])
    s.check()
    s.check_idle()
    for _ in range(POOL_SIZE):
        assert s.register(Ops(filter=("one_arg",)))
    s.check()
    s.play()


def test_full_counter_is_refused_without_a_trace():
    """A record's counter that cannot go up refuses the ops before anything has changed."""
    k = Kernel("arm64", "v6.1")
    k.slowpath.records["one_arg"].counter_bits = 2  # the real ones cannot be filled
    guest = Guest(k, Facts("arm64", "v6.1"))
    k.attach(k.function("one_arg"), Ops(), Ops(), Ops())
    before = guest.everything()
    for request in (Ops(), Ops(filter=("two_args", "one_arg"))):
        with pytest.raises(TramplabError, match=r"one_arg.*counter"):
            k.attach(None, request)
        assert guest.everything() == before
    assert k.call("one_arg", 1).hits == (1, 1, 1)
