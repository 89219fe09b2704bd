"""Attaching more and more to one function, without taking off what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..ftrace.ops import Registered, Request
from .kernel import Kernel
from .view import Function


@contextmanager
def growing(kernel: Kernel, function: Function | str) -> Iterator[Callable[[Sequence[Request]], None]]:
    """For a `with`: gives attach(requests), after which just these are attached, in this order; at the end none is.

    What the last requests began with stays attached, where the new ones begin with the same; else all are attached again.

    >>> from tramplab import Ops
    >>> kernel = Kernel("arm64", meter="count")
    >>> function = kernel.function("one_arg")
    >>> with growing(kernel, function) as attach:
    ...     for number in (1, 2, 3):
    ...         attach([Ops() for _ in range(number)])
    ...         print(kernel.call(function, 1).hits)
    (1,)
    (1, 1)
    (1, 1, 1)
    """
    attached: list[Registered] = []
    same: list[str] = []

    def attach(requests: Sequence[Request]) -> None:
        wanted = [repr(r) for r in requests]  # its fields: two requests with equal ones are two ops all the same
        if wanted[: len(same)] != same:
            kernel.detach(*attached)
            attached.clear()
            same.clear()
        attached.extend(kernel.attach(function, *requests[len(same) :]))
        same[:] = wanted

    try:
        yield attach
    finally:
        kernel.detach(*attached)
