"""What a caller in Python gives by mistake is refused in one sentence that names it; what is meant is taken: numpy's whole numbers,
one name for several, a function by its name."""

import dataclasses
import functools
import math
from pathlib import Path

import numpy as np
import pytest

from support.complaints import complaint, works
from tramplab import Bpf, Direct, Fprobe, Kernel, Kretprobe, Ops
from tramplab import isa as isas
from tramplab.base.processes.capacity import at_once
from tramplab.base.processes.jobs import shared
from tramplab.build import corpus
from tramplab.build.toolchain import GUEST
from tramplab.contention.contend import contend
from tramplab.estimate import cores, returnstack
from tramplab.estimate.measure import measure
from tramplab.grid.cells import units
from tramplab.lab import hooks, sentinels
from tramplab.lab.growing import growing
from tramplab.lab.measure import counts_of, run
from tramplab.lab.reading.walk import walk
from tramplab.native import timing
from tramplab.races.barriers import barriers
from tramplab.races.explore import explore
from tramplab.races.schemes.schemes import scheme
from tramplab.returns.bounds import Bounds
from tramplab.returns.nest import nest
from tramplab.sparsity.structures import frames
from tramplab.sparsity.structures.providers import provider
from tramplab.trampolines.placed import Placed
from tramplab.trampolines.shapes import Shape
from tramplab.unwind import stacks, unwind


@pytest.fixture(scope="module")
def k() -> Kernel:
    """A kernel that the tests share; each leaves it as it was."""
    return Kernel("arm64")


# --- Numbers

#: Never whole numbers, whatever is asked for; numbers that are too large, or less than none, nearly anywhere.
NONE = (1.5, math.nan, "1", True, [1], np.float64(1))
HUGE, LESS = 1 << 70, -1


@functools.cache
def safe():
    """A subject that is explored in a moment."""
    return scheme("riscv64-pair").subject()


def contended(**how):
    return contend("arm64", "freelist", 2, **{"operations": 4, **how})


def bounds() -> Bounds:
    return Bounds(lambda: Kernel("arm64", meter="count"), lambda: Kretprobe(breakpoint=True, maxactive=2))


