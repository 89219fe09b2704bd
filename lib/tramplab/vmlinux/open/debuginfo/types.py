"""An image's struct layouts and prototypes, from BTF, or from DWARF where a kernel was built without BTF."""

from __future__ import annotations

from typing import Protocol

from ....build.dwarf import Prototype, Struct


class Types(Protocol):
    """The protocol of struct layouts and prototypes."""

    @property
    def origin(self) -> str:
        """The source of the types, for the reader."""

    def struct(self, name: str) -> Struct:
        """A struct's layout; raises TramplabError with near matches."""

    def has(self, struct_name: str, member: str = "") -> bool:
        """Is there such a struct, with such a member?"""

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result; None where nothing is said of it."""

    def enumerator(self, name: str) -> int | None:
        """The value of an enumeration's constant, without a sign; None where there is none of that name."""
