"""An image's text as a booted kernel has it: what is patched before the first call can be traced.

Patched in a copy of the image's bytes, before the machine has them. What a boot would decide by the CPU it finds is decided here:
a CPU that has little of what alternatives ask for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ...base.errors import unknown
from ...emulate.image import Image
from ..open.image import Opened
from ..open.opening import opening
from . import arm64, riscv64, x86_64
from .mitigations import MITIGATIONS, NONE
from .text import Text


class _BootArch(Protocol):
    """What the module of each ISA has."""

    def boot(self, opened: Opened, text: Text, mitigations: str) -> tuple[str, list[str]]:
        """Patch the text; gives the shape of the patch sites, as data/releases.yml names it, and in words what was patched.
        mitigations: one of MITIGATIONS."""

    def compiled(self, entry: bytes, at: int, shape: str) -> int | None:
        """The address that the compiler's record of a function points at, by its first bytes; None if they are no idle site."""


_MODULES: dict[str, _BootArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
#: A function that only kernels with CONFIG_CFI_CLANG have.
CHECKED = "report_cfi_failure"
#: What a boot leaves of CFI: FineIBT takes its place on a CPU with IBT (arch/x86/kernel/alternative.c).
_CFI = "indirect calls check types by kCFI; own code has the type that its caller asks for"
#: Bytes of a function that show whether it has a site.
FIRST_BYTES = 16


@dataclass(frozen=True)
class Booted:
    """A kernel as it is after boot.

    image: the image with its text patched.
    shape: of its patch sites, as data/releases.yml names them.
    done: what was patched, in words.
    """

    image: Image
    shape: str
    done: tuple[str, ...]


def boot(opened: Opened, mitigations: str = NONE) -> Booted:
    """Bring an image's text to its booted state; raises TramplabError for an unknown choice of mitigations."""
    if mitigations not in MITIGATIONS:
        raise unknown("choice of mitigations", mitigations, MITIGATIONS)
    with opening(opened.payload.path):
        text = Text(opened.image)
        shape, done = _MODULES[opened.isa.name].boot(opened, text, mitigations)
    if opened.has(CHECKED):
        done.append(_CFI)
    return Booted(replace(opened.image, segments=text.segments()), shape, tuple(done))


def compiled(isa: str, entry: bytes, at: int, shape: str) -> int | None:
    """The address that the compiler's record of a function points at, by its first bytes; None if they are no idle site."""
    return _MODULES[isa].compiled(entry, at, shape)
