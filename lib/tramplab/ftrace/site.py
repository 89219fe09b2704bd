"""A patch site: where it lies and what its parts are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """The patch site of one function.

    function: its name.
    entry: the function's first byte.
    ip: what the kernel calls rec->ip.
    body: the first byte after the site.
    literal: the 8 bytes that hold the callsite's ops, None where there are none.
    compiled: the address in the compiler's record.
    """

    function: str
    entry: int
    ip: int
    body: int
    literal: int | None
    compiled: int

    def holds(self, address: int) -> bool:
        """Is this one of the bytes from rec->ip to the body?"""
        return self.ip <= address < self.body
