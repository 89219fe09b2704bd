"""What goes wrong is said in one line: unknown names, what a release never had, what the machine refuses."""

import itertools
import re

import pytest

from support.complaints import complaint, works
from tramplab import Direct, Kernel, Ops
from tramplab import isa as isas
from tramplab.base.errors import unknown
from tramplab.ftrace import releases
from tramplab.isa import x86_64
from tramplab.lab import hooks
from tramplab.lab.places import HEAP_OFFSET, STACK_OFFSET, STACK_SIZE

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)


# --- Names that do not exist


@pytest.fixture(scope="module")
def k() -> Kernel:
    """A kernel that the tests of names share; none of them changes it."""
    return Kernel("arm64", "v7.2", meter="count")


UNKNOWN = [
    ("ISA", lambda k: Kernel("risc64"), "risc64", "riscv64"),
    ("ISA", lambda k: isas.get("x86-64"), "x86-64", "x86_64"),
    ("release", lambda k: Kernel("arm64", "v6.120"), "v6.120", "v6.12"),
    ("release", lambda k: Kernel("arm64", "6.12"), "6.12", "v6.12"),
    ("feature", lambda k: Kernel("arm64", call_op=False), "call_op", "call_ops"),
    ("function", lambda k: k.function("three_arg"), "three_arg", "three_args"),
    ("function", lambda k: k.call("thre_args", 1, 2, 3), "thre_args", "three_args"),
    ("function", lambda k: k.attach(None, Ops(filter=("one_args",))), "one_args", "one_arg"),
    ("function", lambda k: k.attach(None, Ops(notrace=("tail_cal",))), "tail_cal", "tail_call"),
    ("function", lambda k: k.attach(None, Direct(filter=("nargs",))), "nargs", "no_args"),
    ("symbol", lambda k: k.image.address("ftrace_calller"), "ftrace_calller", "ftrace_caller"),
    ("symbol", lambda k: k.image.symbol("one_ar"), "one_ar", "one_arg"),
    ("struct", lambda k: k.image.struct("ftrace_op"), "ftrace_op", "ftrace_ops"),
    ("callback", lambda k: Ops(callback="lab_calback"), "lab_calback", "lab_callback"),
    ("save set", lambda k: Ops(save="reg"), "reg", "regs"),
    ("hook", lambda k: hooks.get("ops-reg"), "ops-reg", "ops-regs"),
]


@pytest.mark.parametrize(("kind", "ask", "name", "near"), UNKNOWN, ids=[f"{u[0]}-{u[2]}" for u in UNKNOWN])
def test_unknown_name(kind, ask, name, near, k):
    """A name that does not exist: what kind of name, as it was written, and the near match; the kernel stays as it
    was."""
    before = k.machine.read(k.image.segments[0].address, k.image.segments[0].size)
    message = complaint(lambda: ask(k))
    assert message.startswith("unknown ") and kind in message and repr(name) in message
    suggested = re.search(r"did you mean ([^?]+)\?", message)
    assert suggested and near in suggested.group(1).split(" or "), message
    assert k.slowpath.ops == [] and k.machine.read(k.image.segments[0].address, k.image.segments[0].size) == before


@pytest.mark.parametrize("name", [None, 7, "", "zzzz", "with\na line"])
def test_unknown_without_a_near_match(name):
    """Nothing near: no suggestion, but the whole list; also for what is no string, or would break the line."""
    message = complaint(lambda: isas.get(name))
    assert "did you mean" not in message
    for isa in ISAS:
        assert isa in message


def test_unknown_lists_near_matches_first():
    """At most three suggestions, the nearest first, then everything there is, in the order given."""
    message = complaint(
        lambda: (_ for _ in ()).throw(unknown("thing", "abcd", ["zz", "abcx", "abcd1", "abxx", "abcd2"]))
    )
    assert re.fullmatch(
        r"unknown thing 'abcd'; did you mean abcd[12] or abcd[12] or abcx\? Known: zz, abcx, abcd1, abxx, abcd2\.",
        message,
    )


def test_unknown_register(k):
    """A register that the ISA does not have is named, with near matches."""
    message = complaint(lambda: k.call("one_arg", 1, registers={"x33": 1}))
    assert "'x33'" in message and "x3" in message


# --- What a release never had

#: ISA, release, what is asked for, and since or until when the ISA has it.
NEVER = [
    ("arm64", "v6.12", Ops(save="regs"), "v6.1"),
    ("riscv64", "v7.2", Ops(save="regs"), "v6.9"),
    ("arm64", "v6.1", Direct(), "v6.4"),
    ("arm64", "v6.3", Direct(far=True), "v6.4"),
    ("riscv64", "v6.4", Direct(), "v6.8"),
]


@pytest.mark.parametrize(
    ("isa", "release", "request_", "when"), NEVER, ids=[f"{n[0]}-{n[1]}-{type(n[2]).__name__}" for n in NEVER]
)
def test_hook_that_the_release_never_had(isa, release, request_, when):
    """Refused by name, with the release asked for and the one where it came or went; nothing is attached."""
    k = Kernel(isa, release, meter="count")
    message = complaint(lambda: k.attach(k.function("one_arg"), request_))
    assert isa in message and release in message and when in message
    assert ("since" in message) == isinstance(request_, Direct)
    hook = "direct" if isinstance(request_, Direct) else "ops-regs"
    message = complaint(lambda: hooks.require(hooks.get(hook), k.features))
    assert isa in message and release in message and when in message and hook in message
    assert k.slowpath.ops == [] and k.call("one_arg", 2).value == 6