LIGHT = provider("ftrace_caller")
#: What the sentence names; what is asked; numbers that will not do besides those above, and one that will.
ASKED = [
    ("budget", lambda k, n: k.call("one_arg", 1, budget=n), (LESS, HUGE, None), 99),
    ("argument 1", lambda k, n: k.call("one_arg", n), (HUGE, -HUGE, None), 5),
    ("argument 8", lambda k, n: k.call("eight_args", *range(7), n), (HUGE, -HUGE, None), 5),
    ("register x9", lambda k, n: k.call("one_arg", 1, registers={"x9": n}), (HUGE, -HUGE, None), 5),
    ("cpu", lambda k, n: k.call("one_arg", 1, cpu=n), (LESS, HUGE, None), 0),
    ("cpus", lambda k, n: Kernel("arm64", cpus=n), (0, LESS, 65, HUGE, None), 1),
    ("room_at", lambda k, n: Kernel("arm64", room_at=[n]), (None,), 1 << 40),
    ("limit", lambda k, n: k.call("one_arg", 1).disassembly(n), (LESS, None), 2),
    ("word 1", lambda k, n: k.heap.give(k.memory(n)), (HUGE, -HUGE, None), 5),
    ("args", lambda k, n: run("arm64", "none", args=n), (None,), 2),
    ("callbacks", lambda k, n: run("arm64", "ops", callbacks=n), (0, HUGE, None), 2),
    ("args", lambda k, n: measure("arm64", "none", args=n), (None,), 2),
    ("callbacks", lambda k, n: counts_of("arm64", "none", callbacks=n), (None,), 1),
    ("arguments", lambda k, n: sentinels.play(k, "one_arg", (), n), (LESS, HUGE, None), 1),
    ("fentry", lambda k, n: Bpf(fentry=n), (None,), 2),
    ("fexit", lambda k, n: Bpf(fexit=n), (None,), 2),
    ("nodes", lambda k, n: Fprobe(exit=True, nodes=n), (0, LESS), 2),
    ("data", lambda k, n: Fprobe(exit=True, data=n), (LESS, None), 2),
    ("maxactive", lambda k, n: Kretprobe(maxactive=n), (LESS, None), 2),
    ("several", lambda k, n: Kretprobe(several=n), (0, LESS, None), 2),
    ("saves", lambda k, n: Shape(n, 1, True), (0, HUGE, None), 4),
    ("at", lambda k, n: Placed(at=n), (None,), 8),
    ("threads", lambda k, n: explore(safe(), n), (0, 17, HUGE, None), 1),
    ("most", lambda k, n: explore(safe(), 1, most=n), (0, LESS, HUGE, None), 99),
    ("dropped", lambda k, n: explore(safe(), 1, dropped=(n,)), (LESS, 99, HUGE, None), barriers(safe())[0].numbers[0]),
    ("cpus", lambda k, n: contend("arm64", "freelist", n, operations=4), (0, HUGE, None), 2),
    ("nodes", lambda k, n: contended(nodes=n), (0, LESS), 4),
    ("depth", lambda k, n: contended(depth=n), (0, LESS, HUGE, None), 1),
    ("asleep", lambda k, n: contended(asleep=n), (LESS, HUGE, None), 1),
    ("between", lambda k, n: contended(between=n), (LESS, HUGE, None), 1),
    ("operations", lambda k, n: contended(operations=n), (0, LESS, HUGE, None), 4),
    ("seed", lambda k, n: contended(seed=n), (None,), 7),
    ("granule", lambda k, n: contended(granule=n), (LESS, HUGE, None), 64),
    ("limit", lambda k, n: bounds().depth(n), (0, LESS, None), 1),
    ("tasks", lambda k, n: bounds().depth(1, tasks=n), (0, LESS, None), 1),
    ("guess", lambda k, n: bounds().depth(1, guess=n), (None,), 1),
    ("depth", lambda k, n: bounds().tasks(1, depth=n), (0, LESS, None), 1),
    ("tasks", lambda k, n: nest(k, Kretprobe(breakpoint=True), n, 1), (0, LESS, None), 1),
    ("depth", lambda k, n: nest(k, Kretprobe(breakpoint=True), 1, n), (0, LESS, HUGE, None), 1),
    ("entries", lambda k, n: returnstack.replay(k.call("one_arg", 1), entries=n), (0, LESS, HUGE, None), 4),
    ("callers", lambda k, n: returnstack.replay(k.call("one_arg", 1), callers=n), (LESS, HUGE, None), 4),
    ("entries", lambda k, n: returnstack.settled(k.call("one_arg", 1), n), (0, LESS, HUGE, None), 4),
    ("functions", lambda k, n: corpus.sizes(n), (0, LESS, HUGE, None), 4),
    ("seeds", lambda k, n: frames.watched(k, LIGHT, (n,), (0,)), (LESS, HUGE, None), 1),
    ("poisons", lambda k, n: frames.watched(k, LIGHT, (0,), (n,)), (LESS, HUGE, None), 1),
    ("args", lambda k, n: units("arm64", "ops", args=(n,)), (LESS, 13, HUGE, None), 12),
    ("callbacks", lambda k, n: units("arm64", "ops", callbacks=(n,)), (LESS, 0, HUGE, None), 8),
    ("megabytes", lambda k, n: at_once(n), (LESS, 0, None), 8),
    # right ones would take too long
    ("rounds", lambda k, n: timing.time_hooks(rounds=n), (0, LESS, HUGE, None), None),
    ("windows", lambda k, n: timing.time_shapes(windows=n), (0, LESS, HUGE, None), None),
    ("cpu", lambda k, n: timing.time_hooks(cpu=n), (LESS, HUGE), None),
    ("where", lambda k, n: shared(abs, [1], n, "").__enter__(), (0, LESS, HUGE, None), None),
]


