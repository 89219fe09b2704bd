"""What is asked for: the function graph tracer by itself, with a tracer that counts calls and their returns."""

from __future__ import annotations

from dataclasses import dataclass

from ...ftrace.ops import Request


@dataclass(frozen=True, eq=False)
class Fgraph(Request):
    """A tracer of the function graph tracer's on each of the functions, the only one while it is there. watch: handlers of
    guest/consumers/returns.c, which do what they are told, instead of counting."""

    watch: bool = False
