"""An unwinder by the rules of the kernel's ORC unwinder: where an instruction's stack layout is known it needs no frame pointer.

Known is the layout of all code that was there when the kernel was built: objtool works it out from the code, and here
`layouts` does. Code that is made at run time has none of its own. The copy of a common trampoline is looked up where it was
copied from. In BPF's trampolines the frame pointer is assumed to point to a record, which it does from behind their prologue to
their epilogue; outside of that, in older kernels, and in any other code that is not known, the same is a guess.

The rules are those of arch/x86/kernel/unwind_orc.c: from the second frame on the layout before the call counts, not the one
behind it, and frames must go up. A return trampoline pushes its own address, so that it looks as if it had called itself; what a
return hook took the place of is looked up for that. The guess is of ae6a45a08689 (June 2019), and that the kernel knows where BPF's
frame pointer holds is of 01bc3b6db18d. What the kernel's assembly annotates by hand is worked out from the code too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from ..emulate.decode import Instruction, at
from ..emulate.image import Image
from ..ftrace import releases
from ..lab.kernel import Kernel
from ..trampolines.bpf import Bpf
from ..trampolines.fprobe import Fgraph, Fprobe, Shared
from ..trampolines.guest import ROOM
from ..trampolines.kprobe import Kprobe
from ..trampolines.plain import Ops
from ..trampolines.plain.maker import COMMON
from .chain import DOWN, NO_CODE, NO_NODE, OUTSIDE, WORD, Chain, IsText, Read, Recover, as_it_is
from .layouts import Layout, x86_64
from .recovery import TRAMPOLINES

#: ISAs on which the kernel has ORC data -> how layouts are worked out from code.
TABLES = {"x86_64": x86_64.layouts}
#: What a frame record means, as push rbp; mov rbp, rsp makes it.
RECORD = Layout(True, 2 * WORD, -2 * WORD)
#: Since when a kernel knows where the frame pointer of BPF's code points to a record (01bc3b6db18d); before, that was a guess.
KNOWN_SINCE = "v6.19"
#: Requests besides Ops that have a copy of a common trampoline, where each ops has its own.
_COPIED = (Fprobe, Shared, Fgraph, Kprobe)
_OUTERMOST = "caller"  # the component that calls from outside: there, as in entry code, a stack ends


@dataclass(frozen=True)
class Copy:
    """Code that was copied at run time: where it lies, its size in bytes, and where the original lies."""

    address: int
    size: int
    original: int


@dataclass(frozen=True)
class Orc:
    """The unwinder's data of one kernel at one moment: its image's layouts by address, what was copied, and the addresses in BPF's
    trampolines at which their frame pointer holds."""

    image: Image
    known: dict[int, Layout]
    copies: tuple[Copy, ...] = ()
    framed: frozenset[int] = frozenset()

    def layout(self, address: int) -> Layout | None:
        """The layout at the instruction at an address or around it; None where nothing is known."""
        for copy in self.copies:
            if copy.address <= address < copy.address + copy.size:
                address += copy.original - copy.address
        return RECORD if address in self.framed else self.known.get(address)

    def unwind(self, registers: dict[str, int], read: Read, is_text: IsText, recover: Recover = as_it_is) -> Chain:
        """Follow the stack from these registers. read: address -> word, None outside the stack. recover: gives the return
        address that a hook replaced, by where it lies; at the return trampoline's first byte that is just below the stack."""
        isa = self.image.isa
        sp, fp = registers[isa.sp], registers[isa.fp]
        first = recover(registers[isa.pc], sp - WORD)
        if first is None:
            return Chain((registers[isa.pc],), NO_NODE)
        addresses, place, guessed = [first], first, False
        while self.image.component_at(place) != _OUTERMOST:
            layout = self.layout(place)
            guessed = guessed or layout is None
            layout = layout or RECORD
            top = (fp if layout.by_frame_pointer else sp) + layout.offset
            back = read(top - WORD)
            saved = fp if layout.saved is None else read(top + layout.saved)
            if back is None or saved is None:
                return Chain(tuple(addresses), OUTSIDE, guessed)
            if top <= sp:
                return Chain(tuple(addresses), DOWN, guessed)
            if not is_text(back):
                return Chain(tuple(addresses), NO_CODE, guessed)
            back = recover(back, top - WORD)
            if back is None:
                return Chain(tuple(addresses), NO_NODE, guessed)
            addresses.append(back)
            sp, fp, place = top, saved, back - 1
        return Chain(tuple(addresses), "", guessed)


def of(kernel: Kernel) -> Orc | None:
    """The unwinder's data of a kernel as it is now, with what is attached; None where it has none: on ISAs without ORC data, and in
    a kernel built with frame pointers, which it unwinds by them."""
    if kernel.isa.name not in TABLES or kernel.features["frame_pointer"]:
        return None
    image = kernel.image
    copies: list[Copy] = []
    framed: set[int] = set()
    knows = releases.parse(kernel.features.release) >= releases.parse(KNOWN_SINCE)
    for ops in kernel.slowpath.ops:
        common = isinstance(ops.request, _COPIED) or (isinstance(ops.request, Ops) and ops.request.save in COMMON)
        if ops.trampoline and common:
            original = image.address("ftrace_regs_caller" if ops.saves_regs else "ftrace_caller")
            copies.append(Copy(ops.trampoline, ops.trampoline_size, original))
        for made in ops.generated if knows and isinstance(ops.request, Bpf) else ():
            layouts = _by_byte(image, kernel.machine.instruction_at, made.address, made.size)
            framed |= {address for address, layout in layouts.items() if layout == RECORD}
    return Orc(image, _of_image(image), tuple(copies), frozenset(framed))


@functools.lru_cache(maxsize=16)
def _of_image(image: Image) -> dict[int, Layout]:
    """The layouts of all functions of an image, as its file has them: patching does not change a stack. Room for code that is made
    later has none."""
    found: dict[int, Layout] = {}
    for symbol in image.symbols.values():
        if symbol.size and symbol.name != ROOM and image.component_at(symbol.address):
            read = functools.partial(_instruction, image)
            start = symbol.address
            for _ in range(TRAMPOLINES.get(symbol.name, 0)):  # a return leads there: only then is the stack that of a call
                start += read(start).size
            found |= _by_byte(image, read, start, symbol.address + symbol.size - start)
    return found


def _by_byte(image: Image, read: Callable[[int], Instruction], start: int, size: int) -> dict[int, Layout]:
    """The layout for every byte of a function's instructions, as a return address is looked up by the call's last byte."""
    layout_of = TABLES[image.isa.name](read, start, size)
    return {address + n: layout for address, layout in layout_of.items() for n in range(read(address).size)}


def _instruction(image: Image, address: int) -> Instruction:
    segment = next(s for s in image.segments if s.address <= address < s.address + len(s.data))
    offset = address - segment.address
    return at(image.isa, address, segment.data[offset : offset + image.isa.max_insn])
