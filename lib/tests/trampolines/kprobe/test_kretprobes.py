"""kretprobes, on return hooks and with instances of their own: the calling convention, what handlers are given at the entry and at
the return, which calls find an instance, by a plain model, and what is refused."""

import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.abi import abi_places, kretprobe_abi
from support.abi.attached import attached
from support.plugins.seeds import drawn, seeds
from tramplab import Kernel, Kprobe, Kretprobe, TramplabError
from tramplab.isa import ISAS
from tramplab.lab import measure

every_isa = pytest.mark.parametrize("isa", ISAS)
ON = (("kprobes_on_ftrace", True),)
_BREAKS = ("kretprobe-brk", "kretprobe-brk-both", "kretprobe-brk+ops", "kretprobe-brk-several")
_FTRACE = ("kretprobe", "kretprobe-both", "kretprobe-both+ops", "kretprobe-several")
#: One of each way to be entered, to keep instances, and to come back.
PLACES = {
    abi_places.Place("x86_64", "v5.17"): (*_FTRACE, "kretprobe-brk-both"),
    abi_places.Place("x86_64", "v6.1"): ("kretprobe-both",),
    abi_places.Place("x86_64", "v7.2"): (*_FTRACE, *_BREAKS),
    abi_places.Place("x86_64", "v7.2", (("rethook", "shadow"), ("frame_pointer", True))): ("kretprobe-both",),
    abi_places.Place("x86_64", "v7.2", (("return_save", "args"),)): ("kretprobe-both",),
    abi_places.Place("x86_64", "v7.2", (("return_save", "value"),)): ("kretprobe-both",),
    abi_places.Place("arm64", "v6.1", ON): (*_FTRACE, "kretprobe-brk-both"),
    abi_places.Place("arm64", "v6.12"): ("kretprobe-brk-both",),
    abi_places.Place("arm64", "v7.2"): _BREAKS,
    abi_places.Place("arm64", "v7.2", (("kretprobe", "rethook"),)): ("kretprobe-brk-both",),
    abi_places.Place("arm64", "v7.2", (("return_save", "args"),)): ("kretprobe-brk-both",),
    abi_places.Place("arm64", "v7.2", (("return_save", "value"),)): ("kretprobe-brk-both",),
    abi_places.Place("riscv64", "v6.1"): ("kretprobe-both", "kretprobe-brk-both"),
    abi_places.Place("riscv64", "v6.9"): (*_FTRACE, "kretprobe-brk-both"),
    abi_places.Place("riscv64", "v7.2"): _BREAKS,
    abi_places.Place("riscv64", "v7.2", (("return_save", "args"),)): ("kretprobe-brk-both",),
    abi_places.Place("riscv64", "v7.2", (("return_save", "value"),)): ("kretprobe-brk-both",),
}
CASES = [(place, hook) for place, names in PLACES.items() for hook in names]

hooked = attached(kretprobe_abi.hooked, CASES)


