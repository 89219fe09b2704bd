"""Ops that the common trampolines serve. Where the release has them (x86-64), each gets a copy of one for itself."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...emulate.image import Image
from ...ftrace.ops import FL_ENABLED, Registered, Request
from ...ftrace.releases import history
from ...ftrace.steps import Free, Step
from ..guest import Guest
from . import copied
from .request import Ops

#: The save sets of the kernel's own trampolines.
COMMON = ("args", "regs")


class PlainOps:
    """The maker of these ops, and of the copies, in the module area."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def serves(self, request: Request) -> bool:
        """Is it an ops with one of the kernel's save sets?"""
        return isinstance(request, Ops) and request.save in COMMON

    def check(self, request: Ops, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if the release has no trampoline for it."""
        check_redirecting(request)
        features = self._guest.features
        isa = features.isa
        if request.save == "regs" and not features["regs"]:
            raise TramplabError(f"{features} has no ftrace_regs_caller; {isa} has it {history(isa, 'regs')}.")
        if request.ipmodify and request.save == "args" and not features["args"]:
            raise TramplabError(
                f"{features} lets only an ops with save='regs' change the ip; one with save='args' may on {isa} "
                f"{history(isa, 'args')}."
            )

    def make(self, request: Ops, functions: tuple[str, ...]) -> Registered:
        """The registration that the request asks for."""
        return registered(self._guest.image, request, functions)

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make the copy; none where the release has no copies."""
        if not self._guest.features["per_ops_trampoline"]:
            return []
        return copied.create(self._guest.image, self._guest.modules, ops)

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free the copy."""
        return [Free(self._guest.modules, made.address, "the ops' trampoline") for made in ops.generated]


def check_redirecting(request: Ops) -> None:
    """Raise TramplabError for an ops that changes the ip of functions that nobody named."""
    if request.ipmodify and (request.notrace or not request.filter):
        raise TramplabError("an ops that changes the ip is for particular functions: give it a filter, and no notrace.")


def registered(image: Image, request: Ops, functions: tuple[str, ...]) -> Registered:
    """An ops as the slow path holds it."""
    stack = (
        "an ops that changes the stack must be alone on {}, because only its own trampoline restores sp: detach the others "
        "first."
    )
    return Registered(
        request,
        image.address(request.callback),
        request.flags | FL_ENABLED,
        functions,
        go_to=image.address(request.go_to) if request.go_to else 0,
        alone=stack if request.changes_stack else "",
        must_reach="the patch site of {} cannot reach the trampoline that restores sp." if request.changes_stack else "",
    )
