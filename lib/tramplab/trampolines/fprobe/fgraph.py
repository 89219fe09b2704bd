"""The request for the function graph tracer by itself, with a tracer that counts calls and their returns."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...ftrace.ops import Request


@dataclass(frozen=True, eq=False)
class Fgraph(Request):
    """A tracer of the function graph tracer's on each of the functions, the only one while it is there.

    declines: its handler at the entry says that the return is of no interest, each time.
    watch: handlers of guest/consumers/returns.c, which do what they are told, instead of counting.
    """

    declines: bool = False
    watch: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.watch and self.declines:
            raise TramplabError("watch= brings its own handlers, which are told when to decline: leave declines= out.")
