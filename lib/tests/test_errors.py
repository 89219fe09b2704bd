"""What goes wrong is said in one line: unknown names, what a release never had, guest faults, endless loops."""

import functools
import itertools
import re

import pytest

from tramplab import Direct, GuestFault, Kernel, Ops, StepLimit
from tramplab import isa as isas
from tramplab.emulate.assemble import assemble
from tramplab.emulate.machine import HEAP_OFFSET, STACK_OFFSET, STACK_SIZE
from tramplab.errors import TramplabError, unknown
from tramplab.ftrace import hooks, releases
from tramplab.isa import arm64, x86_64

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)
OBJECT = re.compile(r"<[\w.]+ (object|at) |Traceback|\bError\b|0x[0-9a-f]+L\b")


def complaint(call, kind=TramplabError) -> str:
    """The message of the error that a call raises: of the kind asked for, one line, one or more whole sentences,
    without an object's address or another exception behind it."""
    with pytest.raises(kind) as caught:
        call()
    e, message = caught.value, str(caught.value)
    assert type(e) is kind
    assert "\n" not in message and message.endswith(".") and message == message.strip()
    assert not OBJECT.search(message), message
    assert e.__cause__ is None and (e.__context__ is None or e.__suppress_context__)
    return message


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


# --- Guest faults

#: Per ISA: the load and the store of pointer_args as the fault shows them, and the registers that hold the pointers.
POINTERS = {
    "x86_64": (r"mov \w+, qword ptr \[rdi\]", r"mov qword ptr \[rsi\], \w+", "rdi", "rsi"),
    "arm64": (r"ldr x\d+, \[x0\]", r"str x\d+, \[x1\]", "x0", "x1"),
    "riscv64": (r"(c\.)?ld a\d, (0x0|0)\(a0\)", r"(c\.)?sd a\d, (0x0|0)\(a1\)", "a0", "a1"),
}
#: Jumps to wherever the first argument says; an illegal instruction; a trap; as assembly.
JUMP = {"x86_64": "jmp rdi", "arm64": "br x0", "riscv64": "jr a0"}
TRAPS = {
    "x86_64": [("ud2", "ud2"), ("int3", "int3"), ("xor ecx, ecx\nidiv rcx", "idiv rcx"), ("hlt", "hlt")],
    "arm64": [("udf #0", "udf"), ("brk #1", "brk"), ("svc #0", "svc"), ("wfi", "wfi")],
    "riscv64": [("unimp", "unimp"), (".option arch, +c\nc.unimp", "c.unimp"), ("ebreak", "ebreak"), ("ecall", "ecall")],
}
LINK = {"x86_64": None, "arm64": "x30", "riscv64": "ra"}


@pytest.fixture(params=[(i, m) for i in ISAS for m in ("record", "count", "none")], ids=lambda p: "-".join(p))
def subject(request) -> Kernel:
    """A kernel per ISA and meter: a fault is told the same whatever is observed."""
    isa, meter = request.param
    k = Kernel(isa, "v7.2", meter="count")
    k.machine.set_meter(meter)
    return k


class Changed:
    """A traced function whose body is replaced by some assembly or bytes, for the length of a `with`."""

    def __init__(self, k: Kernel, name: str, source: str | bytes) -> None:
        self.k, self.at = k, k.function(name).site.body
        self.code = code(k, source, self.at)

    def __enter__(self) -> int:
        self.before = self.k.machine.read(self.at, len(self.code))
        self.k.machine.poke(self.at, self.code)
        return self.at

    def __exit__(self, *_) -> None:
        self.k.machine.poke(self.at, self.before)


def code(k: Kernel, source: str | bytes, at: int) -> bytes:
    if isinstance(source, bytes):
        return source
    if k.isa.name == "arm64" and source.startswith("udf"):  # younger than the assembler
        return bytes(4)
    return assemble(k.isa, source, at)


def works(k: Kernel) -> None:
    """The kernel still does everything: plain and hooked calls, with the callback called once."""
    assert k.call("eight_args", *range(1, 9)).value == 562
    with k.attached(None, Ops(), Ops(recursion=True)):
        run = k.call("calls_others", 1, 2, 3)
        assert run.value == 13 * 11 + 3 * 3 + 13 * 5 + 1 * 7 and run.hits == (3, 3)


def check_place(k: Kernel, message: str, name: str, text: str) -> int:
    """A fault names symbol+offset of the instruction, its text, pc, sp and link register; returns the address of pc."""
    found = re.search(rf"at {name}\+0x([0-9a-f]+) \(({text})\)", message)
    assert found, message
    registers = dict(re.findall(r"(\w+)=(0x[0-9a-f]+)", message.split("; ", 1)[1]))
    assert {k.isa.pc, k.isa.sp, *filter(None, [LINK[k.isa.name]])} <= set(registers)
    if k.isa.link:
        assert int(registers[k.isa.link], 16) == k.machine.return_to
    return int(registers[k.isa.pc], 16)


