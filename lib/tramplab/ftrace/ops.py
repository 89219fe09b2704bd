"""What a tracer asks for: ops that run a callback, and direct calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import TramplabError, unknown

FL_ENABLED = 1 << 0
FL_DYNAMIC = 1 << 1
FL_SAVE_REGS = 1 << 2
FL_RECURSION = 1 << 4
FL_RCU = 1 << 12
FL_IPMODIFY = 1 << 13
FL_DIRECT = 1 << 17

#: What a trampoline must save for an ops: the registers that carry arguments, or all of them; and what no kernel offers,
#: with a trampoline of its own for the ops, see trampolines/saving.
SAVES = ("args", "regs", "ip", "ip+sp", "live", "clobbered", "own-args", "own-regs")
#: Save sets with which a callback can change where the function goes on, and with which it can change the stack as well.
SETS_IP, SETS_SP = ("args", "regs", "ip", "ip+sp", "own-args", "own-regs"), ("ip+sp",)
#: Callbacks that send the function's caller on to another function -> the save sets that let them.
REDIRECTING = {"lab_livepatch": SETS_IP, "lab_call_instead": SETS_SP}
#: Guest functions that can be an ops' callback.
CALLBACKS = (
    "lab_callback",
    "lab_observe",
    "lab_observe_clobber",
    "ftrace_stub",
    *REDIRECTING,
    "lab_kprobe",
    "lab_kprobe_argument",
    "lab_kprobe_register",
)


@dataclass(frozen=True, eq=False)
class Ops:
    """A request for a callback; each instance is one registration's identity.

    save: "args", "regs" (FTRACE_OPS_FL_SAVE_REGS), or a set that no kernel has (see trampolines/saving). filter: names of the
    functions to trace, empty for those it is attached to. notrace: names that are never traced. recursion, rcu: ask for
    the assist function's guard and test. dynamic: not in the core kernel's data, as a module's or BPF's ops are.
    callback: a guest function (CALLBACKS). go_to: for a redirecting callback, the guest function that calls go on in;
    such an ops has FTRACE_OPS_FL_IPMODIFY.
    """

    save: str = "args"
    filter: tuple[str, ...] = ()
    notrace: tuple[str, ...] = ()
    recursion: bool = False
    rcu: bool = False
    dynamic: bool = True
    callback: str = "lab_callback"
    go_to: str = ""

    def __post_init__(self) -> None:
        if self.save not in SAVES:
            raise unknown("save set", self.save, SAVES)
        if self.callback not in CALLBACKS:
            raise unknown("callback", self.callback, CALLBACKS)
        if bool(self.go_to) != self.ipmodify:
            raise TramplabError(f"go_to= belongs to the callbacks {', '.join(REDIRECTING)}, which need it.")
        if self.ipmodify and self.save not in REDIRECTING[self.callback]:
            fitting = ", ".join(REDIRECTING[self.callback])
            raise TramplabError(
                f"{self.callback} cannot change what save={self.save!r} does not restore; use {fitting}."
            )

    @property
    def ipmodify(self) -> bool:
        """Does its callback change where the function goes on?"""
        return self.callback in REDIRECTING

    @property
    def changes_stack(self) -> bool:
        """Does its callback change the stack pointer, which only the ops' own trampoline restores?"""
        return self.ipmodify and REDIRECTING[self.callback] == SETS_SP

    @property
    def flags(self) -> int:
        """The FTRACE_OPS_FL_ bits this request stands for."""
        return (
            (FL_SAVE_REGS if self.save == "regs" else 0)
            | (FL_RECURSION if self.recursion else 0)
            | (FL_RCU if self.rcu else 0)
            | (FL_DYNAMIC if self.dynamic else 0)
            | (FL_IPMODIFY if self.ipmodify else 0)
        )


@dataclass(frozen=True, eq=False)
class Direct:
    """A direct call: the patch site calls `target` (a guest symbol) itself where it can.

    far takes the stub that lies as far away as the kernel's layout allows; observe the one that records what it saw.
    """

    far: bool = False
    observe: bool = False
    filter: tuple[str, ...] = ()

    #: It has no callback to save registers for, none that could change anything, and no list of what it is kept off.
    save: ClassVar[str] = ""
    go_to: ClassVar[str] = ""
    ipmodify: ClassVar[bool] = False
    changes_stack: ClassVar[bool] = False
    notrace: ClassVar[tuple[str, ...]] = ()

    @property
    def target(self) -> str:
        """The guest symbol of the stub."""
        return f"lab_direct_{'far' if self.far else 'near'}{'_observe' if self.observe else ''}"


@dataclass(eq=False)
class Registered:
    """An ops as the slow path holds it.

    index: place in the guest's pool. address: of its struct ftrace_ops. func: of its callback. functions: names that its
    hashes let through. trampoline: address of its own trampoline, 0 if none. direct: target of its direct call, 0 if none;
    direct_size: its bytes, if it was made for this ops.
    """

    request: Ops | Direct
    index: int
    address: int
    func: int
    flags: int
    filter: tuple[str, ...]
    notrace: tuple[str, ...]
    functions: tuple[str, ...]
    trampoline: int = 0
    trampoline_size: int = 0
    direct: int = 0
    direct_size: int = 0

    @property
    def entry(self) -> int:
        """Where its direct call goes: x86-64 since v6.19 marks one that is to be jumped to by an odd address."""
        return self.direct & ~1 if self.direct_size else self.direct

    def wants(self, function: str) -> bool:
        """Do this ops' hashes let calls of a function through?"""
        return function in self.functions

    @property
    def ipmodify(self) -> bool:
        """Does its callback change where the function goes on (FTRACE_OPS_FL_IPMODIFY)?"""
        return bool(self.flags & FL_IPMODIFY)

    @property
    def saves_regs(self) -> bool:
        return bool(self.flags & FL_SAVE_REGS)

    @property
    def assisted(self) -> bool:
        """Is it called through the assist function (ftrace_ops_get_func)?"""
        return bool(self.flags & (FL_RECURSION | FL_RCU))


def selected(request: Ops | Direct, every: tuple[str, ...]) -> tuple[str, ...]:
    """The functions an ops' filter and notrace lists let through; raises TramplabError for names that do not exist."""
    for name in (*request.filter, *request.notrace):
        if name not in every:
            raise unknown("function", name, every)
    if isinstance(request, Direct) and not request.filter:
        raise TramplabError("a direct call is for particular functions: give it a filter.")
    if request.ipmodify and (request.notrace or not request.filter):
        raise TramplabError("an ops that changes the ip is for particular functions: give it a filter, and no notrace.")
    return tuple(f for f in dict.fromkeys(request.filter or every) if f not in request.notrace)
