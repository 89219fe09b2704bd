"""Own code gets the type that a site of an indirect call asks for, as clang's code asks for it."""

import pytest

from support.models.handmade import OFFSET
from tramplab import Kernel
from tramplab.build.assemble import assemble
from tramplab.emulate.memory.memory import Area
from tramplab.isa import ISAS
from tramplab.vmlinux.run import cfi

#: What a site does with the function in the first argument, for a type: {minus} is its negative, {low} and {high} its halves,
#: {rest} the lower 12 bits, as riscv64's ADDIW has them, and {upper} what LUI is given for the others.
SITES = {
    "x86_64": "mov r10d, {minus}\nadd r10d, dword ptr [rdi - 4]\nje ok\nud2\nok: jmp rdi",
    "arm64": "ldur w16, [x0, #-4]\nmovk w17, #{low}\nmovk w17, #{high}, lsl #16\ncmp w16, w17\nb.eq ok\nbrk #0x8228\nok: br x0",
    "riscv64": "lw t1, -4(a0)\nlui t2, {upper}\naddiw t2, t2, {rest}\nbeq t1, t2, ok\nebreak\nok: jr a0",
}


@pytest.mark.parametrize("asked", [0x1234_5678, 0x9234_5F78, 0xFFFF_F800])
@pytest.mark.parametrize("isa", ISAS)
def test_a_site_finds_the_type_that_it_asks_for(isa, asked):
    kernel, rest = Kernel(isa), (asked & 0xFFF ^ 0x800) - 0x800
    machine, start = kernel.machine, kernel.isa.module_base + OFFSET
    parts = {"minus": -asked & 0xFFFF_FFFF, "low": asked & 0xFFFF, "high": asked >> 16, "rest": rest}
    parts["upper"] = asked - rest >> 12 & 0xFFFFF
    own = Area(start + 0x100, 0x100)
    target = own.address + cfi.ROOM
    machine.poke(start, assemble(kernel.isa, SITES[isa].format(**parts)))
    machine.poke(target, assemble(kernel.isa, "ret"))
    cfi.give_types(machine, own, lambda address: address >= target)
    for _ in range(2):
        machine.call(start, {kernel.isa.args[0]: target})
        assert machine.read(target - 4, 4) == asked.to_bytes(4, "little")
        assert machine.read(target, 1) == assemble(kernel.isa, "ret")[:1]
        machine.poke(target - 4, bytes(4))
