"""The maker of what a kind of request needs: the one protocol between the slow path, which decides, and the makers.

The slow path asks in this order: does it serve the request; may it be; what is to be registered; and when there is room for
it, the steps that make its code. At the end, after the wait for all tasks that may still be in that code, the steps that
give it back. Who makes what is in trampolines/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..base.errors import TramplabError
from .ops import Registered, Request
from .steps import Step


class Maker(Protocol):
    """The maker of one kind of request: what it is given to check and to make is of the kind that it serves."""

    def serves(self, request: Request) -> bool:
        """Is this request of its kind?"""
        ...

    def check(self, request: Any, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if this release cannot have the request on these functions."""
        ...

    def make(self, request: Any, functions: tuple[str, ...]) -> Registered:
        """The registration of a checked request; nothing is allocated yet."""
        ...

    def create(self, ops: Registered) -> list[Step]:
        """Take what the ops needs and give the steps that make it. Raises TramplabError if it cannot be had; nothing is
        taken then."""
        ...

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free it, to be carried out when all tasks have left it."""
        ...


def maker_of(request: Request, makers: Sequence[Maker]) -> Maker:
    """The one that serves a request; raises TramplabError if none does."""
    for maker in makers:
        if maker.serves(request):
            return maker
    kind = type(request).__name__
    raise TramplabError(f"no maker serves a request of the type {kind}: see tramplab.trampolines for the kinds.")
