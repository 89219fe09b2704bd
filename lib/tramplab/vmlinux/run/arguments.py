"""The arguments of every call of a real kernel's function: a value of its own in each register, all of them addresses of zeros."""

from __future__ import annotations

from ...emulate.engine import PAGE
from ...emulate.memory.memory import Area
from ...isa import Isa

#: The first argument, and from register to register.
FIRST, STEP = 0x1111_1111_0000_0041, 0x0101_0101_0000_0100
#: Pages below and above an argument that can be read and written: a kprobe's instruction may be one that does.
_BELOW, _ABOVE = 1, 4


def registers(isa: Isa) -> dict[str, int]:
    """A value for every register that a caller may set, arguments first."""
    free = [r for r in isa.registers if r not in (*isa.fixed, isa.sp, isa.fp, isa.link)]
    ordered = [*isa.args, *(r for r in free if r not in isa.args)]
    return {name: FIRST + n * STEP & (1 << 64) - 1 for n, name in enumerate(ordered)}


def areas(isa: Isa) -> tuple[Area, ...]:
    """The memory that the arguments point to."""
    values = registers(isa)
    return tuple(Area((values[r] & -PAGE) - _BELOW * PAGE, (_BELOW + _ABOVE) * PAGE) for r in isa.args)
