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
from typing import Annotated, Literal

from msgspec import Meta

from ...base import documents
from ...base.entries import Entry, IsaName, Release, Sha256, checked
from ...base.errors import TramplabError, unknown

FILE = "kernels/packages.yml"
#: ISAs that Debian calls otherwise.
_MACHINES = {"amd64": "x86_64"}
#: What Debian signs the kernels of.
_SIGNED = ("amd64", "arm64")


class Package(Entry, frozen=True):
    """One image, and the Debian package that it is in."""

    #: A short name, which a file may have.
    name: Annotated[
        str, Meta(pattern="^[a-z0-9][a-z0-9.-]*$", description="a name is a file name in small letters like debian-6.12-arm64")
    ]
    #: The code name under which the archive had the package.
    suite: Annotated[str, Meta(pattern="^[a-z]+$", description="a suite is a code name like trixie")]
    package: Annotated[
        str, Meta(pattern="^[a-z0-9][a-z0-9+.-]+$", description="a package is named like linux-image-6.1.0-50-amd64")
    ]
    #: Debian's name of what the package runs on.
    architecture: Literal["amd64", "arm64", "riscv64"]
    version: Annotated[str, Meta(pattern="^[0-9][A-Za-z0-9.+:~-]*$", description="a version is written like 6.1.176-1")]
    #: Where the image is in the package.
    path: Annotated[str, Meta(pattern="^[^/.].*$", description="a path goes from the root of the package, without a / in front")]
    #: The image's digest, in hexadecimal.
    sha256: Sha256
    #: The kind of kernel: "" for the usual one.
    flavour: Literal["", "cloud", "rt", "16k"]
    #: The mainline release that it stands for.
    release: Release
    isa: IsaName
    #: Is it the image of its ISA that --one fetches?
    one: bool = False

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def file(self) -> str:
        """The package's path in Debian's archive; signed packages have a source of their own."""
        source = f"linux-signed-{self.architecture}" if self.architecture in _SIGNED else "linux"
        return f"pool/main/l/{source}/{self.package}_{self.version}_{self.architecture}.deb"


class _File(Entry, frozen=True):
    images: Annotated[tuple[Package, ...], Meta(min_length=1)]


@functools.cache
def packages() -> tuple[Package, ...]:
    """All images, in the order of the file; raises TramplabError that says what is wrong in it."""
    return read(documents.read(FILE))


def plain() -> tuple[Package, ...]:
    """The images of plain kernels, not of a flavour."""
    return tuple(p for p in packages() if not p.flavour)


def read(data: object) -> tuple[Package, ...]:
    """The images of what such a file says; raises TramplabError where two are the same, an ISA has not exactly one
    `one`, or an entry's architecture and version are not of its ISA and release."""
    packages = checked(FILE, data, _File).images
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
