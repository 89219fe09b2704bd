"""The cost of converting one light structure into another: instructions, and bytes read and written for it.

The structures are the lab's (guest/include/ways.h): no kernel has one for each subsystem.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import unknown
from ...emulate.counting.counters import INSTRUCTION, STORE
from ...lab.kernel import Kernel
from ..structures.fields import WORD

#: Conversion -> the structure that it reads and the one that it makes.
CONVERSIONS = {
    "to_fprobe": ("ftrace_regs", "lab_fprobe_light"),
    "to_bpf": ("lab_fprobe_light", "lab_bpf_light"),
    "to_perf": ("lab_bpf_light", "lab_perf_light"),
    "to_regs": ("lab_perf_light", "pt_regs"),
    "back": ("lab_bpf_light", "ftrace_regs"),
}
#: The conversions of one call on its way to perf in today's kernel, in order.
CHAIN = ("to_fprobe", "to_bpf", "to_perf", "to_regs")
_FUNCTION = "lab_convert_"


@dataclass(frozen=True)
class Converted:
    """One conversion.

    read, written: bytes of the two structures.
    copied: offset of a slot of the new structure -> offset in the old one from which the word came; made-up words are not in it.
    """

    source: str
    target: str
    instructions: int
    loads: int
    stores: int
    read: int
    written: int
    copied: dict[int, int]


def convert(kernel: Kernel, name: str) -> Converted:
    """Run one, on words that are all different. Its call and its return are not counted, as it is written where it is used. Raises
    TramplabError for an unknown one."""
    if name not in CONVERSIONS:
        raise unknown("conversion", name, CONVERSIONS)
    machine, isa = kernel.machine, kernel.isa
    source, target = CONVERSIONS[name]
    sizes = [kernel.image.struct(kind).size for kind in (source, target)]
    words = [0x5EED << 32 | n for n in range(sizes[0] // WORD)]
    places = [kernel.memory(*words), kernel.memory(*[0] * (sizes[1] // WORD))]
    stack = {isa.sp: machine.stack_top - 0x100}
    raw = machine.call(kernel.image.address(_FUNCTION + name), {**dict(zip(isa.args, places, strict=False)), **stack})
    bytes_of, counts = {False: 0, True: 0}, {False: 0, True: 0}
    for _, address, _, size, what in machine.events().tolist():
        store = what == STORE
        if what != INSTRUCTION and places[store] <= address < places[store] + sizes[store]:
            bytes_of[store] += size
            counts[store] += 1
    made = {WORD * n: machine.read_u64(places[1] + WORD * n) for n in range(sizes[1] // WORD)}
    copied = {at: WORD * words.index(value) for at, value in made.items() if value in words}
    instructions = raw.tally.instructions - 1
    return Converted(source, target, instructions, counts[False], counts[True], bytes_of[False], bytes_of[True], copied)
