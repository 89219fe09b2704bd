"""The instruction sets: one record each, found by name.

>>> get("arm64").args[:2]
('x0', 'x1')
>>> get("amr64")
Traceback (most recent call last):
    ...
tramplab.base.errors.TramplabError: unknown ISA 'amr64'; did you mean arm64 or riscv64? Known: x86_64, arm64, riscv64.
"""

from __future__ import annotations

from ..base.arguments import of_name
from ..base.errors import TramplabError
from . import arm64, riscv64, x86_64
from .record import Branch, Isa, ReturnStack, UserSpace

#: ISAs by name, in the order of every table and figure.
ISAS: dict[str, Isa] = {m.ISA.name: m.ISA for m in (x86_64, arm64, riscv64)}


def get(name: str | Isa) -> Isa:
    """The record of an ISA by name; a record is returned as it is. Raises TramplabError with the near matches."""
    return name if isinstance(name, Isa) else of_name("ISA", name, ISAS)


__all__ = ["ISAS", "Branch", "Isa", "ReturnStack", "TramplabError", "UserSpace", "get"]
