"""What runs a program of an ISA here, for the native tests."""

import platform
import shutil

import pytest

from tramplab import TramplabError
from tramplab import isa as isas
from tramplab.isa import ISAS
from tramplab.native import host

try:
    HOST = host.isa().name
except TramplabError:
    HOST = None
QEMU = {"x86_64": "qemu-x86_64", "arm64": "qemu-aarch64", "riscv64": "qemu-riscv64"}


def runner(isa: str) -> tuple[str, ...]:
    """What runs a program of an ISA here; the test is skipped where nothing does."""
    if isa == HOST:
        return ()
    if platform.system() != "Linux" or not shutil.which(QEMU[isa]):
        pytest.skip(f"no {QEMU[isa]} (Debian: qemu-user), so nothing runs {isa} programs here")
    return (QEMU[isa],)


def host_isa():
    """The host's ISA; the test is skipped where the lab has no native run."""
    if HOST is None:
        pytest.skip("the lab has no native run for this system")
    return isas.get(HOST)


every_isa = pytest.mark.parametrize("isa", ISAS)