@pytest.mark.parametrize("hook", [h for h in hooks.HOOKS if hooks.hypothetical(h)])
def test_what_no_kernel_has_is_not_said_to_have_come(hook):
    """A hypothetical hook is refused as such, with where the lab can make it; not as something that a release brought."""
    there = [r for r in releases.known() if hooks.get(hook).there(releases.features(isas.get("arm64"), r, {}))]
    made = f"the lab makes it on arm64 since {there[0]}" if there else "the lab does not make it on arm64"
    message = complaint(lambda: hooks.require(hooks.get(hook), Kernel("arm64", "v6.1", meter="count").features))
    assert "no kernel has it" in message and made in message and "arm64 has it" not in message


def test_refusal_after_an_override_names_the_override():
    """Where an override took a hook away, the message does not claim that the release never had it."""
    k = Kernel("arm64", "v6.16", call_ops=False)
    message = complaint(lambda: k.attach(k.function("one_arg"), Direct()))
    assert "call_ops=False" in message


def test_direct_call_needs_particular_functions(k):
    """A direct call for everything is refused with what to do."""
    assert "filter" in complaint(lambda: k.attach(None, Direct()))


def test_detaching_twice(k):
    """Taking away what is not attached any more is one clear line, and what else is attached stays."""
    f = k.function("one_arg")
    with k.attached(f, Ops()):
        (gone,) = k.attach(f, Ops())
        k.detach(gone)
        assert "registered" in complaint(lambda: k.detach(gone))
        assert k.call(f, 1).hits == (1,)
    assert k.call(f, 1).hits == ()


def test_arguments_are_passed_on_as_they_are(k):
    """Negative arguments wrap as in C, and more of them than a function takes do no harm."""
    assert k.call("one_arg", -1).value == (1 << 64) - 3
    assert k.call("eight_args", *range(1, 12)).value == sum(
        a * w for a, w in zip(range(1, 9), (3, 5, 7, 11, 13, 17, 19, 23), strict=True)
    )


# --- The machine itself


@every_isa
def test_text_is_written_through_poke_only(isa):
    """write() refuses every kind of text, first byte to last, and changes nothing; poke() does it."""
    k = Kernel(isa, "v7.2", meter="count")
    spans = [(s.address, s.size) for s in k.image.segments if s.executable]
    spans += [(k.isa.module_base, 4096)]
    for base, size in spans:
        for at in (base, base + size // 2, base + size - 1):
            before = k.machine.read(at, 1)
            message = complaint(lambda at=at: k.machine.write(at, b"\x55"))
            assert f"{at:#x}" in message and "poke" in message
            assert k.machine.read(at, 1) == before
            k.machine.poke(at, b"\x55")
            assert k.machine.read(at, 1) == b"\x55"
            k.machine.poke(at, before)
    works(k)


@every_isa
def test_unmapped_memory_from_outside(isa):
    """Reading or writing where nothing is mapped names the address and the ISA, also beside the stack and the heap."""
    k = Kernel(isa, "v7.2", meter="count")
    stack = k.isa.module_base + STACK_OFFSET
    for at, do in itertools.product(
        (0, stack - 8, stack + STACK_SIZE, k.isa.module_base + HEAP_OFFSET - 8), ("read", "write", "poke")
    ):
        call = {
            "read": lambda at=at: k.machine.read(at, 8),
            "write": lambda at=at: k.machine.write(at, bytes(8)),
            "poke": lambda at=at: k.machine.poke(at, bytes(8)),
        }[do]
        message = complaint(call)
        assert f"{at:#x}" in message and isa in message
    works(k)


def test_heap_that_is_full_is_one_line_and_loses_nothing():
    """A heap with no room refuses the ops, names what is full, and every place that was taken on the way is free
    again."""
    k = Kernel("x86_64", "v7.2", meter="count")
    taken = k.heap.take(64 * 4096 - 64)
    f = k.function("one_arg")
    for _ in range(3):
        assert "heap is full" in complaint(lambda: k.attach(f, Ops(filter=k.functions)))
    k.heap.give(taken)
    # all 128 places of the pool are still there, and the module area's first byte
    ops = k.attach(f, *(Ops() for _ in range(128)))
    assert ops[0].trampoline == k.isa.module_base and {o.index for o in ops} == set(range(128))
    k.detach(*ops)
    works(k)


def test_trampoline_out_of_reach():
    """A callback that a generated trampoline cannot call is refused with both addresses."""
    assert not x86_64.CALL.reaches(x86_64.ISA.module_base, 0x1000)
    k = Kernel("x86_64", "v7.2", meter="count")
    symbol = k.image.symbols["lab_callback"]
    k.image.symbols["lab_callback"] = type(symbol)("lab_callback", 0x1000, 8)
    try:
        message = complaint(lambda: k.attach(k.function("one_arg"), Ops()))
    finally:
        k.image.symbols["lab_callback"] = symbol
    assert "0x1000" in message and "reach" in message
    assert k.slowpath.ops == []
    works(k)


def test_every_known_release_says_when():
    """The history that such messages quote is never empty, and `parse` refuses what is no tag in the same style."""
    for isa, feature in itertools.product(ISAS, releases.feature_names("arm64")):
        assert releases.history(isa, feature)
    for bad in ("v6", "6.12", "v6.12.3", "next", ""):
        assert "mainline" in complaint(lambda bad=bad: releases.parse(bad))
