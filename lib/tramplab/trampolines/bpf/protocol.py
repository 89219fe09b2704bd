"""The protocol between BPF trampolines and an ISA; the order of the parts is in shape.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from .code import Branches, Item
from .plan import Sharing, TrampolinePlan


class BpfArch(Branches, Protocol):
    """One module per ISA has all of this; f is what frame() gives."""

    @property
    def FIRST(self) -> str:
        """The register of a call's first argument."""

    @property
    def SECOND(self) -> str:
        """Of its second."""

    @property
    def THIRD(self) -> str:
        """Of its third."""

    @property
    def SHARING(self) -> Sharing:
        """What becomes of a trampoline that calls the function, when an ops that changes the ip comes."""

    @property
    def ROOM(self) -> Item:
        """Room for a jump past the fexit programs, which the kernel writes when the trampoline is freed."""

    @property
    def NOP(self) -> Item:
        """Where a program begins in releases with `bpf_program_nop`."""

    @property
    def ALIGNED(self) -> tuple[Item, ...]:
        """Before what a fmod_ret program jumps to."""

    def frame(self, plan: TrampolinePlan) -> Any:
        """The layout for a plan."""

    def enter(self, plan: TrampolinePlan, f: Any) -> Iterator[Item]:
        """Make the frame and fill the array of arguments."""

    def cookie(self, plan: TrampolinePlan, f: Any, value: int) -> Iterator[Item]:
        """Put a program's cookie into the run context."""

    def prog(self, struct: int, first: bool) -> Iterator[Item]:
        """The program as the first argument; first: of the two calls around it."""

    def run_ctx(self, f: Any, register: str) -> Item:
        """The address of the run context in a register."""

    def started(self, skip: str) -> Iterator[Item]:
        """Keep the time that the first guard returned; zero forbids the program, so go to a label."""

    def start_time(self) -> Item:
        """The time that `started` kept as the second argument."""

    def context(self, f: Any) -> Item:
        """The array of arguments as the first argument."""

    def keep_result(self, f: Any) -> Item:
        """What was returned becomes the function's result."""

    def clear_result(self, f: Any) -> Item:
        """The function's result is zero."""

    def unless_zero(self, f: Any, label: str) -> Iterator[Item]:
        """Go to a label if the function's result is not zero."""

    def call_function(self, plan: TrampolinePlan, f: Any) -> Iterator[Item]:
        """The function with its arguments."""

    def leave(self, plan: TrampolinePlan, f: Any) -> Iterator[Item]:
        """To the function, or to its caller if it has run."""
