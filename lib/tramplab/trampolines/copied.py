"""The per-ops trampoline of x86-64: a copy of the common one that knows its ops and calls the callback itself.

Stands for create_trampoline() of arch/x86/kernel/ftrace.c (since about v3.19): the code from the trampoline's first byte
to its end label, a RET, and behind it the address of the ops; the load of the ops is pointed at that word, the call at
the ops' function, and in the copy of ftrace_regs_caller the branch to the direct exit is a NOP.
"""

from __future__ import annotations

import struct

from ..emulate.image import Image
from ..errors import TramplabError
from ..ftrace.layout import Heap
from ..ftrace.ops import Direct, Registered
from ..ftrace.steps import Step, pointer, text
from ..isa.x86_64 import CALL

_RET, _NOP2 = b"\xc3", b"\x66\x90"
_LOAD_OPS_SIZE = 7  # movq disp32(%rip), %rdx


class OpsTrampolines:
    """Makes and frees them in the module area; remembers which lie where."""

    def __init__(self, image: Image, module_area: Heap) -> None:
        self.image = image
        self._heap = module_area

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make an ops' trampoline; a direct call keeps to the common one, which has its exit."""
        if isinstance(ops.request, Direct):
            return []
        name = "ftrace_regs_caller" if ops.saves_regs else "ftrace_caller"
        code = bytearray(self._template(name))
        size = len(code) + len(_RET)
        literal = (size + 7) & ~7
        base = self._heap.take(literal + 8)
        ops.trampoline, ops.trampoline_size = base, size
        start = self.image.address(name)

        load = self.image.address(f"{name}_op_ptr") - start
        code[load + 3 : load + 7] = struct.pack("<i", literal - (load + _LOAD_OPS_SIZE))
        call = self.image.address("ftrace_regs_call" if ops.saves_regs else "ftrace_call") - start
        target = self.image.address("ftrace_ops_assist_func") if ops.assisted else ops.func
        if not CALL.reaches(base + call, target):
            raise TramplabError(
                f"the callback at {target:#x} is out of a call's reach from the trampoline at {base:#x}."
            )
        code[call : call + 5] = CALL.encode(base + call, target)
        if ops.saves_regs:
            jump = self.image.address("ftrace_regs_caller_jmp") - start
            code[jump : jump + 2] = _NOP2

        whole = bytes(code) + _RET + b"\xcc" * (literal - size) + pointer(ops.address)
        return [text(base, whole, f"a copy of {name} for this ops alone")]

    def free(self, ops: Registered) -> list[Step]:
        """Give the memory back, once everybody has left it; what it holds does not matter any more."""
        if ops.trampoline_size:
            self._heap.give(ops.trampoline)
        return []

    def _template(self, name: str) -> bytes:
        start, end = self.image.address(name), self.image.address(f"{name}_end")
        for s in self.image.segments:
            if s.address <= start < s.address + s.size:
                return s.data[start - s.address : end - s.address]
        raise TramplabError(f"{name} is in no segment of {self.image.path}.")
