"""The common trampolines: which function they call, and the steps that repoint them (update_ftrace_function())."""

from __future__ import annotations

from collections.abc import Sequence

from ..emulate.image import Image
from .arch.protocol import Arch
from .ops import FL_DYNAMIC, FL_RCU, Registered
from .steps import Step, Sync, Wait, word


def function(image: Image, registered: Sequence[Registered]) -> tuple[int, int]:
    """The function that they call, and the ops that they pass.

    None registered: the stub. One: its own function, unless it is dynamic or wants RCU. Otherwise the list function.
    """
    if not registered:
        return image.address("ftrace_stub"), image.address("ftrace_list_end")
    if len(registered) == 1 and not registered[0].flags & (FL_DYNAMIC | FL_RCU):
        only = registered[0]
        return (image.address("ftrace_ops_assist_func") if only.assisted else only.func), only.address
    return image.address("ftrace_ops_list_func"), image.address("ftrace_list_end")


def patch(image: Image, arch: Arch, func: int, why: str) -> list[Step]:
    """The steps that repoint the call in each of them, in text or in memory; none with CALL_OPS."""
    steps: list[Step] = []
    if "ftrace_call_dest" in image.symbols:
        steps.append(word(image.address("ftrace_call_dest"), func, why))
        steps.append(Wait(Sync.WMB, "the new pointer is visible before the ops that is passed on"))
        steps.append(Wait(Sync.FTRACE_IPI, "every CPU sees the new pointer"))
    for label in ("ftrace_call", "ftrace_regs_call"):
        if label in image.symbols:
            steps += arch.patch_call(image.address(label), func, why, image)
    return steps
