"""fprobes on return hooks: what handlers see, and which calls find a node, by a plain model."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.abi import abi, fprobe_abi
from support.abi.kprobe_abi import slot
from support.abi.probed import booted
from support.abi.returned import CPU_STATE, reloads_what_nobody_misses, returned, state_told
from support.mutants.mutants import survivors
from tramplab import Fprobe, Kernel, Ops, TramplabError
from tramplab.isa import ISAS
from tramplab.lab.measure import FUNCTIONS

PLACES = fprobe_abi.ON_RETURN_HOOKS


# --- Which calls are followed

#: A tree of calls: the trees below it.
TREES = st.recursive(st.just(()), lambda below: st.lists(below, max_size=4).map(tuple), max_leaves=12)


def script(tree) -> list[int]:
    """As the guest's call_tree() reads it."""
    return [len(tree), *(word for below in tree for word in script(below))]


def followed(tree, nodes: int, free: list[int]) -> tuple[int, int]:
    """(calls seen at entry and return, calls missed) by a probe whose pool has so many nodes; free: how many it has now."""
    got = free[0] > 0
    free[0] -= got
    counts = [followed(below, nodes, free) for below in tree]
    free[0] += got
    return got + sum(c[0] for c in counts), (not got) + sum(c[1] for c in counts)