@pytest.mark.parametrize("pointer", [0, 0x1234, 0xDEAD_0000_0000, 0xFFFF_FFFF_FFFF_F000], ids=hex)
def test_bad_pointer(subject, pointer):
    """Reading or writing through a bad pointer: what was done to which address, where, by which instruction, and the
    register that held the pointer. The same kernel works on afterwards."""
    k, (load, store, first, second) = subject, POINTERS[subject.isa.name]
    good = k.memory(1, 2)
    f = k.function("pointer_args")
    for args, what, text, register in (
        ((pointer, good), "read of", load, first),
        ((good, pointer), "write to", store, second),
    ):
        message = complaint(lambda args=args: k.call(f, *args), GuestFault)
        assert k.isa.name in message and f"{what} {pointer:#x} " in message
        pc = check_place(k, message, "pointer_args", text)
        assert f.address < pc < f.address + f.size
        assert re.search(rf"\b{register}={pointer:#x}\b", message)
        assert k.call(f, good, good + 8).value == 4
    works(k)


@pytest.mark.parametrize("what", ["text", "module"])
def test_write_to_text(subject, what):
    """Guest code cannot write to text, the image's or the modules'; the bytes there stay."""
    k, (_, store, _, second) = subject, POINTERS[subject.isa.name]
    target = k.function("one_arg").address if what == "text" else k.isa.module_base
    before = k.machine.read(target, 8)
    message = complaint(lambda: k.call("pointer_args", k.memory(5), target), GuestFault)
    assert f"forbidden write to {target:#x}" in message and f"{second}={target:#x}" in message
    check_place(k, message, "pointer_args", store)
    assert k.machine.read(target, 8) == before
    works(k)


@pytest.mark.parametrize("target", [0, 0xDEAD_0000, "data"], ids=["null", "unmapped", "data"])
def test_jump_to_nowhere(target):
    """A jump to where no code is: the message has the target, the instruction that jumped, where it is, and the
    register it jumped through - the target itself has no symbol."""
    for isa in ISAS:
        k = Kernel(isa, "v7.2", meter="count")
        where = k.image.address("lab_sink") if target == "data" else target
        with Changed(k, "one_arg", JUMP[isa]):
            message = complaint(lambda k=k, where=where: k.call("one_arg", where), GuestFault)
        assert re.search(rf"jump to {where:#x}\b", message)
        found = re.search(r"one_arg\+0x[0-9a-f]+ \((.+?)\)", message)
        assert found and found.group(1).removeprefix("c.") == JUMP[isa].removeprefix("c."), message
        assert f"{k.isa.args[0]}={where:#x}" in message
        works(k)


TRAP_ROWS = [(isa, source, text) for isa, rows in TRAPS.items() for source, text in rows]


@pytest.mark.parametrize(("isa", "source", "text"), TRAP_ROWS, ids=[f"{i}-{t}" for i, _, t in TRAP_ROWS])
@pytest.mark.parametrize("meter", ["record", "count"])
def test_trap(isa, source, text, meter):
    """Breakpoints, illegal instructions, system calls and halts: the instruction itself is named, not the one behind,
    and when the old text is back the function works again."""
    k = Kernel(isa, "v7.2", meter=meter)
    assert k.call("one_arg", 3).value == 9
    with Changed(k, "one_arg", source):
        message = complaint(lambda: k.call("one_arg", 3), GuestFault)
        check_place(k, message, "one_arg", rf"(c\.)?{text}[^)]*")
    assert k.call("one_arg", 3).value == 9
    works(k)


RECURSE = {
    "x86_64": "again: call again",
    "arm64": "again: stp x29, x30, [sp, #-16]!\nbl again",
    "riscv64": "again: addi sp, sp, -16\nsd ra, 8(sp)\njal ra, again",
}


def test_unbounded_recursion(subject):
    """A function that calls itself for ever runs into the guard page below the stack, and the message says that."""
    k, low = subject, subject.machine.stack_top - STACK_SIZE
    with Changed(k, "two_args", RECURSE[k.isa.name]):
        message = complaint(lambda: k.call("two_args", 1, 2), GuestFault)
    written = int(re.search(r"write to (0x[0-9a-f]+) \(the stack is exhausted\)", message).group(1), 16)
    assert low - 16 <= written < low
    assert re.search(r"at two_args\+0x", message)
    sp = int(re.search(rf"\b{k.isa.sp}=(0x[0-9a-f]+)", message).group(1), 16)
    assert low - 16 <= sp <= low
    works(k)


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v6.12", "v7.2"])
def test_stack_too_small_for_the_trampoline(isa, release):
    """With sp near the bottom of the stack it is the trampoline that faults: it is named too, also the generated one of
    x86-64 that no symbol table has. The address above the stack is a guard page as well."""
    k = Kernel(isa, release, meter="count")
    low = k.machine.stack_top - STACK_SIZE
    f = k.function("one_arg")
    with k.attached(f, Ops()):
        message = complaint(lambda: k.call(f, 1, registers={k.isa.sp: low + 32}), GuestFault)
        assert "stack is exhausted" in message
        assert re.search(r" at (ftrace_\w+(\[0\])?)(\+0x[0-9a-f]+)? \(", message), message
        assert k.call(f, 1).hits == (1,)
    works(k)
    good = k.memory(1)
    assert complaint(lambda: k.call("pointer_args", good, k.machine.stack_top), GuestFault)
    assert complaint(lambda: k.call("pointer_args", good, k.machine.heap - 8), GuestFault)
    works(k)


