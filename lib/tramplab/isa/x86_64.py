"""x86-64, System V calling convention, as the kernel uses it."""

import struct
from collections.abc import Callable

from .record import WHOLE, Branch, Isa, ReturnStack, UserSpace


def _rel32(opcode: int) -> Callable[[int, int], bytes]:
    def encode(pc: int, target: int) -> bytes:
        return struct.pack("<Bi", opcode, target - (pc + 5))

    return encode


_REL32 = (-(1 << 31) + 5, (1 << 31) + 4)

#: Calls and jumps with a 32-bit displacement (Intel SDM vol. 2, CALL E8, JMP E9).
CALL = Branch(_rel32(0xE8), _REL32, 5)
JMP = Branch(_rel32(0xE9), _REL32, 5)
#: One NOP of each size (Intel SDM, NOP: recommended multi-byte sequences).
NOPS = {
    len(code) // 2: bytes.fromhex(code)
    for code in "90 6690 0f1f00 0f1f4000 0f1f440000 660f1f440000 0f1f8000000000 0f1f840000000000".split()
}
#: The NOP that the kernel puts at an idle patch site (arch/x86/include/asm/nops.h, BYTES_NOP5).
NOP5 = NOPS[5]
INT3 = b"\xcc"
ENDBR64 = bytes.fromhex("f30f1efa")

_CFLAGS = ("-mno-red-zone", "-mgeneral-regs-only", "-mstack-alignment=8")

ISA = Isa(
    name="x86_64",
    registers=tuple("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()),
    pc="rip",
    sp="rsp",
    fp="rbp",
    link=None,
    args=("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
    returns=("rax", "rdx"),
    struct_return="rdi",
    struct_spills=WHOLE,
    callee_saved=("rbx", "rbp", "r12", "r13", "r14", "r15"),
    scratch=("rax", "r10", "r11"),
    fixed=("rsp",),
    call_pushes=8,
    nops=NOPS,
    bases=(("gs_base", "pcpu"),),
    breakpoints=(INT3,),
    call=CALL,
    max_insn=15,
    return_stack=ReturnStack((), "Intel SDM vol. 1, 6.4: CALL pushes, RET pops"),
    text_base=0xFFFFFFFF81000000,
    module_base=0xFFFFFFFFA0000000,
    far_base=0xFFFFFFFFFE000000,
    triple="x86_64-none-elf",
    cflags=("-mcmodel=kernel", *_CFLAGS),
    asm_prologue=".intel_syntax noprefix",
    unicorn=("UC_ARCH_X86", "UC_MODE_64", None),
    unicorn_prefix="x86",
    capstone=("CS_ARCH_X86", "CS_MODE_64"),
    keystone=("KS_ARCH_X86", "KS_MODE_64"),
    user_space=UserSpace(
        shift=0xFFFFFFFF80000000,
        cflags=("-mcmodel=small", *_CFLAGS),
        bases=(("gs_base", "pcpu"),),
        differs=("interrupts are turned off and on by CLD, by the kernel with CLI and STI",),
    ),
)
