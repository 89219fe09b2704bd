"""Consumers that call a traced function while they run: which one, and how the guest calls such consumers."""

from __future__ import annotations

from ..base.errors import unknown

#: The function that they are to hook, and the other traced one that calls it.
HOOKED, THROUGH = "two_args", "calls_others"
#: Callee -> the suffix of the guest's consumer that calls it; "" for none.
REENTERS = {"": "", "itself": "_reenter", "another": "_reenter_through"}


def ending(reenters: str) -> str:
    """The suffix of the consumer's name; raises TramplabError for what is not in REENTERS.

    >>> ending("itself")
    '_reenter'
    """
    try:
        return REENTERS[reenters]
    except KeyError:
        raise unknown("reentry", reenters, filter(None, REENTERS)) from None
