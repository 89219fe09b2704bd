"""Trampolines of one ops that differ in nothing but what they save; no kernel has them.

Each is made at run time for an ops that is alone on its functions. It knows its ops as a constant and calls the callback
itself, with (ip, parent_ip, ops, fregs) as every trampoline does. What it saves is one of SETS. It always saves what
makes its own C call possible: the way back into the function and to the function's caller, where these are in registers.
And it hands over a struct ftrace_regs in which the slots of what it saved are right and the others garbage; where there is
a mark for that (x86-64's cs), it is set.

`ip` needs a word. To change only the instruction pointer, a callback has to be shown nothing but its slot. The function it
then goes on in takes the same arguments, though, and the callback is C and may use any register that carries one. So the
trampoline must keep every register that can carry an argument, or, where it knows the function, does (that set is `live`).

The trampolines lie in the room near the patch sites, see trampolines/guest.py.
"""

from __future__ import annotations

from ..kind import Hook, Kind
from ..plain import each
from .assembly import SETS, code, linked, plan
from .maker import SavingOps

__all__ = ["KIND", "SETS", "SavingOps", "code", "linked", "plan"]


def _hook(save: str, title: str) -> Hook:
    """The hook of a save set, which has its name; own-regs is called so because ops-regs is the kernel's."""
    return Hook(f"ops-{save}", title, "args", False, lambda _: each(1, save), hypothetical=True)


KIND = Kind(
    SavingOps,
    (
        _hook("ip", "an ops that can change the ip, no more"),
        _hook("live", "an ops that saves the live arguments"),
        _hook("clobbered", "an ops that saves all that C may clobber"),
        _hook("own-args", "an ops that saves what ftrace_caller does, in a trampoline of its own"),
        _hook("own-regs", "an ops that saves all registers, in a trampoline of its own"),
    ),
)
