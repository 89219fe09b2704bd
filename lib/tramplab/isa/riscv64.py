"""riscv64 (RV64GC), LP64 calling convention, as the kernel uses it."""

import struct
from collections.abc import Callable

from .record import SPLIT, Branch, Isa, ReturnStack, UserSpace

T0, RA = 5, 1


def split_offset(offset: int) -> tuple[int, int]:
    """An AUIPC's upper 20 bits and the signed 12-bit rest that a JALR adds.

    >>> split_offset(0x12800)
    (19, -2048)
    """
    low = ((offset & 0xFFF) ^ 0x800) - 0x800
    return (offset - low) >> 12, low


def auipc(rd: int, upper: int) -> bytes:
    """AUIPC rd, upper (unprivileged ISA, 2.4)."""
    return struct.pack("<I", (upper & 0xFFFFF) << 12 | rd << 7 | 0x17)


def jalr(rd: int, rs1: int, low: int) -> bytes:
    """JALR rd, low(rs1) (unprivileged ISA, 2.5)."""
    return struct.pack("<I", (low & 0xFFF) << 20 | rs1 << 15 | rd << 7 | 0x67)


def _pair(register: int) -> Callable[[int, int], bytes]:
    def encode(pc: int, target: int) -> bytes:
        upper, low = split_offset(target - pc)
        return auipc(register, upper) + jalr(register, register, low)

    return encode


_REACH = (-(1 << 31) - 0x800, (1 << 31) - 0x801)

#: AUIPC+JALR through t0, as a patch site has it since v6.3; through ra, as the 16-byte site and trampolines have it.
CALL_T0 = Branch(_pair(T0), _REACH, 8)
CALL_RA = Branch(_pair(RA), _REACH, 8)
#: The range of a JAL, with 20 bits of halves (unprivileged ISA, 2.5): no kernel's patch site is one.
JAL_REACH = (-(1 << 20), (1 << 20) - 2)
NOP4 = struct.pack("<I", 0x00000013)
C_NOP = struct.pack("<H", 0x0001)
#: The first and last instruction of the 16-byte site (v5.12 to v6.2): ra goes to and comes from the word below sp.
SD_RA = struct.pack("<I", 0xFE113C23)
LD_RA = struct.pack("<I", 0xFF813083)

#: The canary of the stack protector is the first word of the task.
_CANARY = ("-mstack-protector-guard=tls", "-mstack-protector-guard-reg=tp", "-mstack-protector-guard-offset=0")
_CFLAGS = ("-march=rv64imac_zicsr_zifencei", "-mabi=lp64", "-mcmodel=medany", "-mno-relax", *_CANARY)
_IRQS = "interrupts are turned off by an LI and on by an ANDI, the kernel's by CSRRCI and CSRS"

EBREAK, C_EBREAK = struct.pack("<I", 0x00100073), struct.pack("<H", 0x9002)

ISA = Isa(
    name="riscv64",
    registers=tuple(
        "ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6".split()
    ),
    pc="pc",
    sp="sp",
    fp="s0",
    link="ra",
    args=tuple(f"a{n}" for n in range(8)),
    returns=("a0", "a1"),
    struct_return="a0",
    struct_spills=SPLIT,
    callee_saved=tuple(f"s{n}" for n in range(12)),
    scratch=tuple(f"t{n}" for n in range(7)),
    fixed=("sp", "gp", "tp"),
    call_pushes=0,
    nops={2: C_NOP, 4: NOP4},
    bases=(("tp", "task"),),
    breakpoints=(EBREAK, C_EBREAK),
    call=CALL_T0,
    max_insn=4,
    return_stack=ReturnStack(("ra", "t0"), "RISC-V unprivileged ISA, 2.5.1: x1 and x5 as rd push, as rs1 pop"),
    text_base=0xFFFFFFFF80000000,
    module_base=0xFFFFFFFF84000000,
    far_base=0xFFFFFFFF90000000,
    triple="riscv64-none-elf",
    cflags=_CFLAGS,
    asm_prologue=".option norvc",  # compression would be the assembler's choice, not the author's
    unicorn=("UC_ARCH_RISCV", "UC_MODE_RISCV64", None),
    unicorn_prefix="riscv",
    capstone=("CS_ARCH_RISCV", "CS_MODE_RISCV64|CS_MODE_RISCVC"),
    keystone=None,
    # below 2 GiB, where LUI and ADDIW make an address, as they do of a kernel's, whose upper half is all ones
    user_space=UserSpace(shift=0xFFFFFFFF40000000, cflags=_CFLAGS, bases=(("tp", "task"),), differs=(_IRQS,)),
)