@drawn
def test_a_call_with_a_kretprobe_keeps_the_calling_convention(hooked, request):
    """Registers, arguments, result and stack are as without; handlers see the call, its return and its value; instances go back."""
    for seed in seeds(request.node.name, settings.default.max_examples // 8):
        hooked.check(seed)


# --- Which calls are followed

#: A tree of calls: the trees below it.
TREES = st.recursive(st.just(()), lambda below: st.lists(below, max_size=4).map(tuple), max_leaves=12)
POOLS = (("x86_64", "v5.17"), ("x86_64", "v6.4"), ("x86_64", "v7.2"), ("arm64", "v6.1"), ("arm64", "v7.2"), ("riscv64", "v7.2"))


def script(tree) -> list[int]:
    """As the guest's call_tree() reads it."""
    return [len(tree), *(word for below in tree for word in script(below))]


def followed(tree, free: list[int]) -> tuple[int, int]:
    """(calls that find an instance, calls that do not); free: how many there are now."""
    got = free[0] > 0
    free[0] -= got
    counts = [followed(below, free) for below in tree]
    free[0] += got
    return got + sum(c[0] for c in counts), (not got) + sum(c[1] for c in counts)


@functools.lru_cache(maxsize=1)
def booted(isa: str, release: str) -> Kernel:
    return Kernel(isa, release, meter="count")


@pytest.mark.parametrize(("isa", "release"), POOLS)
@settings(max_examples=settings.default.max_examples // 10)
@given(tree=TREES, instances=st.integers(1, 6), declines=st.booleans(), cpu=st.booleans())
@example(tree=((((),),),), instances=1, declines=False, cpu=False)
@example(tree=((((),),),), instances=2, declines=True, cpu=False)
def test_calls_without_an_instance_are_missed_and_counted(isa, release, tree, instances, declines, cpu):
    """One whose entry handler declines gives the instance back before the function runs."""
    k = booted(isa, release)
    words = script(tree)
    f, at = k.function("call_tree"), k.memory(*words)
    seen, missed = followed(tree, [len(words) if declines else instances])
    probe = Kretprobe(breakpoint=isa != "x86_64", entry=True, declines=declines, maxactive=instances)
    field = k.image.struct("kretprobe").fields["nmissed"]
    with k.attached(f, probe) as (ops,):
        (struct,) = (at for at, name in ops.structs.items() if name.endswith("]"))
        for n in (1, 2):  # the second time on what the first one gave back
            run = k.call(f, at, budget=400_000)
            assert run.value == at + 8 * len(words)
            assert run.hits == (seen if declines else 2 * seen,)
            assert int.from_bytes(k.machine.read(struct + field.offset, field.size), "little") == n * missed
    k.heap.give(at)


@every_isa
@pytest.mark.parametrize("release", ["v5.17", "v6.4", "v7.2"])
def test_attaching_and_detaching_leave_nothing(isa, release):
    """Text, memory and the table of kprobes are as before."""
    k = Kernel(isa, release, meter="count")
    table = k.image.symbol("kprobe_table")

    def now() -> tuple:
        text = [k.machine.read(*span) for span in k.machine.text if span[0] != k.machine.places.modules.address]
        return text, k.machine.read(table.address, table.size), list(k.heap._free)

    before = now()
    for data, several in ((0, 1), (24, 1), (8, 4)):
        with k.attached(k.function("two_args"), Kretprobe(breakpoint=True, data=data, maxactive=3, several=several)) as (ops,):
            assert now() != before
            names = [name for name in ops.structs.values() if name.endswith("node")]
            assert len(names) == 3 * several
        assert now() == before


def test_another_probe_at_an_address_is_refused_with_what_can_be_done():
    """Of kprobes and kretprobes; only the second kind can be several by one request, and what the sentence says works."""
    k = Kernel("x86_64", "v7.2", meter="count")
    f, first = k.function("two_args"), "two_args+0x4 has a kprobe, and the lab puts one at an address: detach() that one first"
    for there in (Kprobe(), Kretprobe()):
        with k.attached(f, there):
            for more, said in (
                (Kprobe(), f"{first}."),
                (Kretprobe(), f"{first}; several kretprobes on one function are one request, such as Kretprobe(several=2)."),
            ):
                with pytest.raises(TramplabError) as e:
                    k.attach(f, more)
                assert str(e.value) == said
    with k.attached(f, Kretprobe(several=2)):
        assert k.call(f, 1, 2).hits == (2,)


def test_where_traced_functions_take_no_kretprobe_one_is_refused_unless_it_is_as_others_have_it():
    """In the releases that data/releases.yml says; a kprobe is taken there, behind the site, and an override takes a kretprobe."""
    for release, taken in (("v6.9", True), ("v6.10", False), ("v6.15", False), ("v6.16", True)):
        k = Kernel("riscv64", release, meter="count")
        f = k.function("two_args")
        with k.attached(f, Kretprobe(breakpoint=True, untraced=True)):
            assert k.call(f, 1, 2).hits == (1,)
        if taken:
            with k.attached(f, Kretprobe(breakpoint=True)):
                assert k.call(f, 1, 2).hits == (1,)
        else:
            with pytest.raises(TramplabError, match=rf"^riscv64 {release} takes no kretprobe at .*untraced=True"):
                k.attach(f, Kretprobe(breakpoint=True))
            with k.attached(f, Kprobe(breakpoint=True)):
                assert k.call(f, 1, 2).hits == (1,)
    k = Kernel("riscv64", "v6.12", kretprobe_entry="breakpoint")
    assert str(k) == "riscv64 v6.12 with kretprobe_entry=breakpoint"
    with k.attached(k.function("two_args"), Kretprobe(breakpoint=True)):
        assert k.call("two_args", 1, 2).hits == (1,)
    with pytest.raises(TramplabError, match="untraced= is for a kretprobe by a breakpoint"):
        Kretprobe(untraced=True)


@pytest.mark.parametrize(
    ("isa", "release", "hook", "said"),
    [
        ("riscv64", "v7.2", "kretprobe", "riscv64 has it v5.12 to v6.9; ask for kretprobe-brk, which it has."),
        ("arm64", "v7.2", "kprobe-bpf", "arm64 has it never; ask for kprobe-brk-bpf, which it has."),
        ("riscv64", "v6.12", "kretprobe-brk", "riscv64 has it v5.12 to v6.9, since v6.16; choose a release that has it."),
    ],
)
def test_measuring_what_a_release_has_not_is_refused_with_what_it_has(isa, release, hook, said):
    with pytest.raises(TramplabError) as e:
        measure.counts_of(isa, hook, release)
    assert str(e.value).startswith(f"{isa} {release} has no {hook} hook; ") and str(e.value).endswith(said)


@every_isa
def test_a_hit_inside_a_handler_is_missed_by_each_of_several(isa):
    """It is the one that stands for them that is hit."""
    k = Kernel(isa, "v7.2", meter="count")
    field = k.image.struct("kprobe").fields["nmissed"]
    inside = Kprobe(breakpoint=True, handler="lab_kprobe_reenter", filter=("one_arg",))
    with k.attached(None, Kretprobe(breakpoint=True, several=3, filter=("two_args",)), inside) as (ops, _):
        k.call(k.function("one_arg"), 1)
        missed = [k.machine.read_u64(at + field.offset) for at, name in ops.structs.items() if name == f"kprobe[{ops.index}]"]
        assert missed == [1, 1, 1]
        assert k.call(k.function("two_args"), 1, 2).hits == (0, 3)  # the newest first


@pytest.mark.parametrize(
    ("isa", "release", "traps"),
    # a copy that is run takes two, a simulated instruction one
    [("x86_64", "v7.2", 2), ("arm64", "v6.1", 2), ("arm64", "v6.12", 3), ("arm64", "v7.2", 3), ("riscv64", "v7.2", 1)],
)
def test_how_a_return_is_come_to(isa, release, traps):
    """arm64's is an exception since v6.12, one more than at the entry; everywhere else the trampoline saves the registers."""
    run = measure.run(isa, "kretprobe-brk", release)
    assert run.recording.each(lambda pc: run.name_of(pc) == "lab_trap_entry").sum() == traps
    assert run.hits == (1,)


@every_isa
def test_less_is_executed_at_the_return_where_less_is_asked_for(isa):
    """What no kernel has: the return trampoline's own instructions, with all registers, with an ftrace_regs' and with the value. On
    arm64 a kernel's is one instruction, the exception behind it not counted."""
    executed = []
    name = "__kretprobe_trampoline" if isa == "arm64" else "arch_rethook_trampoline"
    for save in ("regs", "args", "value"):
        run = measure.run(isa, "kretprobe-brk", "v7.2", return_save=save)
        executed.append(int(run.recording.each(lambda pc, r=run: r.name_of(pc).partition("+")[0] == name).sum()))
    regs, args, value = executed
    assert args > value and (regs == 1 if isa == "arm64" else regs > args), executed


def test_what_is_refused_is_said():
    """In a line each, and nothing has changed."""
    for kernel, request, message in (
        (("arm64", "v7.2", {}), Kretprobe(), "arm64 v7.2 has no kprobes through ftrace"),
        (("arm64", "v7.2", {"kprobes_on_ftrace": True}), Kretprobe(), "has no ftrace_regs_caller to take that up"),
        (("riscv64", "v6.12", {"kprobes_on_ftrace": True}), Kretprobe(), "breakpoint=True asks for one by a breakpoint"),
        (("x86_64", "v7.2", {"rethook": "shadow"}), Kretprobe(maxactive=2), "leave maxactive= out"),
        (("x86_64", "v7.2", {}), Kretprobe(data=4096, maxactive=1000), "the guest's heap is full"),
    ):
        isa, release, overrides = kernel
        k = Kernel(isa, release, meter="count", **overrides)
        free = list(k.heap._free)
        with pytest.raises(TramplabError, match=message):
            k.attach(k.function("one_arg"), request)
        assert k.heap._free == free and not k.slowpath.counted
    for asked, message in (
        ({"maxactive": -1}, "give maxactive= 1 or more, or 0: the default"),
        ({"data": -1}, "give data= 0 or more"),
        ({"several": 0}, "give several= 1 or more"),
        ({"data": 4097}, "have 4096 bytes each at most, not 4097: give a smaller data="),
        ({"watch": True, "observe": True}, "leave observe= and declines= out"),
        ({"declines": True}, "give it entry=True"),
        ({"entry": True, "declines": True, "observe": True}, "leave observe= or declines= out"),
        ({"bpf": True, "entry": True}, "runs a program at the return alone"),
        ({"handler": "lab_kprobe_observe"}, "a kretprobe has handlers of its own"),
    ):
        with pytest.raises(TramplabError, match=message):
            Kretprobe(**asked)
    with pytest.raises(TramplabError, match="unknown value of kretprobe on x86_64 'mine'"):
        Kernel("x86_64", kretprobe="mine")
