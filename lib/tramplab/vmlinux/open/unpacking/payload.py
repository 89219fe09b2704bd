"""Opening the file of a kernel, whatever container it is in."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....base.errors import TramplabError
from ....isa import Isa
from . import decompress
from .containers import BZIMAGE, Box, box
from .formats import form

#: Containers in containers, such as a bzImage, packed, in a unified kernel image that is packed as a whole.
_LAYERS = 8
_ADVICE = "give a kernel image, such as a package's boot/vmlinuz-* or your own build's vmlinux"


@dataclass(frozen=True, eq=False)
class Payload:
    """The unpacked content of a kernel file.

    data: the unpacked kernel, and after an x86 one its table of relocations.
    elf: is it an ELF file? It is a flat Image otherwise.
    packed: its container and compression, for the reader, such as "bzImage, zstd".
    sha256: of the file as given, in hexadecimal.
    """

    path: Path
    isa: Isa
    data: bytes
    elf: bool
    packed: str
    sha256: str


def unpack(path: Path) -> Payload:
    """The kernel in a file: an x86 bzImage, a flat Image of arm64 or riscv64, an EFI zboot image, or an ELF vmlinux, each of
    which may be packed as a whole or lie in another file, too. Raises TramplabError, which names the file, whatever it is
    instead."""
    data = _read(path)
    sha256 = hashlib.sha256(data).hexdigest()
    names: list[str] = []
    unpacks_itself = False
    for layer in _layers(data, path):
        data, container = layer.data, layer.container
        unpacks_itself = container is not None and container.packed
        names[:0] = filter(None, (container.name if container else "", layer.compression))
    isa, name = form(data, path)
    return Payload(path, isa, data, name == "ELF", ", ".join(names if unpacks_itself else [name, *names]), sha256)


def bootable(path: Path) -> bytes:
    """What a boot loader that knows only the kernel's own forms can start: the bzImage, or the flat Image, in a file. Raises
    TramplabError, which names the file, where there is none."""
    data = _read(path)
    layers = _layers(data, path)
    while not (itself := _boots_itself(data, path)) and (layer := next(layers, None)):
        data = layer.data
    if not itself and form(data, path)[1] == "ELF":
        raise TramplabError(f"{path} is an ELF file, which QEMU does not boot: give the bzImage or Image of its build.")
    return data


def _boots_itself(data: bytes, path: Path) -> bool:
    container = box(data, path)
    return container is not None and container.name == BZIMAGE


@dataclass(frozen=True)
class _Layer:
    """What a container or a compressed file holds, the container, and the name of the compression; "" for none."""

    data: bytes
    container: Box | None
    compression: str


def _layers(data: bytes, path: Path) -> Iterator[_Layer]:
    """The layers of a file: what it holds, what that holds, and so on."""
    for _ in range(_LAYERS):
        container = box(data, path)
        if container is None and not decompress.known(data):
            return
        if container is None or container.packed:
            data, name = decompress.unpacked(container.content if container else data, path, container.said if container else "")
        else:
            data, name = bytes(container.content), ""
        yield _Layer(data, container, name)


def _read(path: Path) -> bytes:
    """All bytes of a file, up to the limit of unpacking."""
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise TramplabError(f"{path} is a directory: give the kernel image in it.")
        if not stat.S_ISREG(about.st_mode):  # of a pipe or a device nobody knows when it ends
            raise TramplabError(f"{path} is no regular file: {_ADVICE}.")
        with path.open("rb") as f:
            data = f.read(min(about.st_size, decompress.LIMIT) + 1)
    except FileNotFoundError:
        raise TramplabError(f"there is no file {path}: {_ADVICE}.") from None
    except PermissionError:
        raise TramplabError(f"you may not read {path}: copy it as root to where you may, and give the copy.") from None
    except (OSError, ValueError) as e:
        raise TramplabError(f"cannot read {path} ({getattr(e, 'strerror', None) or e}): {_ADVICE}.") from None
    if not data:
        raise TramplabError(f"{path} is empty: get the file again.")
    if len(data) > decompress.LIMIT:
        raise TramplabError(
            f"{path} has more than {decompress.size(decompress.LIMIT)}, where reading stops: "
            f"give another image, or one without debug information (`strip --strip-debug -o OUT FILE`)."
        )
    return data
