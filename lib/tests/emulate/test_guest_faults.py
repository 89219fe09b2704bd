"""What goes wrong in the guest is said in one line: faults with their place and registers, endless loops with their functions."""

import functools
import re

import pytest

from support.complaints import complaint, works
from tramplab import GuestFault, Kernel, Ops, StepLimit
from tramplab.build.assemble import assemble
from tramplab.isa import arm64, x86_64
from tramplab.lab.places import STACK_SIZE

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)

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
    """A function that calls itself for ever runs into the guard page below the stack, and the message says that, and what the
    stack is full of."""
    k, low = subject, subject.machine.stack_top - STACK_SIZE
    with Changed(k, "two_args", RECURSE[k.isa.name]):
        message = complaint(lambda: k.call("two_args", 1, 2), GuestFault)
    said = r"write to (0x[0-9a-f]+) \(the stack is exhausted by recursion: two_args -> \.\.\. ran (\d+) times, with (\d+) bytes of"
    written, rounds, size = (int(n, 0) for n in re.search(said, message).groups())
    assert size == (8 if k.isa.name == "x86_64" else 16) and STACK_SIZE - 128 <= rounds * size <= STACK_SIZE
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
    assert complaint(lambda: k.call("pointer_args", good, k.machine.places.heap.address - 8), GuestFault)
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
