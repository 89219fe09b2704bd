"""The per-ops trampoline of x86-64: a copy of the common one that knows its ops and calls the callback itself.

Stands for create_trampoline() of arch/x86/kernel/ftrace.c (since about v3.19): the code from the trampoline's first byte
to its end label, a RET, and behind it the address of the ops; the load of the ops is pointed at that word, the call at
the ops' function, and in the copy of ftrace_regs_caller the branch to the direct exit is a NOP.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ...base.errors import TramplabError
from ...emulate.image import Image
from ...ftrace.layout import Heap
from ...ftrace.ops import Generated, Registered
from ...ftrace.steps import Step, pointer, text
from ...isa.x86_64 import CALL

_RET, _NOP2 = b"\xc3", b"\x66\x90"
_LOAD_OPS_SIZE = 7  # movq disp32(%rip), %rdx


def create(image: Image, area: Heap, ops: Registered, leave: Callable[[int], bytes] | None = None) -> list[Step]:
    """The steps that make an ops' trampoline in the module area; leave: what it ends with at an address, instead of a RET. Raises
    TramplabError where there is no room for it, or where it cannot call the callback."""
    name = "ftrace_regs_caller" if ops.saves_regs else "ftrace_caller"
    code = bytearray(_template(image, name))
    size = len(code) + len(leave(image.address(name)) if leave else _RET)
    literal = (size + 7) & ~7
    start = image.address(name)
    call = image.address("ftrace_regs_call" if ops.saves_regs else "ftrace_call") - start
    target = image.address("ftrace_ops_assist_func") if ops.assisted else ops.func

    base = area.take(literal + 8)
    if not CALL.reaches(base + call, target):
        area.give(base)
        raise TramplabError(f"the callback at {target:#x} is out of a call's reach from the trampoline at {base:#x}.")
    ops.trampoline, ops.trampoline_size = base, size
    ops.generated = (Generated(base, size, "ftrace_trampoline"),)

    load = image.address(f"{name}_op_ptr") - start
    code[load + 3 : load + 7] = struct.pack("<i", literal - (load + _LOAD_OPS_SIZE))
    code[call : call + 5] = CALL.encode(base + call, target)
    if ops.saves_regs:
        jump = image.address("ftrace_regs_caller_jmp") - start
        code[jump : jump + 2] = _NOP2
    end = leave(base + len(code)) if leave else _RET
    whole = bytes(code) + end + b"\xcc" * (literal - size) + pointer(ops.address)
    return [text(base, whole, f"a copy of {name} for this ops alone")]


def _template(image: Image, name: str) -> bytes:
    start, end = image.address(name), image.address(f"{name}_end")
    for s in image.segments:
        if s.address <= start < s.address + s.size:
            return s.data[start - s.address : end - s.address]
    raise TramplabError(f"{name} is in no segment of {image.path}.")
