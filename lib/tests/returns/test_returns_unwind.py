"""Recovery of hooked return addresses against where the CPU really returns to, for nested calls with several mechanisms at once;
and chains that cross exceptions."""

import contextlib
import functools

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tramplab import Kernel
from tramplab.isa import ISAS
from tramplab.returns.mechanisms import breaks
from tramplab.trampolines.fprobe import Fgraph, Fprobe
from tramplab.trampolines.kprobe import Kretprobe
from tramplab.unwind import orc, recovery, stacks
from tramplab.unwind.stacks import MISSING, RETURNED, RIGHT, WRONG, watch

KRETPROBE, TRACER, PROBE = "kretprobe", "fgraph", "fprobe"
#: On return hooks, with instances, on the graph tracer; riscv64's graph tracer keeps another place than is asked for.
PLACES = {
    ("x86_64", "v5.17"): (KRETPROBE,),
    ("x86_64", "v6.12"): (PROBE, KRETPROBE),
    ("x86_64", "v7.2"): (TRACER, KRETPROBE),
    ("arm64", "v6.1"): (KRETPROBE,),
    ("arm64", "v6.12"): (KRETPROBE,),
    ("arm64", "v7.2"): (TRACER, KRETPROBE),
    ("riscv64", "v6.1"): (KRETPROBE,),
    ("riscv64", "v6.9"): (PROBE, KRETPROBE),
}
CALLED = {"calls_others": ("two_args", "three_args"), "tail_call": ("two_args",), "call_tree": ()}
ARGUMENTS = (3, 4, 5)
TREES = st.recursive(st.just(()), lambda below: st.lists(below, max_size=3).map(tuple), max_leaves=6)
SOME = st.sets(st.sampled_from([KRETPROBE, TRACER, PROBE]))


@functools.lru_cache(maxsize=2)
def booted(isa: str, release: str) -> Kernel:
    return Kernel(isa, release, meter="record")


def request(kernel: Kernel, what: str):
    if what == KRETPROBE:
        return Kretprobe(breakpoint=breaks(kernel.isa.name, kernel.features.release), maxactive=40)
    return Fgraph() if what == TRACER else Fprobe(entry=False, exit=True, nodes=40)


def script(tree) -> list[int]:
    return [len(tree), *(word for below in tree for word in script(below))]


def bodies(kernel: Kernel, caller: str, arguments, looked) -> list[int]:
    """Make a call; looked() is asked at each body, and the instructions of the C code that ran are given back."""
    with contextlib.ExitStack() as stack:
        for name in (caller, *CALLED[caller]):
            stack.enter_context(kernel.machine.watching(kernel.function(name).site.body, looked))
        run = kernel.call(kernel.function(caller), *arguments, budget=400_000)
    inside = [kernel.function(name) for name in (caller, *CALLED[caller])]
    own = [range(f.site.body, f.address + f.size) for f in inside]
    return [pc for pc in run.recording.pc.tolist() if any(pc in code for code in own)]


