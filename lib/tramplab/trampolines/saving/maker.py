"""Ops with a save set that no kernel offers: a trampoline each, near the text."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...ftrace.ops import Generated, Registered, Request
from ...ftrace.releases import history
from ...ftrace.steps import Free, Step, text
from ..guest import ROOM, Guest
from ..plain import Ops
from ..plain.maker import check_redirecting, registered
from .assembly import SETS, code, linked


class SavingOps:
    """The maker of these ops, and of their trampolines."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def serves(self, request: Request) -> bool:
        """Is it an ops with one of these save sets?"""
        return isinstance(request, Ops) and request.save in SETS

    def check(self, request: Ops, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if the release has no ftrace_regs to hand over."""
        check_redirecting(request)
        features = self._guest.features
        if not features["args"]:
            when = history(features.isa, "args")
            raise TramplabError(
                f"the save set {request.save} hands over an ftrace_regs, which {features} has not; {features.isa} has it {when}."
            )

    def make(self, request: Ops, functions: tuple[str, ...]) -> Registered:
        """The registration that the request asks for."""
        return registered(self._guest.image, request, functions)

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make an ops' trampoline; raises TramplabError if there is no room left."""
        image = self._guest.image
        parts = code(image, self._guest.features, ops.request.save, ops.functions)
        func = image.address("ftrace_ops_assist_func") if ops.assisted else ops.func
        size = len(linked(image.isa, parts, image.address(ROOM), ops.address, func))
        ops.trampoline, ops.trampoline_size = self._guest.near.take(size), size
        ops.generated = (Generated(ops.trampoline, size, "ftrace_trampoline"),)
        whole = linked(image.isa, parts, ops.trampoline, ops.address, func)
        return [text(ops.trampoline, whole, f"a trampoline that saves {ops.request.save}, for this ops alone")]

    def free(self, ops: Registered) -> list[Step]:
        """The steps that clear and free the trampoline's room."""
        steps: list[Step] = []
        for made in ops.generated:
            steps.append(text(made.address, bytes(made.size), "the room is empty again"))
            steps.append(Free(self._guest.near, made.address, "the ops' trampoline"))
        return steps
