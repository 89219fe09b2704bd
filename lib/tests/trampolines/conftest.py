"""Labs with other sources, for the tests of mutants."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support import abi
from support.abi_places import Place
from support.mutants import Mutant, broken
from tramplab.cache import folder as cache_folder
from tramplab.emulate import elf
from tramplab.emulate.image import Image


@pytest.fixture(scope="session")
def apart(tmp_path_factory) -> Path:
    """A cache for what nobody wants to keep: images that differ in one object from those of the usual one."""
    return tmp_path_factory.mktemp("apart")


@pytest.fixture
def lab(apart, tmp_path, monkeypatch) -> Callable[..., abi.Lab]:
    """Makes the lab of a place with other sources, of which only what has changed is compiled; where its C has not, its structs are
    those of the unbroken one."""

    def make(place: Place, guest: Path, in_c: bool = False) -> abi.Lab:
        whole = unbroken(place, apart)
        with monkeypatch.context() as m:
            m.setenv("TRAMPLAB_CACHE", str(apart))
            if not in_c:
                m.setattr(elf, "types", lambda _: (whole.structs, whole.prototypes))
            return abi.Lab(place, guest)

    return make


@pytest.fixture
def mutated(lab, tmp_path) -> Callable[[Mutant], abi.Lab]:
    """Makes the lab of a mutant."""
    return lambda mutant: lab(mutant.place, broken(tmp_path, mutant), mutant.file.endswith((".c", ".h")))


@functools.cache
def unbroken(place: Place, apart: Path) -> Image:
    """The image of a place as it is, from the usual cache; its objects are in the other one from then on."""
    image = abi.Lab(place).kernel.image
    usual = cache_folder()
    for name in set(os.listdir(usual)) - set(os.listdir(apart)):  # thousands, so without a Path for each
        if name.endswith(".o"):
            os.symlink(usual / name, apart / name)
    return image
