"""An image's text as a booted kernel has it: what is patched before the first call can be traced.

Patched in a copy of the image's bytes, before the machine has them. What a boot would decide by the CPU it finds is decided here:
a CPU that has none of the features that alternatives ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...emulate.image import Image
from ...errors import unknown
from ..image import Opened
from . import arm64, riscv64, x86_64
from .text import Text

#: How a kernel for x86-64 returns and branches: through the thunks it is linked with, or as where no mitigation is wanted.
LINKED, NONE = MITIGATIONS = ("linked", "none")

_BOOT: dict[str, Callable[[Opened, Text, bool], list[str]]] = {
    "x86_64": x86_64.boot,
    "arm64": arm64.boot,
    "riscv64": riscv64.boot,
}
_SHAPE: dict[str, Callable[[Opened, Text], str]] = {"x86_64": x86_64.shape, "arm64": arm64.shape, "riscv64": riscv64.shape}


@dataclass(frozen=True)
class Booted:
    """image: the same with its text patched. shape: of its patch sites, as data/releases.yml names them. done: what was patched, in
    words."""

    image: Image
    shape: str
    done: tuple[str, ...]


def boot(opened: Opened, mitigations: str = NONE) -> Booted:
    """Bring an image's text to its booted state; raises TramplabError for an unknown choice of mitigations."""
    if mitigations not in MITIGATIONS:
        raise unknown("choice of mitigations", mitigations, MITIGATIONS)
    text = Text(opened.image.segments)
    shape = _SHAPE[opened.isa.name](opened, text)
    done = _BOOT[opened.isa.name](opened, text, mitigations == NONE)
    return Booted(replace(opened.image, segments=text.segments()), shape, tuple(done))
