"""The request for BPF programs: a number of programs of each kind on one function."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...ftrace.ops import Request
from ..reentry import ending

#: BPF_MAX_TRAMP_LINKS
MOST_PROGRAMS = 38
#: Ways of keeping calls and returns in pairs that no kernel has.
LEVELS = JUMP, POP = ("jump", "pop")


@dataclass(frozen=True, eq=False)
class Bpf(Request):
    """BPF programs on one function, by a trampoline made for it.

    fentry, fexit, fmod_ret: the number of programs of each kind; they run in this order: fentry, fmod_ret, the function, fexit.
        Their cookies are 1, 2, 3, ... in that order.
    observe: programs that write down what they see and then overwrite every register they may, instead of counting.
    guarded: with the enter and exit functions around each program, as the kernel has them; without, the program is called bare, as
        in the proposal of 2019. An fmod_ret program returns an entry of the guest's lab_bpf_verdicts (an observing one that of its
        cookie, else the first), 0 unless set; not 0, it keeps the function from running and becomes its result.
    reenters: programs that count and then call a traced function, see trampolines/reentry; they return 0.
    watch: fentry and fexit programs of guest/consumers/returns.c, which do what they are told.
    level: hypothetical: how a trampoline that calls the function keeps calls and returns in pairs: "jump", the site jumps to it
        where it gets there; "pop", the trampoline removes from the return stack what the site's call has pushed.
    kaslr: the trampoline lies where a kernel with KASLR has it, on arm64 out of reach of a patch site's BL; without, within reach.
    """

    fentry: int = 0
    fexit: int = 0
    fmod_ret: int = 0
    guarded: bool = True
    observe: bool = False
    reenters: str = ""
    watch: bool = False
    level: str = ""
    kaslr: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if ending(self.reenters) and self.observe:
            raise TramplabError("a program that calls a traced function does not observe: leave out observe=.")
        if self.watch and (self.observe or self.reenters or self.fmod_ret):
            raise TramplabError("watch= is for fentry and fexit programs of its own: leave observe=, reenters= and fmod_ret= out.")
        if self.level not in ("", *LEVELS) or (self.level and not self.calls_function):
            raise TramplabError(f"level= is for fexit and fmod_ret programs, one of {', '.join(LEVELS)}.")
        if min(self.fentry, self.fexit, self.fmod_ret) < 0 or not self.programs:
            raise TramplabError("a BPF trampoline needs at least one program: give fentry, fexit or fmod_ret a number.")
        if self.programs > MOST_PROGRAMS:
            raise TramplabError(
                f"{self.programs} programs are too many for one trampoline; a function can have {MOST_PROGRAMS}."
            )

    @property
    def programs(self) -> int:
        """The number of programs in all."""
        return self.fentry + self.fexit + self.fmod_ret

    @property
    def calls_function(self) -> bool:
        """Does its trampoline call the function, rather than go on to it?"""
        return bool(self.fexit or self.fmod_ret)

    def target(self, kind: str) -> str:
        """The guest's symbol for the code of its programs of a kind, such as "fexit"."""
        if self.watch:
            return f"lab_bpf_watch_{kind.removeprefix('f')}"
        if kind == "fmod_ret" and not (self.observe or self.reenters):  # a program that has a say is another one
            return "lab_bpf_modify"
        return "lab_bpf_observe_clobber" if self.observe else f"lab_bpf_count{ending(self.reenters)}"
