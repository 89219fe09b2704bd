"""The protocol between BPF trampolines and an ISA; the order of the parts is in shape.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from .code import Branches, Item
from .plan import Sharing, TrampolinePlan


class BpfArch(Branches, Protocol):
    """What the module of each ISA has. f: what frame() gives. The items are code unless more is said."""

    @property
    def FIRST(self) -> str:
        """The register of a call's first argument."""

    @property
    def SECOND(self) -> str:
        """The register of a call's second argument."""

    @property
    def THIRD(self) -> str:
        """The register of a call's third argument."""

    @property
    def SHARING(self) -> Sharing:
        """What becomes of a trampoline that calls the function, when an ops that changes the ip comes."""

    @property
    def ROOM(self) -> Item:
        """The room for a jump past the fexit programs, which the kernel writes when the trampoline is freed."""

    @property
    def NOP(self) -> Item:
        """The NOP with which a program begins in releases with `bpf_program_nop`."""

    @property
    def ALIGNED(self) -> tuple[Item, ...]:
        """The alignment of what a fmod_ret program jumps to."""

    def frame(self, plan: TrampolinePlan) -> Any:
        """The layout for a plan."""

    def enter(self, plan: TrampolinePlan, f: Any) -> Iterator[Item]:
        """Make the frame and fill the array of arguments."""

    def cookie(self, plan: TrampolinePlan, f: Any, value: int) -> Iterator[Item]:
        """Put a program's cookie into the run context."""

    def prog(self, struct: int, first: bool) -> Iterator[Item]:
        """The program as the first argument, of the first of the two calls around it or of the second."""

    def run_ctx(self, f: Any, register: str) -> Item:
        """The address of the run context in a register."""

    def started(self, skip: str) -> Iterator[Item]:
        """Keep the time that the first guard returned; zero forbids the program, so go to a label."""

    def start_time(self) -> Item:
        """The time that `started` kept as the second argument."""

    def context(self, f: Any) -> Item:
        """The array of arguments as the first argument."""

    def keep_result(self, f: Any) -> Item:
        """Make the return value the function's result."""

    def clear_result(self, f: Any) -> Item:
        """Make zero the function's result."""

    def unless_zero(self, f: Any, label: str) -> Iterator[Item]:
        """Go to a label if the function's result is not zero."""

    def call_function(self, plan: TrampolinePlan, f: Any) -> Iterator[Item]:
        """Call the function with its arguments."""

    def leave(self, plan: TrampolinePlan, f: Any) -> Iterator[Item]:
        """Continue in the function, or in its caller if it has run."""
