"""Consumers that call a traced function while they run: which one, and how the guest calls such consumers."""

from __future__ import annotations

from ..errors import unknown

#: The function that they are to hook, and the other traced one that calls it.
HOOKED, THROUGH = "two_args", "calls_others"
#: What is called -> the end of a consumer's name in the guest that calls it; "" for one that calls nothing.
REENTERS = {"": "", "itself": "_reenter", "another": "_reenter_through"}


def ending(reenters: str) -> str:
    """The end of the name; raises TramplabError for what is not in REENTERS.

    >>> ending("itself")
    '_reenter'
    """
    try:
        return REENTERS[reenters]
    except KeyError:
        raise unknown("reentry", reenters, filter(None, REENTERS)) from None
