"""Negative controls: the ABI check of test_abi.py notices a lab kernel with one broken line.

Each mutant is a copy of the guest sources with one text replaced, built and called like the real thing. A mutant that
survives means that the check is blind to that kind of mistake.
"""

import shutil
from pathlib import Path

import pytest

from support import abi, mutants, single_mutants
from support.abi import STATES
from support.mutants import broken, copied
from tramplab import GuestFault, StepLimit
from tramplab.cache import folder as cache_folder
from tramplab.isa import ISAS

MUTANTS = [*mutants.MUTANTS, *single_mutants.MUTANTS]
PLACES = sorted({(m.place, m.hook) for m in MUTANTS}, key=str)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A cache for what nobody wants to keep: images that differ in one object from those of the usual one."""
    folder = tmp_path_factory.mktemp("cache")
    for compiled in cache_folder().glob("*.o"):
        shutil.copy(compiled, folder)
    return folder


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, tmp_path, monkeypatch, cache):
    """The broken kernel fails the ABI check, or faults or hangs in the attempt."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(cache))
    guest = broken(tmp_path, mutant)
    lab = abi.Lab(mutant.place, guest)
    with pytest.raises((AssertionError, GuestFault, StepLimit)):
        abi.play(lab, mutant.hook, STATES)


@pytest.mark.parametrize("isa", ISAS)
def test_mutants_are_what_the_toolchain_makes_of_them(isa, tmp_path, monkeypatch):
    """With objects of the mutants before them, as without: the same bytes."""
    first, second = [m for m in MUTANTS if m.isa == isa and m.file.endswith(".S")][:2]
    images = []
    for name, mutant, cache in (("a", first, "used"), ("b", second, "used"), ("c", second, "empty")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / cache))
        guest = broken(tmp_path / name, mutant)
        images.append(abi.Lab(mutant.place, guest).kernel.image.path)
    one, other, whole = images
    assert other.read_bytes() == whole.read_bytes() != one.read_bytes() and other.name == whole.name
    assert len(list((tmp_path / "used").glob("*.o"))) == len(list((tmp_path / "empty").glob("*.o"))) + 1


@pytest.mark.parametrize(("place", "hook"), PLACES, ids=[f"{place}-{hook}" for place, hook in PLACES])
def test_the_unchanged_copy_passes(place, hook, tmp_path):
    """What the mutants fail, a faithful copy passes: it is the change that is caught."""
    abi.play(abi.Lab(place, copied(tmp_path)), hook, STATES)