@pytest.mark.parametrize("place", PLACES, ids=str)
@settings(max_examples=settings.default.max_examples // 10)
@given(tree=TREES, nodes=st.lists(st.integers(1, 6), min_size=1, max_size=2), declines=st.booleans())
@example(tree=((((),),),), nodes=[1], declines=False)
@example(tree=((((),),),), nodes=[2, 3], declines=True)
def test_calls_without_a_node_are_missed_and_counted(place, tree, nodes, declines):
    """Every probe has a pool of its own; one whose handler declines gives the node back before the function runs."""
    k = booted(place)
    shadow = k.features["rethook"] == "shadow"
    probes = [Fprobe(exit=True, declines=declines, nodes=None if shadow else n) for n in nodes]
    words = script(tree)
    f, at = k.function("call_tree"), k.memory(*words)
    calls = len(words)
    room = k.image.struct("task_struct").fields["rethook_stack"].size // k.image.struct("fprobe_rethook_node").size if shadow else 0
    assert not shadow or room >= calls * len(nodes)  # deep enough for all that is drawn
    with k.attached(f, *probes) as registered:
        for _ in range(2):  # the second time on what the first one gave back
            run = k.call(f, at, budget=200_000)
            assert run.value == at + 8 * calls
            for o, n, hits in zip(registered, nodes, reversed(run.hits), strict=True):
                size = calls if shadow or declines else n
                seen, missed = followed(tree, size, [size])
                assert hits == (seen if declines else 2 * seen)
                field = o.address + k.image.struct("fprobe").fields["nmissed"].offset
                assert k.machine.read_u64(field) == missed
                k.machine.write_u64(field, 0)
    k.heap.give(at)


def test_the_shadow_stack_overflows_cleanly():
    """The task's stack has room for so many nodes; deeper calls are missed, and all is as before afterwards."""
    k = Kernel("arm64", "v7.2", rethook="shadow", meter="count")
    room = k.image.struct("task_struct").fields["rethook_stack"].size // k.image.struct("fprobe_rethook_node").size
    f, depth = k.function("call_tree"), room + 5
    at = k.memory(*[1] * (depth - 1), 0)
    with k.attached(f, Fprobe(entry=False, exit=True)) as (ops,):
        for n in (1, 2):
            run = k.call(f, at, budget=200_000)
            assert run.hits == (room,) and run.value == at + 8 * depth
            assert k.machine.read_u64(ops.address + k.image.struct("fprobe").fields["nmissed"].offset) == 5 * n


# --- The return trampoline

#: What it does not store: the function's own way back; riscv64's stack pointer, up to v6.12 at least.
UNTOLD = {"x86_64": set(), "arm64": set(), "riscv64": {"sp"}}


def complain(lab: abi.Lab, h: fprobe_abi.FprobeHooked, seed: int) -> list[str]:
    """What is wrong with what the handler was given, and with what the caller finds."""
    first, last = returned(h, h._trampoline, seed)
    isa, regs = lab.isa, lab.kernel.image.address("lab_returned_regs")
    told = {r: lab.machine.read_u64(regs + 8 * slot(lab.kernel, r)) for r in isa.registers if r not in UNTOLD[isa.name]}
    told |= state_told(h, regs)
    wrong = [f"told {r}" for r, value in told.items() if value != first[r]]
    kept = {*isa.callee_saved, *isa.returns, isa.sp, *isa.args, *(told.keys() & {CPU_STATE})}  # all but what leads back
    return wrong + [f"left {r}" for r in [*isa.registers, CPU_STATE] if r in kept and last[r] != first[r]]


#: One of each kind of return trampoline.
RETURNS = {"x86_64": PLACES[1], "arm64": PLACES[5], "riscv64": PLACES[7]}


@pytest.mark.parametrize("isa", RETURNS)
def test_the_handler_is_given_every_register_as_the_function_left_it(isa):
    lab = abi.lab(RETURNS[isa])
    with fprobe_abi.hooked(lab, "fprobe-both") as h:
        for seed in range(2, 12, 2):
            assert complain(lab, h, seed) == []


#: Instructions that no check notices, and why; beside reloads of what C keeps for its caller, or of what no caller expects back.
HARMLESS = {
    "x86_64": {},
    "arm64": {
        "add x29, sp, #0xe8": "only who unwinds the stack from inside a handler reads it",
        "and x0, x0, #0xf0000000": "the flags are all that MSR takes up",
    },
    "riscv64": {},
}


def noticed(lab: abi.Lab) -> bool:
    """Does the check find something wrong?"""
    try:
        with fprobe_abi.hooked(lab, "fprobe-both") as h:
            return any(complain(lab, h, seed) for seed in (2, 4))
    except (AssertionError, TramplabError):
        return True


@pytest.mark.parametrize("isa", RETURNS)
def test_every_instruction_of_the_return_trampoline_is_needed(isa):
    """One after the other is a NOP: registers are missing, or the wrong ones, or the call does not come to its end."""
    survived = survivors(RETURNS[isa], ("arch_rethook_trampoline",), noticed)
    known = [text for text in survived if reloads_what_nobody_misses(ISAS[isa], text)]
    assert {text for text in survived if text not in known} == set(HARMLESS[isa])
    assert bool(known) == (isa != "x86_64")  # where a POP that is missing moves the stack


# --- BPF programs on an fprobe


@pytest.mark.parametrize("place", PLACES, ids=str)
@settings(max_examples=settings.default.max_examples // 20)
@given(
    args=st.lists(st.integers(0, (1 << 64) - 1), max_size=8),
    handlers=st.sampled_from(
        [(True, False, ""), (True, True, ""), (False, True, ""), (True, True, "declines"), (True, True, "unwanted")]
    ),
)
def test_programs_see_arguments_cookie_and_result(place, args, handlers):
    """As many as there are registers for; the call's value is as without, and every counter is back at zero."""
    k = booted(place)
    args = args[: min(len(k.isa.args), 8)]
    entry, left, how = handlers
    f, image = k.function(FUNCTIONS[len(args)]), k.image
    at, count = image.address("lab_bpf_seen"), image.address("lab_bpf_seen_count")
    k.machine.write_u64(count, 0)
    value = k.call(f, *args).value
    with k.attached(f, Fprobe(entry=entry, exit=left, bpf=True, observe=True, **({how: True} if how else {}))):
        assert k.call(f, *args).value == value
    seen = k.machine.read_u64(count)
    size, expected = image.struct("lab_bpf_seen").size, []
    if entry:
        expected.append([1, len(args), *args])
    if left and not how:
        expected.append([1 + entry, len(args), *args, value])
    assert seen == len(expected)
    for n, words in enumerate(expected):
        assert [k.machine.read_u64(at + n * size + 8 * i) for i in range(len(words))] == words
    counts = image.struct("lab_pcpu").fields["counts"]
    assert not any(k.machine.read(image.address("lab_boot_pcpu") + counts.offset, counts.size))


@pytest.mark.parametrize("isa", ISAS)
def test_programs_are_taken_back(isa):
    """Memory and per-CPU counters, when it is detached and when it is refused."""
    k = Kernel(isa, "v6.4", rethook="freelist", meter="count")
    heap, counters = list(k.heap._free), list(k.slowpath.makers[0]._guest.counters._free)

    def as_before() -> bool:
        return k.heap._free == heap and k.slowpath.makers[0]._guest.counters._free == counters

    with k.attached(k.function("two_args"), Fprobe(exit=True, bpf=True)):
        assert not as_before()
    assert as_before()
    for function, wrong, said in (
        ("struct_return", {}, "returns 16 bytes"),
        ("two_args", {"exit": True, "nodes": 100_000}, "heap is full"),
    ):
        with pytest.raises(TramplabError, match=said):
            k.attach(k.function(function), Fprobe(bpf=True, **wrong))
        assert as_before() and not k.slowpath.ops
    with pytest.raises(TramplabError, match="2 were named"):
        Fprobe(bpf=True, filter=("one_arg", "two_args"))
    if len(k.isa.args) < 8:
        with pytest.raises(TramplabError, match="takes 2 arguments on the stack"):
            k.attach(k.function("eight_args"), Fprobe(bpf=True))


# --- Bad input, and what there was when


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"entry": False}, "does nothing"),
        ({"declines": True}, "both handlers"),
        ({"exit": True, "nodes": 0}, "follows no call"),
        ({"exit": True, "nodes": -3}, "follows no call"),
        ({"nodes": 4}, "exit=True"),
        ({"unwanted": True}, "bpf=True and exit=True"),
        ({"save": "arg"}, "did you mean args"),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_options_that_make_no_sense(wrong, said):
    with pytest.raises(TramplabError) as e:
        Fprobe(**wrong)
    assert said in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("place", "request_", "said"),
    [
        (("arm64", "v6.12", {}), Fprobe(), "arm64 has them since v6.14"),
        (("x86_64", "v5.17", {}), Fprobe(), "x86_64 has them since v5.18"),
        (("riscv64", "v6.12", {}), Fprobe(), "v6.2 to v6.9, since v6.14"),
        (("arm64", "v7.2", {"rethook": "freelist"}), Fprobe(save="regs"), "no ftrace_regs_caller"),
        (("arm64", "v7.2", {"rethook": "shadow"}), Fprobe(exit=True, nodes=3), "leave nodes= out"),
    ],
)
def test_what_a_release_cannot_do_is_refused_and_leaves_nothing(place, request_, said):
    isa, release, overrides = place
    k = Kernel(isa, release, meter="count", **overrides)
    before = list(k.heap._free)
    with pytest.raises(TramplabError) as e:
        k.attach(k.function("one_arg"), request_)
    assert said in str(e.value) and "\n" not in str(e.value)
    assert not k.slowpath.ops and k.heap._free == before


