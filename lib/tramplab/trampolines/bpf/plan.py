"""The plan of a BPF trampoline: the function's arguments, the programs, and the calls around them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..arguments import Place


class Sharing(Enum):
    """What becomes of a trampoline that calls the function when an ops that changes the ip comes to it."""

    AS_IT_IS = "it calls where the way back of the site's call leads, and that is where the ops sends calls"
    MADE_AGAIN = "it is made again, to call where that way back leads (BPF_TRAMP_F_ORIG_STACK)"
    REFUSED = "no kernel's JIT makes such a one (-ENOTSUPP)"


@dataclass(frozen=True)
class Guards:
    """Addresses of what is called around a program (enter, exit), and around the function (hold, release)."""

    enter: int
    exit: int
    hold: int
    release: int


@dataclass(frozen=True)
class BpfProgram:
    """One program: address of its code, of its struct bpf_prog, and the cookie of its link."""

    code: int
    struct: int
    cookie: int


@dataclass(frozen=True)
class TrampolinePlan:
    """The plan of a BPF trampoline.

    words: the place of each argument word.
    sizes: how many of its bytes are the argument's.
    fentry, fmod_ret, fexit: programs, in order.
    guards: None for programs that are called bare, with nothing but the array of arguments.
    image: address of its struct bpf_tramp_image.
    body: the function's first byte past the site.
    run_ctx: size of the programs' context in bytes.
    cookie_at: offset of the cookie in it.
    program_nops: each program begins with a nop, and there is no other room for a jump past the fexit programs.
    pushes_saved: x86-64 pushes rbx below all else, and has no slot for it.
    jumped: it is entered by a jump, not by a call.
    pops: hypothetical: it takes from the core's return stack what the patch site's call has pushed there.
    landing_pad: it starts with the ISA's landing pad.
    through_way_back: it calls the address that the site's call returns to, not the body; only ISAs whose trampolines are made again
        for that ask for it (see Sharing).
    """

    words: tuple[Place, ...]
    sizes: tuple[int, ...]
    fentry: tuple[BpfProgram, ...]
    fmod_ret: tuple[BpfProgram, ...]
    fexit: tuple[BpfProgram, ...]
    guards: Guards | None
    image: int
    body: int
    run_ctx: int
    cookie_at: int
    program_nops: bool = False
    pushes_saved: bool = False
    jumped: bool = False
    pops: bool = False
    landing_pad: bool = False
    through_way_back: bool = False

    @property
    def calls_function(self) -> bool:
        """Does the trampoline call the function, rather than go on to it?"""
        return bool(self.fmod_ret or self.fexit)

    @property
    def stacked(self) -> tuple[tuple[int, int], ...]:
        """The argument words that the caller passes on the stack: the number of each among all, and its index there."""
        return tuple((i, place) for i, place in enumerate(self.words) if isinstance(place, int))

    @property
    def result(self) -> int:
        """Bytes of the frame for the function's result, where the trampoline sees one."""
        return 8 if self.calls_function else 0

    @property
    def passed_on(self) -> int:
        """Bytes of the frame for the words that it passes to the function on the stack, where it calls it."""
        return 8 * len(self.stacked) if self.calls_function else 0
