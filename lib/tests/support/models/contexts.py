"""What the tests of rewritten BPF programs share: structures, layouts of them, and contexts for both."""

import functools
import random
from dataclasses import dataclass

from tramplab import Kernel
from tramplab.build.dwarf import Struct
from tramplab.isa import Isa
from tramplab.sparsity.context.layout import CONSTANT, DERIVED, GARBAGE, TRUE, Always, At, Layout, layout, slots
from tramplab.sparsity.context.programs import renamed

ISAS = ("x86_64", "arm64", "riscv64")
#: What ftrace_caller's structure holds, typed from what its code does (v6.16): stored as they are; calculated; the same always.
_TRUE = {
    "x86_64": "ax cx dx si di r8 r9 bp".split(),
    "arm64": [*(f"regs[{n}]" for n in range(9)), "fp", "lr"],
    "riscv64": ["ra", "s0", *(f"args[{n}]" for n in range(8))],
}
_DERIVED = {"x86_64": ["ip", "sp"], "arm64": ["pc", "sp"], "riscv64": ["epc", "sp"]}
_CONSTANT = {"x86_64": ["orig_ax", "cs"], "arm64": ["direct_tramp"], "riscv64": ["t1"]}


@dataclass(frozen=True)
class Place:
    """An ISA with its structs."""

    isa: Isa
    pt_regs: Struct
    light: Struct


@functools.cache
def place(isa: str, release: str = "v6.16") -> Place:
    kernel = Kernel(isa, release)
    return Place(kernel.isa, kernel.image.structs["pt_regs"], kernel.image.structs["ftrace_regs"])


def saved(isa: str, **promised: int) -> Layout:
    """As ftrace_caller fills it."""
    there = place(isa)
    filled = {name: kind for kind, of in ((TRUE, _TRUE), (DERIVED, _DERIVED), (CONSTANT, _CONSTANT)) for name in of[isa]}
    return layout(there.pt_regs, there.light, filled, renamed(there.isa), promised)


def by_name(isa: str) -> Layout:
    """As if every slot of ftrace_regs that has a name of pt_regs' held that register."""
    there = place(isa)
    light = slots(there.pt_regs if there.light.size == there.pt_regs.size else there.light)
    return layout(there.pt_regs, there.light, dict.fromkeys([s.name for s in light], TRUE), renamed(there.isa))


def elsewhere(pt_regs: Struct) -> Layout:
    """Every slot has a place, in the opposite order."""
    there = slots(pt_regs)
    room = 8 * len(there)
    return Layout(tuple((s, At(room - 8 - 8 * n)) for n, s in enumerate(there)), pt_regs.size, room)


def contexts(of: Layout, rng: random.Random) -> tuple[bytes, bytes]:
    """A pt_regs and the light structure for the same registers; what nobody fills holds something else in each. Values are such
    that comparisons go either way."""
    full, light = bytearray(rng.randbytes(of.context)), bytearray(rng.randbytes(of.size))
    for slot, where in of.places:
        value = rng.choice((0, 1, 5, (1 << 64) - 12, 0xFFFFFFFF81234560, rng.getrandbits(12), rng.getrandbits(64)))
        data = (value & (1 << 8 * slot.size) - 1).to_bytes(slot.size, "little")
        if isinstance(where, Always):
            data = where.value.to_bytes(slot.size, "little")
        full[slot.offset : slot.offset + slot.size] = data
        if isinstance(where, At):
            light[where.offset : where.offset + slot.size] = data
    return bytes(full), bytes(full if of.whole else light)  # what takes a pt_regs takes all of it


__all__ = ["CONSTANT", "DERIVED", "GARBAGE", "ISAS", "TRUE", "by_name", "contexts", "elsewhere", "place", "saved"]
