"""The request of a tracer that wants its callback called: a struct ftrace_ops."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError, unknown
from ...ftrace.ops import FL_DYNAMIC, FL_IPMODIFY, FL_RCU, FL_RECURSION, FL_SAVE_REGS, Request
from ..reentry import REENTERS

#: The save set that an ops asks for: the registers that carry arguments, or all of them; and sets that no kernel offers,
#: with a trampoline of its own for the ops, see trampolines/saving.
SAVES = ("args", "regs", "ip", "ip+sp", "live", "clobbered", "own-args", "own-regs")
#: Save sets with which a callback can change where the function goes on, and with which it can change the stack as well.
SETS_IP, SETS_SP = ("args", "regs", "ip", "ip+sp", "own-args", "own-regs"), ("ip+sp",)
#: Callbacks that send the function's caller on to another function -> the save sets that let them.
REDIRECTING = {"lab_livepatch": SETS_IP, "lab_redirect": SETS_IP, "lab_call_instead": SETS_SP}
#: Guest functions that can be an ops' callback.
CALLBACKS = (
    "lab_callback",
    "lab_observe",
    "lab_observe_clobber",
    "ftrace_stub",
    *REDIRECTING,
    "lab_consumer",
    "lab_consumer_argument",
    "lab_consumer_register",
    "lab_callback_guarded",
    *(f"{name}{end}" for name in ("lab_callback", "lab_callback_guarded") for end in REENTERS.values() if end),
)


@dataclass(frozen=True, eq=False)
class Ops(Request):
    """A request for a callback.

    save: "args", "regs" (FTRACE_OPS_FL_SAVE_REGS), or a set that no kernel has (see trampolines/saving).
    recursion, rcu: ask for the assist function's guard and test.
    dynamic: not in the core kernel's data, as a module's or BPF's ops are.
    callback: a guest function, one of CALLBACKS.
    go_to: for a redirecting callback, the guest function that calls go on in; such an ops has FTRACE_OPS_FL_IPMODIFY.
    """

    save: str = "args"
    recursion: bool = False
    rcu: bool = False
    dynamic: bool = True
    callback: str = "lab_callback"
    go_to: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
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
