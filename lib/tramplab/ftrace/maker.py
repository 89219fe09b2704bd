"""The maker of what a kind of request needs: the one protocol between the slow path, which decides, and the makers.

The slow path calls serves(), check(), make(), and when there is room for the ops, create(), which gives the steps that make its
code. At the end, behind the wait for all tasks that may still be in that code, come the steps of free(). The makers are in
trampolines/.
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
        """Is a request of the kind that this maker serves?"""
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
        """The steps that free what create() took, to be carried out when all tasks have left it."""
        ...


def maker_of(request: Request, makers: Sequence[Maker]) -> Maker:
    """The maker that serves a request; raises TramplabError if none does."""
    for maker in makers:
        if maker.serves(request):
            return maker
    kind = type(request).__name__
    raise TramplabError(f"no maker serves a request of the type {kind}: see tramplab.trampolines for the kinds.")
