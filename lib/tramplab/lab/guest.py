"""The lab kernel's images: built from the guest's sources, and which of their sections is what."""

from __future__ import annotations

import functools
from pathlib import Path

from ..base.errors import TramplabError
from ..build.toolchain import GUEST, GuestConfig, build
from ..emulate import elf
from ..emulate.image import Image
from ..isa import Isa

#: Component of the code in each output section of link.ld.
COMPONENT_OF_SECTION = {
    ".text.trampoline": "trampoline",
    ".far.trampoline": "trampoline",
    ".text.traced": "function",
    ".text.core": "core",
    ".text.callback": "callback",
    ".far.callback": "callback",
    ".far.registers": "callback",
    ".far.shims": "callback",
    ".text.caller": "caller",
    ".text.replacement": "function",
    ".text.entry": "core",
    ".text.stub": "trampoline",
    ".text.kprobe": "core",
    ".text.kprobe_handlers": "callback",
    ".text.kretprobe": "core",
    ".text.graph_handlers": "callback",
    ".text.watching": "callback",
    ".text.jump": "function",
    ".text.links": "core",
    ".text.ways": "callback",
}
#: The section with the compiler's list of patch sites.
PATCH_SITES = "__patchable_function_entries"


def load(isa: Isa, config: GuestConfig, guest: Path = GUEST) -> Image:
    """The image of one ISA and configuration, built if need be."""
    return read(build(isa, config, guest), isa)


@functools.lru_cache(maxsize=64)
def read(path: Path, isa: Isa) -> Image:
    """Read a built guest; a damaged file is one clear error."""
    try:
        return elf.read(path, isa, COMPONENT_OF_SECTION, PATCH_SITES)
    except FileNotFoundError:
        raise TramplabError(f"there is no guest image {path}; run the command again to build it.") from None
    except Exception as e:  # what the ELF reader trips over in a damaged file is not to be foreseen
        why = " ".join([type(e).__name__, *str(e).split()])
        raise TramplabError(
            f"the guest image {path} is damaged ({why}); delete it and run the command again."
        ) from None
