"""What a probe on returns can tell and do: each verdict against what follows from how the mechanism is made, worked out by hand;
bytes and numbers of calls by the sizes of structs; a guest in which a feature is broken says so; and what is refused."""

import functools
import random

import pytest

from support.models.call_trees import own_misses
from support.mutants.mutants import Mutant, broken
from tramplab import Bpf, Fgraph, Fprobe, Kernel, Kprobe, Kretprobe, Ops, TramplabError
from tramplab.isa import ISAS
from tramplab.returns.features import FEATURES, HARMS, NO, OUTCOMES, PART, REFUSED, YES, Cell, Stage, most_together, run
from tramplab.returns.features.calls import without_room
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK, Build, builds, get

BUILDS = [build for isa in ISAS for build in builds(isa)]
every_build = pytest.mark.parametrize("build", BUILDS, ids=lambda b: f"{b.isa}-{b.name}".replace(" ", ""))
every_isa = pytest.mark.parametrize("isa", ISAS)
ALL = (KRETPROBE, RETHOOK, FGRAPH, FPROBE, FEXIT)
HOOKS = ALL[:-1]

# --- By hand

#: Feature -> mechanism -> outcome; what is not named has it.
EXPECTED: dict[str, dict[str, str]] = {
    "entry data": {FEXIT: NO},  # two programs, with nothing between them
    "a page of data": {FGRAPH: PART, FPROBE: PART, FEXIT: NO},
    "arguments at exit": dict.fromkeys(HOOKS, NO),  # registers as the function left them; BPF's array was filled at the entry
    "value read": {},
    "value changed": {FEXIT: REFUSED},
    "may decline": {FEXIT: NO},  # what an fentry program returns is nobody's concern
    "same function nested": {},
    "entry calls function": {FGRAPH: PART, FPROBE: PART},  # the guard refuses the second call, before there is a tracer to count it
    "exit calls function": {FGRAPH: PART, FPROBE: PART},
    "tail call": {},
    "kprobe below": {},
    "kprobe in handler": {KRETPROBE: NO},  # its handler runs as a kprobe's
    "left early": dict.fromkeys(ALL, PART),
    "left, both hooked": dict.fromkeys(HOOKS, HARMS),  # the lost call's address is on top; BPF's frame is gone with the stack
    "misses told": {FGRAPH: NO, FPROBE: PART},  # what there is no room for, the frame or the data, follows from the size of both
}
#: What an ISA has otherwise: riscv64's single dynamic ops is called from a list, whose guard comes before an fprobe's.
OTHERWISE = {("riscv64", RETHOOK, "entry calls function"): PART}


@functools.cache
def kernel(isa: str, release: str) -> Kernel:
    return Kernel(isa, release, meter="count")


@functools.cache
def cells(build: Build) -> dict[str, Cell]:
    stage = Stage(kernel(build.isa, build.release), build.request())
    return {name: feature.run(stage) for name, feature in FEATURES.items()}


@every_build
def test_what_it_comes_to_follows_from_how_it_is_made(build):
    usual = {name: others.get(build.mechanism, YES) for name, others in EXPECTED.items()}
    expected = {name: OTHERWISE.get((build.isa, build.mechanism, name), outcome) for name, outcome in usual.items()}
    assert {name: cell.outcome for name, cell in cells(build).items()} == expected


