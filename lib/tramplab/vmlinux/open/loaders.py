"""Where the kernel lies in the images that boot loaders take: Android's boot image, and U-Boot's two, of which the newer is a
device tree.

By AOSP's system/tools/mkbootimg/include/bootimg/bootimg.h, U-Boot's include/image.h and doc/usage/fit/source_file_format.rst, and
the Devicetree Specification, chapter 5. Each function gives (start, length) of the first kernel; None where the image has none.
"""

from __future__ import annotations

import struct

_NODE, _END, _PROPERTY, _NOTHING = 1, 2, 3, 4
_DEEP = 64  # nodes in nodes, and images in a legacy one
#: The type of a legacy image that has several in it, their sizes in front; and types of kernels in a device tree.
_SEVERAL, _KERNELS = 4, (b"kernel\0", b"kernel_noload\0")
_WANTED = (b"type", b"data", b"data-position", b"data-offset", b"data-size")


def android(data: bytes) -> tuple[int, int] | None:
    """The kernel in a boot image of version 0 to 4: after one page, which has 4096 bytes since version 3."""
    size, page, version = struct.unpack("<8xI24xII", data[:44].ljust(44, b"\0"))
    return (4096 if version in (3, 4) else page), size


def legacy(data: bytes) -> tuple[int, int] | None:
    """The kernel in U-Boot's legacy image."""
    size, kind = struct.unpack(">12xI14xB33x", data[:64].ljust(64, b"\0"))
    if kind != _SEVERAL:
        return 64, size
    sizes = [n for (n,) in struct.iter_unpack(">I", data[64 : 64 + 4 * _DEEP].ljust(4 * _DEEP, b"\0"))]
    return (64 + 4 * (sizes.index(0) + 1), sizes[0]) if 0 in sizes[1:] and sizes[0] else None


def tree(data: bytes) -> tuple[int, int] | None:
    """The kernel in a FIT image: the data of the first node below /images that says it is a kernel, within the tree or after it."""
    nodes: list[tuple[bytes, dict[bytes, tuple[int, int]]]] = []  # where it is, with the properties wanted, each from start to end
    try:
        whole, at, strings = struct.unpack_from(">4xIII", data)
        while True:
            (token,) = struct.unpack_from(">I", data, at)
            at += 4
            if token == _NODE and len(nodes) < _DEEP:
                end = data.find(b"\0", at)
                nodes.append((data[at : min(end, at + _DEEP)], {}))
                at = end + 4 & ~3
            elif token == _PROPERTY and nodes:
                size, name = struct.unpack_from(">II", data, at)
                property_name = data[strings + name : strings + name + _DEEP].partition(b"\0")[0]
                if property_name in _WANTED:
                    nodes[-1][1][property_name] = at + 8, at + 8 + size
                at += 8 + size + 3 & ~3
            elif token == _END and nodes:
                names, found = [name for name, _ in nodes], nodes.pop()[1]
                if names[:2] == [b"", b"images"] and data[slice(*found.get(b"type", (0, 0)))] in _KERNELS:
                    return _kernel(data, found, whole + 3 & ~3)
            elif token != _NOTHING:
                return None
    except struct.error:  # the tree is cut short
        return None


def _kernel(data: bytes, found: dict[bytes, tuple[int, int]], after: int) -> tuple[int, int]:
    """The data of a node. after: where what is not in the tree begins."""
    if b"data" in found:
        start, end = found[b"data"]
        return start, end - start
    numbers = {name: int.from_bytes(data[slice(*span)][:4], "big") for name, span in found.items()}
    return numbers.get(b"data-position", after + numbers.get(b"data-offset", 0)), numbers.get(b"data-size", 0)
