"""The lab's trampolines beside those of real kernels, instruction by instruction: the same but for where things lie, or excused."""

import dataclasses
import difflib
import re

import pytest

from tramplab import Kernel
from tramplab.emulate import decode
from tramplab.ftrace.facts import parse
from tramplab.ftrace.releases import LATEST
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.run.machine import RealMachine
from tramplab.vmlinux.saved import store

PACKAGES = {p.name: p for p in plain() if parse(p.release) <= parse(LATEST)}
TRAMPOLINES = ("ftrace_caller", "ftrace_regs_caller", "return_to_handler", "arch_rethook_trampoline", "__kretprobe_trampoline")
#: What lies inside of one, or goes on behind it, and what fills the room up to the next function.
INSIDE = {"ftrace_call", "ftrace_graph_call", "ftrace_common", "ftrace_caller_direct", "ftrace_caller_direct_late"}
INSIDE |= {"ftrace_caller_op_ptr", "ftrace_regs_caller_op_ptr", "ftrace_regs_call", "ftrace_regs_caller_jmp"}
INSIDE |= {"ftrace_caller_end", "ftrace_regs_caller_end"}  # before their last instruction
PADDING = {"nop", "udf N", "unimp"}
#: Where a CPU may only speculate to, behind a RET.
NEVER = "int3"


def code(machine, isa, start, name_of):
    """The instructions of a trampoline, without offsets and without saying which are compressed."""
    found, pc = [], start
    while pc == start or "+" in (name := name_of(pc) or "end") or name in INSIDE:
        instruction = decode.at(isa, pc, machine.read(pc, isa.max_insn))
        text = re.sub(r"^c\.|(?<=^nop) .*|(?<=[ls]d)sp\b", "", instruction.text)
        text = re.sub(r"^li (\w+), 0$", r"mv \1, zero", text)
        found.append(re.sub(r"#?-?\b(0x[0-9a-f]+|\d+)\b", "N", text))
        pc += instruction.size
    while found[-1] in {*PADDING, NEVER}:
        found.pop()
    return [text for text in found if text != NEVER]


def differ(lab, image):
    """What only one of the two has: "- " the lab's, "+ " the image's."""
    return [line for line in difflib.ndiff(lab, image) if line[0] in "-+"]


@dataclasses.dataclass(frozen=True)
class Excuse:
    """Why the lab's trampoline is not the image's; only: what one of them has, a line each, "-" the lab's and "+" the image's."""

    why: str
    only: str

    def __post_init__(self) -> None:
        assert self.why and self.lines

    @property
    def lines(self) -> list[str]:
        """What differs, as differ() has it."""
        return [line.strip() for line in self.only.strip().splitlines()]


_REGS = Excuse(
    "a word is moved on the stack by rcx, before it is restored",
    """
    - mov rcx, qword ptr [rsp + N]
    + mov rdi, qword ptr [rsp + N]
    + mov qword ptr [rsp + N], rdi
    - mov qword ptr [rsp + N], rcx
    """,
)
#: (package, trampoline) -> where the two differ, and why that is left so.
EXCUSED = {
    **{(f"debian-{release}-amd64", "ftrace_regs_caller"): _REGS for release in ("6.1", "6.12", "7.2")},
    ("debian-6.1-arm64", "ftrace_caller"): Excuse(
        "the same words are stored in other pairs, and the lab's common part lies elsewhere",
        """
        - b N
        - stp x29, x9, [sp, N]
        + str x29, [sp, N]
        + stp x9, x10, [sp, N]
        - stp x10, x30, [sp, N]
        + str x30, [sp, N]
        + b N
        """,
    ),
    ("debian-6.1-arm64", "ftrace_regs_caller"): Excuse(
        "what both callers of the lab store alike is in the common part",
        """
        + stp x28, x29, [sp, N]
        + add x10, sp, N
        + stp x9, x10, [sp, N]
        - str x28, [sp, N]
        + str x30, [sp, N]
        + stp x29, x9, [sp, N]
        + add x29, sp, N
        + stp x29, x30, [sp, N]
        + add x29, sp, N
        """,
    ),
}


@pytest.fixture(scope="module", params=PACKAGES)
def pairs(request):
    """The package, and trampoline -> its code in the lab's kernel of that release and in the image, of those that both have."""
    package = PACKAGES[request.param]
    if not there(package):
        pytest.skip(f"the kernel image {package.name} is not in the cache: `make kernels` fetches it")
    kernel, real = Kernel(package.isa, package.release), RealMachine(store.opened(package))
    return package.name, {
        name: (
            code(kernel.machine, kernel.isa, kernel.image.address(name), kernel.image.where),
            code(real.machine, real.isa, real.opened.address(name), real.name_of),
        )
        for name in TRAMPOLINES
        if name in kernel.image.symbols and real.opened.has(name)
    }


def test_a_trampoline_is_the_image_s_or_excused(pairs):
    """One that has been made alike needs no excuse any more, so an excuse is for exactly what differs."""
    package, codes = pairs
    assert "ftrace_caller" in codes
    for name, (lab, image) in codes.items():
        excuse = EXCUSED.get((package, name))
        assert differ(lab, image) == (excuse.lines if excuse else []), (package, name)


def test_an_excuse_is_for_what_is_compared():
    assert {package for package, _ in EXCUSED} <= set(PACKAGES) and {name for _, name in EXCUSED} <= set(TRAMPOLINES)


def test_what_differs_is_seen():
    """A register, an instruction, and their order; not where it lies."""
    assert not differ(["ld t1, N(t0)"], ["ld t1, N(t0)"])
    assert differ(["ld t1, N(t0)"], ["ld t2, N(t0)"]) == ["- ld t1, N(t0)", "+ ld t2, N(t0)"]
    assert differ(["mv a1, ra", "mv a3, sp"], ["mv a3, sp", "mv a1, ra"])
