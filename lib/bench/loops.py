"""A guest loop that calls a traced function many times, so that the emulator and not the host is what is timed."""

from __future__ import annotations

from tramplab.build.assemble import assemble
from tramplab.emulate.counting.counters import RawRun
from tramplab.lab.kernel import Kernel

OFFSET = 0xC000  # in the module area, behind every generated trampoline

#: first argument: how many calls; second: the function.
LOOPS = {
    "x86_64": """
        push rbx
        push r12
        push r13
        mov rbx, rdi
        mov r12, rsi
    again:
        mov edi, 1
        mov esi, 2
        mov edx, 3
        call r12
        dec rbx
        jnz again
        pop r13
        pop r12
        pop rbx
        ret
    """,
    "arm64": """
        stp x29, x30, [sp, #-32]!
        stp x19, x20, [sp, #16]
        mov x19, x0
        mov x20, x1
    again:
        mov x0, #1
        mov x1, #2
        mov x2, #3
        blr x20
        subs x19, x19, #1
        b.ne again
        ldp x19, x20, [sp, #16]
        ldp x29, x30, [sp], #32
        ret
    """,
    "riscv64": """
        addi sp, sp, -32
        sd ra, 24(sp)
        sd s1, 16(sp)
        sd s2, 8(sp)
        mv s1, a0
        mv s2, a1
    again:
        li a0, 1
        li a1, 2
        li a2, 3
        jalr s2
        addi s1, s1, -1
        bnez s1, again
        ld ra, 24(sp)
        ld s1, 16(sp)
        ld s2, 8(sp)
        addi sp, sp, 32
        ret
    """,
}


def prepare(kernel: Kernel) -> int:
    """Put the loop into the guest; returns its address."""
    address = kernel.isa.module_base + OFFSET
    kernel.machine.poke(address, assemble(kernel.isa, LOOPS[kernel.isa.name], address))
    return address


def run(kernel: Kernel, loop: int, function: int, times: int) -> RawRun:
    """Call the function `times` times."""
    counter, target = kernel.isa.args[:2]
    return kernel.machine.call(loop, {counter: times, target: function}, budget=1 << 40)
