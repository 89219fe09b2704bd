"""The kernel images whose counts the book publishes: data/kernels/packages.yml.

>>> image = chosen(["debian-6.12-riscv64"], one=False)[0]
>>> image.isa, image.suite, image.release, image.path
('riscv64', 'trixie', 'v6.12', 'boot/vmlinux-6.12.107+deb13-riscv64')
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base import documents
from ...base.errors import TramplabError, unknown
from ...base.schema import checked

FILE = "kernels/packages.yml"
#: ISAs that Debian calls otherwise.
_MACHINES = {"amd64": "x86_64"}
#: What Debian signs the kernels of.
_SIGNED = ("amd64", "arm64")


@dataclass(frozen=True)
class Package:
    """One image, and the Debian package that it is in."""

    #: A short name, which a file may have.
    name: str
    #: The code name under which the archive had the package.
    suite: str
    package: str
    #: Debian's name of what the package runs on.
    architecture: str
    version: str
    #: Where the image is in the package.
    path: str
    #: The image's digest, in hexadecimal.
    sha256: str
    #: The kind of kernel: "" for the usual one.
    flavour: str
    #: The mainline release that it stands for.
    release: str
    isa: str
    #: Is it the image of its ISA that --one fetches?
    one: bool = False

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def file(self) -> str:
        """Where the package is in Debian's archive; signed ones have a source of their own."""
        source = f"linux-signed-{self.architecture}" if self.architecture in _SIGNED else "linux"
        return f"pool/main/l/{source}/{self.package}_{self.version}_{self.architecture}.deb"


@functools.cache
def packages() -> tuple[Package, ...]:
    """All images, in the order of the file; raises TramplabError that says what is wrong in it."""
    return read(documents.read(FILE))


def read(data: Any) -> tuple[Package, ...]:
    """The images of what such a file says; raises TramplabError where two are the same, an ISA has not exactly one
    `one`, or an entry's architecture and version are not of its ISA and release."""
    packages = tuple(Package(**entry) for entry in checked(FILE, data, "kernels")["images"])
    for what, values in (
        ("name", [p.name for p in packages]),
        ("package", [f"{p.package}:{p.architecture}" for p in packages]),
        ("sha256", [p.sha256 for p in packages]),
    ):
        value, times = Counter(values).most_common(1)[0]
        if times > 1:
            raise TramplabError(f"{FILE}: {times} images have the {what} {value}; each image is there once.")
    for p in packages:
        if _MACHINES.get(p.architecture, p.architecture) != p.isa or not re.match(rf"{re.escape(p.release[1:])}(?!\d)", p.version):
            raise TramplabError(f"{FILE}: {p.name}: {p.architecture} {p.version} is no {p.release} for {p.isa}.")
    marked = Counter(p.isa for p in packages if p.one)
    for isa in dict.fromkeys(p.isa for p in packages):
        if marked[isa] != 1:
            raise TramplabError(f"{FILE}: {marked[isa]} images of {isa} say `one: true`; mark one of them.")
    return packages


def chosen(names: Sequence[str], one: bool) -> tuple[Package, ...]:
    """The images of these names; without names all of them, or one of each ISA. TramplabError for a name that is not there."""
    if names and one:
        raise TramplabError("images are chosen by their names or by --one; leave one of the two away.")
    every = {p.name: p for p in packages()}
    for name in names:
        if name not in every:
            raise unknown("kernel image", name, every)
    return tuple(every[name] for name in dict.fromkeys(names)) or tuple(p for p in every.values() if p.one or not one)
