"""The parts of the slow path that differ between ISAs: one module each, which implements protocol.Arch."""

from __future__ import annotations

from ...isa import Isa
from . import arm64, riscv64, x86_64
from .protocol import Arch

_MODULES: dict[str, Arch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


def of(isa: Isa) -> Arch:
    """The module of an ISA."""
    return _MODULES[isa.name]
