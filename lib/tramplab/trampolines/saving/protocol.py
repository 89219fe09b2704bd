"""The protocol between trampolines of a given save set and an ISA."""

from __future__ import annotations

from typing import Protocol

from ...emulate.image import Image
from ...ftrace.releases import Features
from ...isa.record import Branch
from .plan import SavePlan


class SavingArch(Protocol):
    """What the module of each ISA has."""

    @property
    def ARGUMENTS(self) -> tuple[str, ...]:
        """Registers that can carry an argument."""

    @property
    def CLOBBERED(self) -> tuple[str, ...]:
        """Registers that C may clobber."""

    @property
    def ARGS(self) -> tuple[str, ...]:
        """Registers that the kernel's trampoline for arguments saves."""

    @property
    def REGS(self) -> tuple[str, ...]:
        """Registers that the kernel's trampoline for all registers saves."""

    @property
    def CALL(self) -> Branch:
        """The branch by which a trampoline calls."""

    def before(self, image: Image, features: Features, plan: SavePlan) -> str:
        """Assembly up to the load of the ops' address: make the frame, save, and set up what the callback is passed."""

    def after(self, image: Image, features: Features, plan: SavePlan) -> str:
        """Assembly from behind the call on: restore, and go to where the ip's slot says."""

    def load_ops(self, pc: int, ops: int) -> bytes:
        """The ops' address into its argument's register."""
