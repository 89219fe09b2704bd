"""Guests as they are built: configurations, names, and caches and sources of one's own."""

from pathlib import Path

import pytest

from tramplab import isa as isas
from tramplab.build.toolchain import GUEST, GuestConfig, build, fingerprint
from tramplab.cache import read
from tramplab.ftrace import arch, releases

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)


def config(isa: str, release: str = "v7.2") -> GuestConfig:
    record = isas.get(isa)
    return arch.of(record).config(releases.features(record, release, {}))


def make(isa: str, guest: Path = GUEST) -> Path:
    return build(isas.get(isa), config(isa), guest)


def image_name(isa: str) -> str:
    """What an image is kept under."""
    return f"{isa}-{fingerprint(isas.get(isa), config(isa))}.elf"


def elf(isa: str) -> bytes:
    """An image as it was linked, without the checksum."""
    make(isa)
    return read(image_name(isa))


def objects_in(folder: Path) -> list[Path]:
    """The compiled sources that a build keeps for others, whether or not it comes to its end."""
    return list(folder.glob("*-*.o"))


def left_in(folder: Path) -> list[str]:
    """What else is there."""
    return sorted({p.name for p in folder.iterdir()} - {p.name for p in objects_in(folder)}) if folder.exists() else []