@pytest.mark.parametrize("isa", ISAS)
def test_a_pool_that_does_not_fit_is_refused_and_leaves_nothing(isa):
    for how in ("freelist", "objpool"):
        k = Kernel(isa, "v6.4", rethook=how, meter="count")
        before = list(k.heap._free)
        with pytest.raises(TramplabError, match="heap is full"):
            k.attach(k.function("one_arg"), Fprobe(exit=True, nodes=100_000))
        assert not k.slowpath.ops and k.heap._free == before
        with k.attached(k.function("one_arg"), Fprobe(exit=True, nodes=1)):
            assert k.call("one_arg", 2).value == 6
        assert k.heap._free == before


@pytest.mark.parametrize("isa", ISAS)
def test_without_the_guard_nothing_is_taken(isa):
    """What the guard costs, found twice: by leaving it out, and from accesses of the guard's word."""
    guarded, bare = (Kernel(isa, "v6.12", rethook="objpool", fprobe_guard=on) for on in (True, False))
    touched, executed = {}, {}
    for k in (guarded, bare):
        f, guard = k.function("one_arg"), k.image.struct("task_struct").fields["trace_recursion"]
        word = k.image.address("init_task") + guard.offset
        with k.attached(f, Fprobe(entry=False, exit=True)):
            run = k.call(f, 1)
        inside = [s for s in run.steps if run.symbol_of(s.pc) in ("fprobe_handler", "fprobe_exit_handler")]
        touched[k] = sum(address == word for s in inside for address, _, _ in s.accesses)
        executed[k] = sum(run.component_of(s.pc) == "core" for s in run.steps)
    assert touched[guarded] >= 6 and not touched[bare] and executed[bare] < executed[guarded]


@pytest.mark.parametrize("isa", ISAS)
def test_the_node_comes_from_this_cpu_or_another(isa):
    """By turns to the CPUs, one each here: a nested call on one CPU takes the other's, which comes back to the one."""
    k = Kernel(isa, "v6.12", rethook="objpool", meter="count", cpus=2)
    f, at = k.function("call_tree"), k.memory(1, 0)
    with k.attached(f, Fprobe(entry=False, exit=True, nodes=2)) as (ops,):
        for cpu in (0, 0, 1, 0):
            assert k.call(f, at, cpu=cpu).hits == (2,)
        assert not k.machine.read_u64(ops.address + k.image.struct("fprobe").fields["nmissed"].offset)
    with k.attached(f, Ops()):
        assert k.call(f, at).hits == (2,)
