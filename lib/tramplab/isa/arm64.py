"""arm64 (AArch64), AAPCS64, as the kernel uses it."""

import struct
from collections.abc import Callable

from .record import LAST, Branch, Isa, ReturnStack, UserSpace


def _imm26(opcode: int) -> Callable[[int, int], bytes]:
    def encode(pc: int, target: int) -> bytes:
        return struct.pack("<I", opcode | (((target - pc) >> 2) & 0x3FFFFFF))

    return encode


_REACH = (-(1 << 27), (1 << 27) - 4)

#: BL and B with a 26-bit word displacement (Arm ARM, C6.2 BL, B).
BL = Branch(_imm26(0x94000000), _REACH, 4)
B = Branch(_imm26(0x14000000), _REACH, 4)
NOP = struct.pack("<I", 0xD503201F)
#: The first of a site's two instructions after boot: it saves the caller's return address from BL.
MOV_X9_LR = struct.pack("<I", 0xAA1E03E9)

_CFLAGS = ("-mgeneral-regs-only", "-mno-outline-atomics", "-ffixed-x18")


def _canary(register: str) -> tuple[str, ...]:
    """clang's flags for the stack protector: the canary is the first word of the task that this register points to. They are for
    its frontend, as the driver takes the kernel's register only."""
    options = ("=sysreg", "-offset=0", f"-reg={register}")
    return tuple(word for option in options for word in ("-Xclang", f"-mstack-protector-guard{option}"))


#: BRK with the immediate that the kernel gives its kprobes (KPROBES_BRK_IMM, 4).
BRK_KPROBE = struct.pack("<I", 0xD4200000 | 4 << 5)

ISA = Isa(
    name="arm64",
    registers=(*(f"x{n}" for n in range(31)), "sp"),
    pc="pc",
    sp="sp",
    fp="x29",
    link="x30",
    args=tuple(f"x{n}" for n in range(8)),
    returns=("x0", "x1"),
    struct_return="x8",
    struct_spills=LAST,
    callee_saved=tuple(f"x{n}" for n in range(19, 30)),
    scratch=tuple(f"x{n}" for n in range(8, 18)),
    fixed=("x18", "sp"),
    call_pushes=0,
    nops={4: NOP},
    bases=(("sp_el0", "task"), ("tpidr_el1", "pcpu")),
    breakpoints=(BRK_KPROBE,),
    call=BL,
    max_insn=4,
    return_stack=ReturnStack(("x30",), "Arm ARM, C6.2: BL, BLR are calls, RET is a return; BR is neither"),
    text_base=0xFFFF800080000000,
    module_base=0xFFFF80008C000000,  # out of a BL's reach, as BPF's code is with KASLR
    far_base=0xFFFF800090000000,
    triple="aarch64-none-elf",
    cflags=(*_CFLAGS, *_canary("sp_el0")),
    asm_prologue="",
    unicorn=("UC_ARCH_ARM64", "UC_MODE_ARM", None),
    unicorn_prefix="arm64",
    capstone=("CS_ARCH_ARM64", "CS_MODE_ARM"),
    keystone=("KS_ARCH_ARM64", "KS_MODE_LITTLE_ENDIAN"),
    user_space=UserSpace(
        shift=0xFFFF800000000000,
        cflags=(*_CFLAGS, *_canary("tpidr_el0")),
        bases=(("tpidr_el0", "task"), ("x18", "pcpu")),
        differs=(
            "current is read from TPIDR_EL0, the kernel's from SP_EL0",
            "the per-CPU base is a MOV from x18, the kernel's an MRS from TPIDR_EL1",
        ),
    ),
)