@pytest.mark.parametrize(("isa", "release"), PLACES)
@settings(max_examples=settings.default.max_examples // 10)
@given(caller=st.sampled_from(sorted(CALLED)), tree=TREES, outer=SOME, inner=SOME)
@example(caller="calls_others", tree=(), outer={KRETPROBE}, inner={TRACER, PROBE})
@example(caller="calls_others", tree=(), outer={TRACER, PROBE}, inner={KRETPROBE})
@example(caller="tail_call", tree=(), outer={KRETPROBE}, inner={KRETPROBE, TRACER, PROBE})
@example(caller="call_tree", tree=(((),), ((), ())), outer={KRETPROBE, TRACER, PROBE}, inner=set())
def test_what_is_recovered_is_where_the_cpu_returns_to(isa, release, caller, tree, outer, inner):
    """At the start of every function of the call, for all calls that have not returned: the address at hand is replaced by the one
    that is there without any hook, and the same C code runs after it."""
    kernel, there = booted(isa, release), PLACES[isa, release]
    hooks = {caller: outer, **dict.fromkeys(CALLED[caller], inner)}
    graph = TRACER in outer or (PROBE in outer and there[0] == TRACER)
    assume(not (caller == "tail_call" and graph and KRETPROBE in inner))  # see the test below
    i, m, truth, live = kernel.isa, kernel.machine, [], []
    words = script(tree)
    at = kernel.memory(*words)
    arguments = (at,) if caller == "call_tree" else ARGUMENTS

    def now() -> tuple[int, int, int]:
        """Stack pointer, return address, and by what the frame is known."""
        sp = m.register(i.sp)
        return (sp, m.read_u64(sp), sp) if not i.link else (sp, m.register(i.link), m.register(i.fp))

    ran = bodies(kernel, caller, arguments, lambda: truth.append(now()[1]))
    found: list[int | None] = []
    expected: list[int] = []
    left = iter(truth)

    def look() -> None:
        sp, back, frame = now()
        while live and live[-1][0] <= sp:
            live.pop()
        live.append((sp, back, frame, next(left)))
        recover = recovery.of(kernel)
        found.extend(recover(back, frame) for _, back, frame, _ in reversed(live))
        expected.extend(real for *_, real in reversed(live))

    with contextlib.ExitStack() as stack:
        for what in there:  # the graph tracer first: see the test below
            names = [name for name, some in hooks.items() if what in some]
            for name in names if what != TRACER else names[:1]:
                stack.enter_context(kernel.attached(kernel.function(name), request(kernel, what)))
        assert bodies(kernel, caller, arguments, look) == ran
    assert found == expected and len(found) >= len(truth) > 0
    kernel.heap.give(at)


BOTH = ("x86_64", "arm64")


@pytest.mark.parametrize("isa", BOTH)
def test_the_graph_tracer_is_asked_first_and_only_once(isa):
    """Where its trampoline is what the other took the place of, that is what traces show: here where a function whose return the
    tracer has hooked leaves by a jump to one with a kretprobe."""
    kernel = Kernel(isa, meter="record")
    with (
        kernel.attached(kernel.function("tail_call"), Fgraph()),
        kernel.attached(kernel.function("two_args"), request(kernel, KRETPROBE)),
    ):
        found = []

        def look() -> None:
            i, m = kernel.isa, kernel.machine
            sp = m.register(i.sp)
            back, frame = (m.register(i.link), m.register(i.fp)) if i.link else (m.read_u64(sp), sp)
            found.append(recovery.of(kernel)(back, frame))

        with kernel.machine.watching(kernel.function("two_args").site.body, look):
            kernel.call(kernel.function("tail_call"), 1, 2)
    assert found == [kernel.image.address("return_to_handler")]


def asleep(kernel: Kernel, *requests, recovered: bool = True):
    """What traces say of a task that sleeps in what calls_others calls; requests: (function, request) in order."""
    function = kernel.function("calls_others")
    with contextlib.ExitStack() as stack:
        for name, one in requests:
            stack.enter_context(kernel.attached(kernel.function(name), one))
        _, seen = watch(kernel, function, function, ARGUMENTS, recovered)
    return {s.states[:2] for s in seen if s.asleep}


@pytest.mark.parametrize("isa", BOTH)
def test_two_trampolines_in_one_chain(isa):
    kernel = Kernel(isa, meter="record")
    inner, outer = ("two_args", request(kernel, KRETPROBE)), ("calls_others", Fgraph())
    assert asleep(kernel, inner, outer) == {(RIGHT, RIGHT)}
    assert asleep(kernel, inner, outer, recovered=False) == {(RIGHT, WRONG)}
    assert asleep(kernel, ("two_args", Fgraph()), ("calls_others", request(kernel, KRETPROBE))) == {(RIGHT, RIGHT)}


def test_two_on_one_function_in_both_orders():
    """The one that was registered last runs first on x86-64; a breakpoint on arm64 is before the site in any case."""
    for isa in BOTH:
        kernel = Kernel(isa, meter="record")
        one, other = ("calls_others", Fgraph()), ("calls_others", request(kernel, KRETPROBE))
        assert asleep(kernel, one, other) == {(RIGHT, RIGHT)}
        assert asleep(kernel, other, one) == {(RIGHT, WRONG if isa == "x86_64" else RIGHT)}


def test_riscv_knows_a_kretprobes_frame_beside_the_graph_tracers():
    """If its unwinder asked; it is asked by the place, and the caller's frame pointer lies below that."""
    kernel = Kernel("riscv64", meter="record")
    probe = ("calls_others", request(kernel, KRETPROBE))
    assert asleep(kernel, probe) == {(RIGHT, RIGHT)}
    assert asleep(kernel, ("two_args", Fgraph()), probe) == {(RIGHT, RIGHT)}


# --- Exceptions


def handled(isa: str, release: str, name: str):
    """What traces say in a function that a kretprobe's exception leads to."""
    kernel = Kernel(isa, release, meter="record")
    probe = Kretprobe(breakpoint=True, entry=True)
    with kernel.attached(kernel.function("two_args"), probe):
        run, seen = watch(kernel, kernel.function("calls_others"), kernel.function("two_args"), ARGUMENTS)
    return {(s.states[:3], s.error) for s in seen if run.symbol_of(s.pc) == name}


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_a_trace_goes_on_behind_an_exception(isa, monkeypatch):
    """From the handler at the entry to the function, and past its caller, which is in the link register alone, to that one's."""
    assert handled(isa, "v7.2", "lab_kretprobe_entry") == {((RIGHT, MISSING, RIGHT), "")}
    monkeypatch.setattr(stacks, "INTERRUPTED", {})
    monkeypatch.setattr(stacks, "_exception_entry", lambda _: range(0))
    assert RIGHT not in {states[0] for states, _ in handled(isa, "v7.2", "lab_kretprobe_entry")}


def test_an_exception_s_changed_program_counter_counts_since_6_13():
    """arm64's kretprobe: the return has a new address before its call leaves the list, and only a newer unwinder reads it."""
    name = "__kretprobe_trampoline_handler"
    new, old = (handled("arm64", release, name) for release in ("v7.2", "v6.12"))
    assert new == {((RETURNED, RIGHT, RIGHT), "")}
    assert {error for _, error in old} == {"", "returns to a hook that nobody knows"}


def test_copied_trampolines_of_kprobes_and_of_the_tracer_are_looked_up(monkeypatch):
    kernel = Kernel("x86_64", meter="record")
    for one in (Kretprobe(), Fgraph()):
        function = kernel.function("two_args")
        with kernel.attached(function, one):
            run, seen = watch(kernel, kernel.function("calls_others"), function, ARGUMENTS)
            in_copy = {s.states for s in seen if run.symbol_of(s.pc).startswith("ftrace_trampoline")}
            assert in_copy == {(RIGHT,) * 3}
            monkeypatch.setattr(orc, "_COPIED", ())
            run, seen = watch(kernel, kernel.function("calls_others"), function, ARGUMENTS)
            assert {s.states for s in seen if run.symbol_of(s.pc).startswith("ftrace_trampoline")} != in_copy
            monkeypatch.undo()


def test_every_mechanism_is_asked_by_somebody():
    assert set(recovery.ASKED) == set(ISAS) and recovery.ASKED["riscv64"] == (recovery.GRAPH,)