@every_isa
@pytest.mark.parametrize("trouble", ["fault", "budget"])
def test_trouble_in_a_callback_leaves_no_guard_held(isa, trouble):
    """A callback that faults or never returns leaves the list function in its middle, with the recursion guard taken
    and preemption off. However often that happens, the next call finds the kernel as before: callbacks are called
    again."""
    for release in ("v6.1", "v7.2"):
        k = Kernel(isa, release, meter="count")
        f, at = k.function("one_arg"), k.image.address("lab_callback")
        trap = code(k, TRAPS[isa][0][0] if trouble == "fault" else LOOP[isa], at)
        whole = k.machine.read(at, len(trap))
        task, cpu = (k.machine.read(k.image.address(s), k.image.symbol(s).size) for s in ("init_task", "lab_boot_pcpu"))
        with k.attached(f, Ops(), Ops()):
            for _ in range(3):
                k.machine.poke(at, trap)
                kind = GuestFault if trouble == "fault" else StepLimit
                complaint(functools.partial(k.call, f, 1, budget=2000), kind)
                k.machine.poke(at, whole)
                assert k.machine.read(k.image.address("init_task"), len(task)) == task
                assert k.machine.read(k.image.address("lab_boot_pcpu"), len(cpu)) == cpu
                run = k.call(f, 1)
                assert (run.value, run.hits) == (3, (1, 1))
        works(k)


# --- Endless loops

LOOP = {"x86_64": "again: jmp again", "arm64": "again: b again", "riscv64": "again: j again"}


def goto(k: Kernel, source: int, target: int) -> bytes:
    """A jump between two addresses."""
    if k.isa.name == "riscv64":
        return assemble(k.isa, f"jal zero, .{target - source:+d}", source)
    return {"x86_64": x86_64.JMP, "arm64": arm64.B}[k.isa.name].encode(source, target)


@every_isa
@pytest.mark.parametrize("meter", ["record", "count"])
@pytest.mark.parametrize("budget", [1, 50, 5000])
def test_self_branch(isa, meter, budget):
    """A branch to itself: the limit, the function it is stuck in, and the instruction; the kernel works on."""
    k = Kernel(isa, "v7.2", meter=meter)
    with Changed(k, "one_arg", LOOP[isa]):
        message = complaint(lambda: k.call("one_arg", 1, budget=budget), StepLimit)
        assert k.isa.name in message and f"within {budget} instructions" in message
        assert re.search(r"\bround in one_arg\b", message)
    works(k)


@every_isa
def test_loop_of_several_functions(isa):
    """A loop through two functions is named with both, and with nothing that only led there."""
    k = Kernel(isa, "v7.2", meter="count")
    one, two = (k.function(n).site.body for n in ("one_arg", "two_args"))
    with Changed(k, "one_arg", goto(k, one, two)), Changed(k, "two_args", goto(k, two, one)):
        for budget in (1000, 1001, 1007):
            message = complaint(lambda budget=budget: k.call("one_arg", 1, budget=budget), StepLimit)
            named = re.search(r"round in ([\w> -]+?)[:.]", message).group(1).split(" -> ")
            assert sorted(named) == ["one_arg", "two_args"], message
    with Changed(k, "two_args", LOOP[isa]):
        message = complaint(lambda: k.call("calls_others", 1, 2, 3, budget=1000), StepLimit)
        assert "round in two_args" in message and "calls_others" not in message
    works(k)


@every_isa
def test_loop_in_generated_code_is_named(isa):
    """A loop in a trampoline is named, also where x86-64 made the trampoline itself."""
    k = Kernel(isa, "v7.2", meter="count")
    f = k.function("one_arg")
    with k.attached(f, Ops()):
        target = k.slowpath.target("one_arg")
        k.machine.poke(target, code(k, LOOP[isa], target))
        message = complaint(lambda: k.call(f, 1, budget=1000), StepLimit)
    assert re.search(r"round in ftrace_(caller|trampoline\[0\])", message), message


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