@pytest.mark.parametrize(("what", "ask", "wrong", "right"), ASKED, ids=[f"{n}-{a[0]}" for n, a in enumerate(ASKED)])
def test_a_number_that_will_not_do_is_named_and_numpys_will(k, what, ask, wrong, right):
    for bad in (*NONE, *wrong):
        if what == "where" and isinstance(bad, str):
            continue  # a scheduler's address
        said = complaint(lambda bad=bad: ask(k, bad))
        assert what in said.lower() and len(said) < 250, said
    if right is not None:
        ask(k, right)
        ask(k, np.int64(right))


def test_seconds_and_switches():
    """A number of seconds may be none that is whole; a switch is no number."""
    for bad in (0, -1, math.nan):
        assert "seconds above 0" in complaint(lambda bad=bad: explore(safe(), 1, seconds=bad))
    for bad in (True, None, "1"):
        assert "seconds is a number, not" in complaint(lambda bad=bad: explore(safe(), 1, seconds=bad))
    assert {explore(safe(), 1, seconds=right).verdict for right in (1.5, np.int64(9), math.inf)} == {"safe"}
    for bad in (1, "yes", None):
        for ask in (
            lambda on: Ops(recursion=on),
            lambda on: Kernel("arm64", traps=on),
            lambda on: explore(safe(), 1, reduced=on),
            lambda on: contended(unreduced=on),
        ):
            assert "is True or False, not" in complaint(lambda ask=ask, bad=bad: ask(bad))
    assert Ops(recursion=np.bool_(True)).recursion is True


def test_what_numpy_counted_is_an_int_from_there_on():
    found = measure("arm64", "ops", args=np.int64(2), callbacks=np.uint8(1))
    assert type(found["args"]) is type(found["callbacks"]) is int
    assert type(Bpf(fentry=np.int64(2)).fentry) is type(Shape(np.int8(3), 0, False).saves) is int


def test_a_limit_that_would_never_end_is_refused_and_a_loop_ends(k):
    """A budget below 0 was taken for more instructions than anybody waits for."""
    loop = k.function("one_arg").site.body
    before, jump = k.machine.read(loop, 4), bytes.fromhex("00000014")
    k.machine.poke(loop, jump)
    try:
        assert "budget" in complaint(lambda: k.call("one_arg", 1, budget=-1))
        with pytest.raises(isas.TramplabError, match="did not return within 1000 instructions"):
            k.call("one_arg", 1, budget=1000)
    finally:
        k.machine.poke(loop, before)
    works(k)


# --- Names and functions


def test_a_function_goes_by_its_name(k):
    """Wherever it is asked for, and so does a filter of one."""
    f = k.function("two_args")
    assert k.function(f) is not None and k.function(f) == f
    with k.attached("two_args", Ops()):
        assert [k.call(name, 1, 2).hits for name in ("two_args", f, "three_args")] == [(1,), (1,), (0,)]
    with growing(k, "two_args") as attach:
        attach([Ops(), Ops(filter="three_args")])
        assert k.call(f, 1, 2).hits == (0, 1) and k.call("three_args", 1, 2, 3).hits == (1, 0)
    with k.attached(None, Ops(notrace="two_args")), k.attached(None, Ops(filter=["two_args", "two_args"])):
        assert k.call(f, 1, 2).hits == (1, 0)
    assert Bpf(fentry=1, filter="two_args").filter == Ops(filter=iter(["two_args"])).filter == ("two_args",)
    assert walk(k, "two_args", 1, 2) == walk(k, f, 1, 2)
    called = unwind.watch(k, "calls_others", "two_args", 1, 2, 3)
    assert len(called[1]) == len(stacks.watch(k, "calls_others", "two_args", (1, 2, 3))[1])
    assert len(units("arm64", "ops")) == len(units(("arm64",), ("ops",))) > 0
    works(k)


