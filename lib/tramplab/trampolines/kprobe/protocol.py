"""What differs between ISAs in a kprobe by a breakpoint: where it is put, and how the instruction is done that it replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...base.errors import TramplabError
from ...emulate.decode import Instruction
from ...ftrace.ops import Registered
from ...ftrace.site import Site
from ...ftrace.steps import Step

#: Bytes of a slot: the longest instruction of all ISAs, and a breakpoint.
SLOT = 16


@dataclass(frozen=True)
class Stepped:
    """How a probed instruction is done.

    breakpoint: what takes its place.
    copy, behind: the instruction as it lies in the slot, changed where it has a pc-relative distance, and the breakpoint behind it.
    simulate: the guest function that does what it would, "" for none; then there is no copy.
    """

    breakpoint: bytes
    copy: bytes = b""
    behind: bytes = b""
    simulate: str = ""


class KprobeArch(Protocol):
    """What the module of each ISA has."""

    def place(self, site: Site) -> int:
        """The address of the first instruction that may be probed by a breakpoint: what belongs to ftrace may not
        (check_ftrace_location() says -EINVAL where kprobes do not go through ftrace)."""

    def stepped(self, i: Instruction, slot: int) -> Stepped:
        """How an instruction is done; slot: where its copy would lie. Raises TramplabError for one that must be simulated and that
        the lab does not simulate."""

    def write(self, writes: list[Step]) -> list[Step]:
        """The steps around writes of breakpoints, or of what was there before."""


def refused(i: Instruction) -> TramplabError:
    """The error for a branch or a pc-relative instruction, which cannot run in a slot."""
    return TramplabError(
        f"the lab does not simulate {i.text!r} at {i.address:#x}, which cannot be executed elsewhere: probe another function."
    )


def slots(ops: Registered) -> tuple[int, ...]:
    """The addresses of an ops' slots."""
    return tuple(made.address for made in ops.generated if made.name == NAME)


#: What a slot is called in listings.
NAME = "kprobe_insn_slot"
