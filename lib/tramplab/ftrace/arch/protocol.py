"""The protocol between the slow path and an ISA: how sites and trampolines are patched, and how a guest is built for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...build.toolchain import GuestConfig
from ...emulate.image import Image
from ..site import Site
from ..steps import Step

#: The address of a guest's symbol, by name.
Symbols = Callable[[str], int]


class FeatureTable(Protocol):
    """What a release has: a feature's value by its name, as data/releases.yml has it."""

    def __getitem__(self, name: str, /) -> Any: ...


class Arch(Protocol):
    """What the module of each ISA has."""

    @property
    def CONSEQUENCES(self) -> dict[tuple[str, object], dict[str, object]]:
        """(feature, value) that is overridden by hand -> the features that follow from it."""

    def config(self, features: FeatureTable) -> GuestConfig:
        """How the guest is built for a release."""

    def site(self, function: str, entry: int, compiled: int, features: FeatureTable) -> Site:
        """The parts of a patch site; compiled: where the compiler's record points."""

    def boot(self, s: Site, features: FeatureTable, symbols: Symbols) -> list[Step]:
        """The steps that turn what the compiler left into an idle site."""

    def reaches(self, s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bool:
        """Can this site call that target by itself?"""

    def call_bytes(self, s: Site, target: int, features: FeatureTable, symbols: Symbols) -> bytes:
        """The bytes of the site while it calls a target."""

    def nop_bytes(self, s: Site, features: FeatureTable, symbols: Symbols) -> bytes:
        """The bytes of the site while the function is not traced."""

    def write_sites(self, changes: list[tuple[Site, bytes, str]], features: FeatureTable, image: Image) -> list[Step]:
        """The steps that write such bytes to many sites: (site, bytes, why)."""

    def write_word(self, address: int, value: int, why: str) -> list[Step]:
        """The steps that store a word of data among the text."""

    def flush(self, why: str) -> list[Step]:
        """The steps after which every CPU finds code that was made at run time."""

    def patch_call(self, address: int, target: int, why: str, image: Image | None = None) -> list[Step]:
        """The steps that repoint a call inside a trampoline; image: of a guest whose CPUs may meet them meanwhile."""

    def stops_machine(self, features: FeatureTable) -> bool:
        """Does all of an update happen while every other CPU is stopped?"""

    def update_code(self, steps: list[Step], features: FeatureTable) -> list[Step]:
        """An update's steps with what goes around them."""
