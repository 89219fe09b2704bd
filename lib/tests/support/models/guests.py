"""Guests as they are built: configurations, names, and caches and sources of one's own."""

import functools
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from tramplab import isa as isas
from tramplab.base.cache import read
from tramplab.build import toolchain
from tramplab.build.toolchain import GUEST, GuestConfig, build, fingerprint
from tramplab.ftrace import arch, releases
from tramplab.ftrace.releases import LATEST

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)


def config(isa: str, release: str = LATEST) -> GuestConfig:
    record = isas.get(isa)
    return arch.of(record).config(releases.features(record, release, {}))


def make(isa: str, guest: Path = GUEST) -> Path:
    return build(isas.get(isa), config(isa), guest)


def image_name(isa: str) -> str:
    """What an image is kept under."""
    return f"{isa}-{fingerprint(isas.get(isa), config(isa))}.elf"


def elf(isa: str) -> bytes:
    """An image as it was linked."""
    make(isa)
    return read(image_name(isa))


def objects_in(folder: Path) -> list[Path]:
    """The compiled sources that a build keeps for others, whether or not it comes to its end."""
    return list(folder.glob("*-*.o"))


def parts_in(folder: Path) -> list[Path]:
    """The same, and the assembly's constants, which a build keeps likewise."""
    return [*objects_in(folder), *folder.glob("*-*.h")]


def left_in(folder: Path) -> list[str]:
    """What else is there."""
    return sorted({p.name for p in folder.iterdir()} - {p.name for p in parts_in(folder)}) if folder.exists() else []


@functools.cache
def objects(cache: Path, isa: str) -> list[Path]:
    """What an image is linked from, in the order in which it is compiled, of a cache, which has all of it then."""
    found: list[Path] = []
    with tempfile.TemporaryDirectory() as own, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAMPLAB_CACHE", str(cache))
        patch.setattr(toolchain, "publish", lambda make, name, real=toolchain.publish: found.append(real(make, name)) or found[-1])
        toolchain._build_in(Path(own), isas.get(isa), config(isa), GUEST)
    return found


def into(cache: Path, kept: Iterable[Path]) -> None:
    """Have files of another cache in this one, too."""
    for path in kept:
        shutil.copy(path, cache)