@pytest.mark.parametrize("wrong", [5, None, ["one_arg"], b"one_arg", Ops])
def test_what_is_no_name_is_refused(k, wrong):
    asked = [lambda: k.call(wrong, 1), lambda: k.function(wrong), lambda: isas.get(wrong), lambda: hooks.get(wrong)]
    asked += [lambda: cores.get(wrong), lambda: Kernel("arm64", "v7.2", call_ops=[wrong]), lambda: scheme(wrong)]
    asked += [lambda: Ops(save=wrong), lambda: Ops(callback=wrong), lambda: Kernel("arm64", slow_path=wrong)]
    if wrong is not None:
        asked.append(lambda: k.attach(wrong, Ops()))
    if wrong != ["one_arg"]:
        asked += [lambda: Ops(filter=(wrong,)), lambda: Direct(filter=(wrong,)), lambda: units(hook_names=(wrong,))]
    for ask in asked:
        assert len(complaint(ask)) < 1000
    works(k)


def test_a_function_of_another_kernel_is_refused(k):
    """Unless it is the same function, as that of a kernel of the same image is."""
    for other in (Kernel("riscv64", meter="count"), Kernel("arm64", "v6.1", meter="count")):
        f = other.function("two_args")
        for ask in (
            lambda f=f: k.call(f, 1, 2),
            lambda f=f: k.attach(f, Ops()),
            lambda f=f: walk(k, f, 1, 2),
            lambda f=f: unwind.watch(k, "calls_others", f, 1, 2, 3),
            lambda f=f: sentinels.play(k, f, (), 2),
        ):
            assert f"two_args at {f.address:#x} is a function of another kernel" in complaint(ask)
    assert k.call(Kernel("arm64", meter="count").function("two_args"), 1, 2).value == 13
    instead = dataclasses.replace(k.function("one_arg"), name="new_one_arg", address=k.image.address("new_one_arg"))
    assert k.call(instead, 1).function is instead, "one that is not traced, in the place of one that is"
    assert "new_one_arg" in complaint(lambda: k.call(dataclasses.replace(instead, address=instead.address + 4), 1))
    works(k)


# --- Requests


def test_a_request_is_attached_once(k):
    """Each is one registration; where it is free again it can be attached again, also on another kernel meanwhile."""
    o, d = Ops(), Direct(filter="two_args")
    f = k.function("one_arg")
    assert complaint(lambda: k.attach(f, o, o)) == "that Ops is attached already: detach it first, or make another Ops()."
    assert not k.slowpath.ops
    with k.attached(f, o) as (ops,), k.attached(None, d):
        assert "that Ops is attached already" in complaint(lambda: k.attach("two_args", Ops(), o))
        assert "that Direct is attached already" in complaint(lambda: k.attach("three_args", d))
        other = Kernel("arm64", meter="count")
        other.detach(*other.attach(f, o))
        assert len(k.slowpath.ops) == 2 and k.call(f, 1).hits == (0, 1)
    with k.attached("two_args", o) as (again,):
        assert again is not ops and again.functions == ("two_args",)
    works(k)


def test_what_is_no_request_is_refused(k):
    f = k.function("one_arg")
    for wrong in (Ops, [Ops()], None, "ops", 5):
        assert "what is attached is a request, such as Ops()" in complaint(lambda wrong=wrong: k.attach(f, Ops(), wrong))
    attached = k.attach(f, Ops(), Ops())
    for wrong in (attached, attached[0].request, None, 5):
        assert "one by one, as in detach(*ops)" in complaint(lambda wrong=wrong: k.detach(wrong))
    assert k.call(f, 1).hits == (1, 1)
    k.detach(*attached)
    assert "memory() of no words" in complaint(k.memory)
    assert "registers= is names with numbers" in complaint(lambda: k.call(f, 1, registers=["x9"]))
    works(k)


# --- Folders


def test_a_folder_without_a_guest_is_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "nowhere", tmp_path / "empty", Path(__file__), "x" * 300, "", tmp_path / ("x" * 300)):
        for make in (functools.partial(Kernel, "arm64"), contended):
            said = complaint(functools.partial(make, guest=wrong))
            assert "no guest can be built of" in said and f"a copy of {GUEST}" in said
    for wrong in (None, 5, b"guest"):
        assert "guest is a path, not" in complaint(lambda wrong=wrong: Kernel("arm64", guest=wrong))
    assert Kernel("arm64", guest=str(GUEST), meter="count").call("one_arg", 2).value == 6
