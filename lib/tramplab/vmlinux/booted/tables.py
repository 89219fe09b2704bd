"""The tables of what is patched at boot. The linker script of the kernel (arch/x86/kernel/vmlinux.lds.S) sets a symbol in front
of each and one behind it, so they are found in a file without section headers, too."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ...base.errors import TramplabError
from ...isa.x86_64 import CALL
from ..open.image import Opened
from ..open.sections import damaged

#: Reads bytes of an image or a machine: (address, size) -> bytes.
Read = Callable[[int, int], bytes]
#: Symbol in front of a table -> the one behind it.
_ENDS = {
    "__alt_instructions": "__alt_instructions_end",
    "__return_sites": "__return_sites_end",
    "__retpoline_sites": "__retpoline_sites_end",
    "__start_static_call_sites": "__stop_static_call_sites",
    "__start___jump_table": "__stop___jump_table",
}


def table(opened: Opened, read: Read, start: str, entry: int) -> tuple[int, bytes]:
    """A table's address, and its bytes: whole entries of so many bytes each. start: the symbol in front of it.

    Raises TramplabError where the image does not name it, or where no entry is between its symbols: call it for a table that the
    kernel must have."""
    end = _ENDS[start]
    if not opened.has(start) or not opened.has(end):
        raise TramplabError(
            f"{opened.payload.path} does not say where its table {start} lies, so its text cannot be brought to its booted "
            f"state: give a kernel with CONFIG_KALLSYMS_ALL=y, or the vmlinux of its build with its symbols."
        )
    first, last = opened.address(start), opened.address(end)
    size = (last - first) // entry * entry
    if size <= 0:
        raise damaged(opened.payload.path, f"nothing lies between its symbols {start} and {end}")
    return first, read(first, size)


def rows(opened: Opened, read: Read, start: str, layout: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(address, numbers) of each entry of a table. layout: of an entry, as the struct module has it. Raises what table() does."""
    size = struct.calcsize(layout)
    first, entries = table(opened, read, start, size)
    return zip(range(first, first + len(entries), size), struct.iter_unpack(layout, entries), strict=True)


def reached(opened: Opened, site: int, target: int) -> int:
    """The target of a call in the text, as a pointer or a table says it. Raises TramplabError where no call reaches it."""
    if not CALL.reaches(site, target):
        raise damaged(opened.payload.path, f"the call at {site:#x} does not reach {target:#x}, where its data points")
    return target
