"""Negative controls: the ABI check of test_abi.py notices a lab kernel with one broken line.

Each mutant is a copy of the guest sources with one text replaced, built and called like the real thing. A mutant that
survives means that the check is blind to that kind of mistake.
"""

from pathlib import Path

import pytest

from support import proof
from support.abi import abi
from support.abi.abi import STATES
from support.abi.abi_places import Place
from support.mutants import caller_mutants, single_mutants, spoiled
from support.mutants.mutants import broken, copied
from tramplab import GuestFault, StepLimit
from tramplab.build.assemble import assemble
from tramplab.isa import ISAS

MUTANTS = [*caller_mutants.MUTANTS, *single_mutants.MUTANTS]
PLACES = sorted({(m.place, m.hook) for m in MUTANTS}, key=str)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """The broken kernel fails the ABI check, or faults or hangs in the attempt."""
    lab = mutated(mutant)
    with pytest.raises((AssertionError, GuestFault, StepLimit)):
        abi.play(lab, mutant.hook, STATES)


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_done_to_flags_and_modes_is_caught(isa, tmp_path, lab):
    """From the call of a callback on, or only while that runs; where nothing is done nothing is found."""
    release, rooms = spoiled.ROOMS[isa]
    made = lab(Place(isa, release), spoiled.with_room(tmp_path, isa))
    for hook, (name, _, _) in rooms.items():
        assert [what for what, *code in spoiled.spoiling(isa) if survives(made, hook, name, *code)] == []
        assert survives(made, hook, name, "", "")


def survives(lab: abi.Lab, hook: str, trampoline: str, before: str, behind: str) -> bool:
    """Does the check find nothing, with this code in the trampoline's rooms?"""
    m, symbol, room = lab.machine, lab.kernel.image.symbol(trampoline), spoiled.filled(lab.isa, b"")
    text = m.read(symbol.address, symbol.size)
    places = symbol.address + text.index(room), symbol.address + text.rindex(room)
    for at, source in zip(places, (before, behind), strict=True):
        m.poke(at, spoiled.filled(lab.isa, assemble(lab.isa, source, at) if source else b""))
    try:
        abi.play(lab, hook, STATES)
    except (AssertionError, GuestFault, StepLimit):
        return False
    finally:
        for at in places:
            m.poke(at, room)
    return True


@proof
@pytest.mark.parametrize("isa", ISAS)
def test_mutants_are_what_the_toolchain_makes_of_them(isa, tmp_path, monkeypatch, lab):
    """With objects of the unbroken one and of another mutant before them, as with an empty cache: the same bytes."""
    first, second = [m for m in MUTANTS if m.isa == isa and m.file.endswith(".S")][:2]
    guests = []
    for name, mutant in (("a", first), ("b", second)):
        (tmp_path / name).mkdir()
        guests.append(broken(tmp_path / name, mutant))
    cache = tmp_path / "cache"
    cache.mkdir()
    one, other = (lab(m.place, guest, cache=cache).kernel.image.path for m, guest in zip((first, second), guests, strict=True))
    assert len(own_objects(cache)) == 2
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "empty"))
    whole = abi.Lab(second.place, guests[1]).kernel.image.path
    assert other.read_bytes() == whole.read_bytes() != one.read_bytes() and other.name == whole.name


def own_objects(cache: Path) -> set[str]:
    """What was compiled for this cache."""
    return {p.name for p in cache.glob("*.o") if not p.is_symlink()}


@pytest.mark.parametrize(("place", "hook"), PLACES, ids=[f"{place}-{hook}" for place, hook in PLACES])
def test_the_unchanged_copy_passes(place, hook, tmp_path):
    """What the mutants fail, a faithful copy passes: it is the change that is caught."""
    abi.play(abi.Lab(place, copied(tmp_path)), hook, STATES)
