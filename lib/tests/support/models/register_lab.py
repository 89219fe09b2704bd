"""A kernel with room for structures of registers, and what each ISA's structures hold where, for the tests of who reads them."""

from __future__ import annotations

import functools

from hypothesis import settings
from hypothesis import strategies as st

from tramplab import Kernel
from tramplab.ftrace.releases import LATEST
from tramplab.sparsity.consumers import consumers
from tramplab.sparsity.consumers.consumers import read
from tramplab.sparsity.structures.fields import FTRACE_REGS, PT_REGS, Place, named, places

few = settings(max_examples=max(settings.default.max_examples // 20, 5))
WORD, MASK = 8, (1 << 64) - 1
#: Per ISA: the registers of arguments, what is returned, ip, sp, frame pointer and state (System V psABI, AAPCS64, RISC-V psABI).
ROLES = {
    "x86_64": ("di si dx cx r8 r9".split(), "ax", "ip", "sp", "bp", "flags"),
    "arm64": ([f"x{n}" for n in range(8)], "x0", "pc", "sp", "x29", "pstate"),
    "riscv64": ([f"a{n}" for n in range(8)], "a0", "epc", "sp", "s0", "status"),
}
#: Where the mode is, and what it is in the kernel: cs's privilege level 0; EL1h; SPP set.
MODE = {"x86_64": ("cs", 0x10), "arm64": ("pstate", 5), "riscv64": ("status", 1 << 8)}

class Lab:
    """A kernel, room for a structure of each kind, and a stretch of memory that can be somebody's stack."""

    def __init__(self, isa: str, release: str = LATEST) -> None:
        self.kernel = Kernel(isa, release=release)
        self.machine, self.isa = self.kernel.machine, isa
        self.at = {kind: self.kernel.heap.take(self.kernel.image.struct(kind).size) for kind in (PT_REGS, FTRACE_REGS)}
        # a kernel's stack begins at a multiple of its size; twice that, so that one that is too large is seen
        self.stack = -(-self.kernel.heap.take(1 << 16) // (1 << 15) * (1 << 15))

    def put(self, kind: str, data: bytes, **fields: int) -> None:
        """Make this the structure, with some fields set."""
        self.machine.write(self.at[kind], data[: self.kernel.image.struct(kind).size])
        for name, value in fields.items():
            self.machine.write_u64(self.at[kind] + self.place(kind, name).offset, value)

    def place(self, kind: str, name: str) -> Place:
        return named(self.kernel.image, kind, name)

    def held(self, kind: str) -> dict[str, int]:
        """The structure, field by field."""
        at = self.at[kind]
        fields = places(self.kernel.image, kind)
        return {p.name: int.from_bytes(self.machine.read(at + p.offset, p.size), "little") for p in fields}

    def read(self, name: str, kind: str = PT_REGS, number: int | None = None) -> consumers.Reading:
        return read(self.kernel, name, kind, self.at[kind], number)


@functools.cache
def lab(isa: str, release: str = LATEST) -> Lab:
    return Lab(isa, release)


structures = st.binary(min_size=512, max_size=512)
