"""Labs with other sources, for the tests of mutants."""

import contextlib
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.abi import abi
from support.abi.abi_places import Place
from support.mutants.mutants import Mutant, broken
from tramplab.base.cache import folder as cache_folder
from tramplab.base.paths import sources
from tramplab.emulate import elf
from tramplab.emulate.image import Image


@pytest.fixture(scope="session")
def apart(pytestconfig, tmp_path_factory) -> Path:
    """A cache for images that differ in one object from those of the usual one: among what pytest keeps from run to run, for as
    long as the guest and what builds it are the same."""
    cache = getattr(pytestconfig, "cache", None)
    if cache is None:  # -p no:cacheprovider
        return tmp_path_factory.mktemp("apart")
    of_any_guest = cache.mkdir("mutants")
    of_this = of_any_guest / sources("guest", "build").hexdigest()[:24]
    of_this.mkdir(exist_ok=True)
    for there in of_any_guest.iterdir():
        if there != of_this:
            shutil.rmtree(there, ignore_errors=True)  # which another process may do, too
    for there in of_this.iterdir():
        if not there.exists():  # a link to what the usual cache had once
            there.unlink(missing_ok=True)
    return of_this


@pytest.fixture
def lab(apart, tmp_path, monkeypatch) -> Callable[..., abi.Lab]:
    """Makes the lab of a place with other sources, of which only what has changed is compiled; where its C has not, its structs are
    those of the unbroken one. cache: another one than `apart`."""

    def make(place: Place, guest: Path, in_c: bool = False, cache: Path = apart) -> abi.Lab:
        whole = unbroken(place, cache)
        with monkeypatch.context() as m:
            m.setenv("TRAMPLAB_CACHE", str(cache))
            if not in_c:
                m.setattr(elf, "types", lambda _: (whole.structs, whole.prototypes))
            return abi.Lab(place, guest)

    return make


@pytest.fixture
def mutated(lab, tmp_path) -> Callable[[Mutant], abi.Lab]:
    """Makes the lab of a mutant."""
    return lambda mutant: lab(mutant.place, broken(tmp_path, mutant), mutant.file.endswith((".c", ".h")))


@functools.cache
def unbroken(place: Place, other: Path) -> Image:
    """The image of a place as it is, from the usual cache; its objects are in the other one from then on."""
    image = abi.Lab(place).kernel.image
    usual = cache_folder()
    for name in set(os.listdir(usual)) - set(os.listdir(other)):  # thousands, so without a Path for each
        if name.endswith(".o"):
            with contextlib.suppress(FileExistsError):  # by now
                os.symlink(usual / name, other / name)
    return image