@every_build
def test_bytes_and_calls_are_those_of_the_structs(build):
    """KRETPROBE_MAX_DATA_SIZE; a ring's largest object less a node; 32 words of a tracer; 15 of a header's four bits. A pool is
    emptied by as many calls as it has; a shadow stack is full after as many as fit."""
    found = cells(build)
    node = 8 * 8  # two words of the list's, next, hook, return address, frame; entry, caller
    most = {KRETPROBE: 4096, RETHOOK: (1 << 16) - node, FGRAPH: 32 * 8, FPROBE: 15 * 8, FEXIT: 0}
    assert found["a page of data"].number == most[build.mechanism]
    frame = 4 if build.isa == "x86_64" else 5
    words, last = {FGRAPH: frame, FPROBE: frame + 2}, 512 - 16 - frame
    if build.mechanism in words:
        each = words[build.mechanism]
        calls = -(-(last - each) // each)
    else:
        calls = {KRETPROBE: 10, RETHOOK: 2, FEXIT: 150}[build.mechanism]
    assert found["left early"].number == calls
    ended = {"x86_64": "astray"}.get(build.isa, "panic") if build.mechanism in words else "warns, astray"
    assert found["left, both hooked"].said == ("" if build.mechanism == FEXIT else ended)


@every_isa
def test_whose_counter_has_a_miss_follows_from_the_words_of_both(isa):
    """By hand, see own_misses()."""
    own = own_misses(isa)
    assert cells(get(isa, FPROBE))["misses told"] == Cell(PART, f"{sum(own)} of 16 sizes", sum(own))
    told = [nested.counted for nested in without_room(Stage(kernel(isa, "v7.2"), get(isa, FPROBE).request()))]
    assert [bool(one.missed) for one in told] == own and all(one.missed or one.overrun for one in told)


@every_build
def test_calls_of_handlers_are_seen_or_counted_as_the_guards_have_it(build):
    """A kprobe lets none in and counts; a guard lets one in, as if an interrupt had come; a program's counter lets none in."""
    found = cells(build)
    told = {
        KRETPROBE: ("1 counted", "1 counted"),
        RETHOOK: ("1 seen, 1 lost" if build.isa == "riscv64" else "1 seen, 1 counted", "1 seen, 1 counted"),
        FGRAPH: ("1 seen, 1 lost",) * 2,
        FPROBE: ("1 seen, 1 lost",) * 2,
        FEXIT: ("1 seen, 1 counted", "1 counted"),  # the entry's program misses it, the return's does not
    }
    assert (found["entry calls function"].said, found["exit calls function"].said) == told[build.mechanism]


@every_build
def test_a_run_leaves_nothing_behind(build):
    """Memory, hooks, the task, what handlers are told; not even one in which a call goes astray."""
    k = Kernel(build.isa, build.release, meter="count")
    stage = Stage(k, build.request())
    free = list(k.heap._free)
    first = {name: feature.run(stage) for name, feature in FEATURES.items()}
    assert k.heap._free == free and not k.slowpath.counted and not stage.told("words")
    again = Stage(k, build.request())
    assert {name: feature.run(again) for name, feature in reversed(FEATURES.items())} == first == cells(build)
    assert k.call("one_arg", 5).value == 15


def test_fprobes_share_what_one_tracer_may_keep():
    """32 words: two with 15 and a header each, and not a third, after which none of them sees a call."""
    for isa in ISAS:
        assert most_together(kernel(isa, "v7.2")) == 2
    k = kernel("arm64", "v7.2")
    probes = [Fprobe(entry=False, exit=True, data=120, filter=("two_args",)) for _ in range(3)]
    with k.attached(None, *probes) as registered:
        run_ = k.call("two_args", 1, 2)
        counters = [k.machine.read_u64(ops.address + k.image.struct("fprobe").fields["nmissed"].offset) for ops in registered]
    assert run_.hits == (0, 0, 0) and counters == [1, 1, 1] and run_.value == 13


# --- What handlers write down


@every_build
def test_handlers_see_the_call_and_its_return(build):
    """Arguments and value of one call, in order, and what data was left."""
    stage = Stage(kernel(build.isa, build.release), build.request())
    value = stage.expected("three_args", 3, 4, 5)
    with stage.attached("three_args", words=2):
        seen = stage.call("three_args", 3, 4, 5)
    (entry,), (back,) = seen.entries, seen.exits
    keeps = 2 if stage.keeps_data else 0
    assert entry.arguments[:3] == (3, 4, 5) and back.value == seen.value == value == 64
    assert (entry.intact, back.intact) == (keeps, keeps) and bool(entry.data) == bool(keeps) and back.data == entry.data
    assert seen.warnings == 0 and not seen.panicked


@every_build
def test_a_call_that_goes_astray_is_noticed(build):
    """Warned of by whom compares frames; the lab's kernel goes on with a new task."""
    stage = Stage(kernel(build.isa, build.release), build.request())
    with stage.attached("left_early", "goes_on"):
        seen = stage.call("goes_on", 1, 5)
        graph = build.mechanism in (FGRAPH, FPROBE)
        assert seen.warnings == (build.mechanism in (KRETPROBE, RETHOOK))
        assert seen.panicked == (graph and build.isa != "x86_64")
        if build.mechanism != FEXIT:  # a kretprobe's handler is not called; the graph tracer's is, for the call that is lost
            assert len(seen.exits) == (graph and build.isa == "x86_64")
        assert stage.call("left_early", 2, 5).value == 31


@every_isa
def test_who_jumps_keeps_what_functions_keep(isa):
    """Registers and stack pointer behind a call that left two functions without a return, from random states."""
    k = kernel(isa, "v7.2")
    rng = random.Random(isa)
    for first in (1, 2):  # 1: they are left
        for _ in range(50):
            kept = {r: rng.getrandbits(64) & ~15 for r in k.isa.callee_saved if r != k.isa.fp}
            b = rng.randrange(1, 1 << 20)
            found = k.call("goes_on", first, b, registers=kept)
            assert {r: found.registers[r] for r in kept} == kept
            assert found.value == (11 * (5 * b + 1) + 1 if first == 1 else 13 * (7 * (3 * 2 + 5 * b) + 2) + b)
            assert found.registers[k.isa.sp] == k.machine.stack_top - 64


# --- Broken guests

#: What is broken -> (mechanism, file of the guest, its text, what stands there instead, feature, outcome before and after).
BROKEN = {
    "data is another's": (FPROBE, "core/fprobe_graph.c", "own ? data + at : 0", "own ? data : 0", ("entry data", YES, NO)),
    "a value is not restored": (
        FGRAPH,
        "x86_64/fgraph.S",
        "	movq	OFF_pt_regs_ax(%rsp), %rax\n	addq	$(SIZEOF_pt_regs",
        "	addq	$(SIZEOF_pt_regs",
        ("value read", YES, NO),
    ),
    "whoever declines is hooked": (
        KRETPROBE,
        "core/kretprobe.c",
        "rp->entry_handler(ri, regs))\n		rethook_recycle(node);",
        "rp->entry_handler(ri, regs) > 1)\n		rethook_recycle(node);",
        ("may decline", YES, NO),
    ),
    "a kretprobe's handler is no kprobe's": (
        KRETPROBE,
        "core/kretprobe.c",
        "	this_pcpu->current_kprobe = &rp->kp;\n	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;\n	rp->handler((",
        "	rp->handler((",
        ("kprobe in handler", NO, YES),
    ),
    "nobody counts": (
        KRETPROBE,
        "core/kretprobe.c",
        "	if (unlikely(!node)) {\n		rp->nmissed++;",
        "	if (unlikely(!node)) {",
        ("misses told", YES, NO),
    ),
    "there is no guard": (
        FGRAPH,
        "core/recursion.h",
        "		if ((int)held & bit)\n			return 0;",
        "		if (0)\n			return 0;",
        ("exit calls function", PART, HARMS),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_guest_is_found(what, tmp_path):
    mechanism, file, there, instead, (feature, before, after) = BROKEN[what]
    build = get("x86_64", mechanism)
    guest = broken(tmp_path, Mutant("x86_64", build.release, "", file, what, there, instead))
    assert cells(build)[feature].outcome == before
    found = run(Kernel("x86_64", build.release, meter="count", guest=guest), build.request(), feature)
    assert found.outcome == after, found


# --- What is refused


def test_what_is_refused_is_said():
    """In a line each, and nothing has changed."""
    graph, rings = kernel("x86_64", "v7.2"), kernel("x86_64", "v6.12")
    two = graph.function("two_args")
    for act, message in (
        (lambda: run(graph, Kretprobe(), "entry dta"), "unknown feature of a probe on returns 'entry dta'; did you mean entry"),
        (lambda: run(graph, Ops(), "entry data"), "Ops sees no function return; these do: Kretprobe, Fprobe, Fgraph, Bpf"),
        (lambda: run(graph, Kprobe(), "entry data"), "Kprobe sees no function return"),
        (lambda: get("arm64", RETHOOK), "arm64 never had fprobe, rethook"),
        (lambda: Cell("maybe"), "unknown outcome 'maybe'"),
        (lambda: Fprobe(exit=True, data=-8), "give data= 0 or more"),
        (lambda: Fprobe(data=8), "data= is for an fprobe that sees functions return: give it exit=True"),
        (lambda: Fprobe(exit=True, data=8, bpf=True), "have data of their own: leave data= out"),
        (lambda: Fprobe(exit=True, watch=True, declines=True), "watch= brings its own handlers"),
        (lambda: Kretprobe(entry=True, watch=True, declines=True), "watch= brings its own handlers"),
        (lambda: Bpf(fexit=1, watch=True, observe=True), "leave observe=, reenters= and fmod_ret= out"),
        (lambda: Bpf(fmod_ret=1, watch=True), "leave observe=, reenters= and fmod_ret= out"),
        (lambda: graph.attach(two, Fprobe(exit=True, data=121)), "v7.2's fprobes have 120 bytes of data per call at most, not 121"),
        (lambda: rings.attach(two, Fprobe(exit=True, data=65473, nodes=1)), "has 65472 bytes of data at most, not 65473"),
        (lambda: rings.attach(two, Fprobe(exit=True, data=60000, nodes=9)), "the guest's heap is full"),
        (lambda: rings.attach(two, Fgraph(watch=True)), "does not build the function graph tracer"),
    ):
        free = [list(k.heap._free) for k in (graph, rings)]
        with pytest.raises(TramplabError, match=message) as e:
            act()
        assert "\n" not in str(e.value)
        assert [list(k.heap._free) for k in (graph, rings)] == free and not graph.slowpath.counted and not rings.slowpath.counted


@pytest.mark.parametrize(
    ("release", "request_", "said"),
    [
        ("v7.2", Fprobe(), "sees entries alone: give it exit=True"),
        ("v7.2", Bpf(fentry=1), "sees entries alone"),
        ("v7.2", Kretprobe(several=2), "leave several=, filter= and notrace= out"),
        ("v7.2", Fprobe(exit=True, filter=("one_arg",)), "leave several=, filter= and notrace= out"),
        ("v7.2", Ops(), "Ops sees no function return; these do"),
        ("v5.17", Fprobe(exit=True), "has no fprobes"),
        ("v6.12", Fgraph(), "does not build the function graph tracer"),
    ],
)
def test_what_cannot_be_tried_is_refused_and_is_no_verdict(release, request_, said):
    k = kernel("x86_64", release)
    for name in FEATURES:
        with pytest.raises(TramplabError, match=said):
            run(k, request_, name)


def test_a_probe_without_its_own_entry_handler_is_tried_like_one_with():
    k = kernel("x86_64", "v7.2")
    assert run(k, Fprobe(exit=True), "misses told") == run(k, Fprobe(entry=False, exit=True), "misses told")


@pytest.mark.parametrize("request_", [Fprobe(exit=True), Kretprobe()], ids=lambda r: type(r).__name__)
def test_hooks_with_a_stack_for_each_task_have_no_pool_to_ask_for(request_):
    """Hypothetical, and tried like the others: every feature comes to something, and the data that there is room for is found."""
    k = Kernel("x86_64", "v6.12", meter="count", rethook="shadow")
    stage = Stage(k, request_)
    found = {name: feature.run(stage) for name, feature in FEATURES.items()}
    assert found["entry data"].outcome == YES and found["a page of data"].number > 0


def test_outcomes_are_ranked_and_explained():
    assert {cell.outcome for build in BUILDS for cell in cells(build).values()} == set(OUTCOMES)
    assert {name for name, feature in FEATURES.items() if name == feature.name and feature.does} == set(EXPECTED) == set(FEATURES)
