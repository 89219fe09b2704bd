"""Where a function that the graph tracer watches comes back to: what the return trampoline gives a handler, and leaves a caller."""

import pytest

from support.abi import abi, abi_places, fprobe_abi
from support.abi.returned import returned
from support.mutants.mutants import of, survivors
from tramplab import Kernel, TramplabError
from tramplab.isa import ISAS

#: What it stores: registers, and the member and word of a struct ftrace_regs. x86-64's stack pointer is the function's since v7.0.
STORED = {
    "x86_64": {"rax": ("ax", 0), "rdx": ("dx", 0), "rbp": ("bp", 0), "rsp": ("sp", 0)},
    "arm64": {**{f"x{n}": ("regs", n) for n in range(8)}, "x29": ("fp", 0)},
    "riscv64": {"ra": ("ra", 0), "s0": ("s0", 0), "a0": ("args", 0), "a1": ("args", 1)},
}


def told(k: Kernel) -> dict[str, int]:
    """What the last handler at a return was given."""
    struct = "pt_regs" if k.isa.name == "x86_64" else "ftrace_regs"  # of which the other is all there is
    fields, at = k.image.struct(struct).fields, k.image.address("lab_returned_regs")
    return {r: k.machine.read_u64(at + fields[member].offset + 8 * n) for r, (member, n) in STORED[k.isa.name].items()}


def complain(h: fprobe_abi.FprobeHooked, seed: int) -> list[str]:
    """What is wrong with what the handler was given, and with what the caller finds."""
    first, last = returned(h, h._trampoline, seed)
    isa = h.isa
    kept = {*isa.callee_saved, *isa.returns, isa.sp} | ({*isa.args} if isa.name == "arm64" else set())
    wrong = [f"told {register}" for register, value in told(h.kernel).items() if value != first[register]]
    return wrong + [f"left {register}" for register in isa.registers if register in kept and last[register] != first[register]]


@pytest.mark.parametrize("isa", ISAS)
def test_the_handler_is_given_the_registers_as_the_function_left_them(isa):
    with fprobe_abi.hooked(abi.lab(abi_places.Place(isa, "v7.2", ())), "fprobe-exit") as h:
        for seed in range(2, 12, 2):
            assert complain(h, seed) == []


#: Instructions of it that no check notices, and why.
HARMLESS = {
    "x86_64": {"int3": "the call before it does not come back"},
    "arm64": {},
    "riscv64": {
        "c.ldsp ra, 8(sp)": "ra is what comes back with the way, and no caller reads it",
        "c.addi4spn s0, sp, 0x70": "only who unwinds the stack from inside a handler reads it",
    },
}


def noticed(lab: abi.Lab) -> bool:
    """Does the check find something wrong?"""
    try:
        with fprobe_abi.hooked(lab, "fprobe-exit") as h:
            return any(complain(h, seed) for seed in (2, 4))
    except (AssertionError, TramplabError):
        return True


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_of_the_return_trampoline_is_needed(isa):
    """One after the other is a NOP: what a handler or a caller looks for is lost, or the call does not come to its end."""
    survived = survivors(abi_places.Place(isa, "v7.2", ()), ("return_to_handler",), noticed)
    assert survived == [text for text in survived if text in HARMLESS[isa]]
    assert len(survived) == len(set(survived)) == len(HARMLESS[isa])


_ARM64 = """	stp	x6, x7, [sp, #X(6)]
	str	x29, [sp, #OFF_ftrace_regs_fp]
	mov	x0, sp
	bl	ftrace_return_to_handler
	mov	x30, x0
	ldp	x0, x1, [sp, #X(0)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x6, x7, [sp, #X(6)]
"""
#: What is stored and loaded alike, which a caller cannot tell from what is right.
MUTANTS = of(
    "arm64",
    "v7.2",
    "fprobe-exit",
    "arm64/fgraph.S",
    ("x6 and x7 swapped", _ARM64, _ARM64.replace("x6, x7", "x7, x6")),
    ("x6 and x7 somewhere else", _ARM64, _ARM64.replace("#X(6)", "#OFF_ftrace_regs_sp")),
    (
        "x6 and x7 left as they are",
        _ARM64,
        _ARM64.replace("	stp	x6, x7, [sp, #X(6)]\n", "").replace("	ldp	x6, x7, [sp, #X(6)]\n", ""),
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_of_the_return_trampoline_is_caught(mutant, mutated):
    assert noticed(mutated(mutant))
