"""The calling convention survives every hook, whatever is in the registers.

For every ISA, release and hook, random states (abi.py says what is drawn and what is promised): callee-saved registers,
arguments, results, stack, guard and preempt count, and what the callbacks were told. `make fuzz` asks for other, and more,
states.
"""

from dataclasses import replace

import pytest
from hypothesis import settings

from support.abi import abi, abi_places
from support.abi.abi import STATES
from support.plugins.seeds import drawn, seeds
from tramplab import StepLimit, TramplabError
from tramplab.isa import ISAS
from tramplab.trampolines import saving
from tramplab.trampolines.guest import ROOM
from tramplab.trampolines.saving import maker

# the states are the same in every case, so a kernel that several releases share is played once, under all their names
NAMES = abi_places.distinct()
CASES = [(place, hook) for place in NAMES for hook in abi_places.HOOKS if place.allows(hook)]


@pytest.fixture(params=CASES, ids=lambda c: f"{'='.join(NAMES[c[0]])}-{c[1]}")
def hooked(request):
    """A kernel with the hook attached, once for all its states."""
    place, hook = request.param
    with abi.lab(place).hooked(hook) as h:
        yield h


@drawn
def test_a_hooked_call_keeps_the_calling_convention(hooked, request):
    """Registers, arguments, result, stack and what callbacks see are as without the hook, or as it promises.

    In fewer states than usual, as there are some 400 cases, but as many as find every mutant of test_mutants.py.
    """
    for seed in seeds(request.node.name, settings.default.max_examples * len(STATES) // 200):
        hooked.check(seed)


@pytest.mark.parametrize("place", abi_places.PLACES, ids=str)
def test_every_place_is_played(place):
    """A place whose states are not played itself has image, features and booted text of one whose states are."""
    (played,) = (p for p, names in NAMES.items() if str(place) in names)
    one, other = abi.Lab(place).kernel, abi.Lab(played).kernel
    assert one.image is other.image and one.features.values == other.features.values
    for span in one.machine.text:
        assert one.machine.read(*span) == other.machine.read(*span)


def _read(here, spans) -> list[bytes]:
    """The text in these spans; zeros for the room where hooks' own code was, which is nobody's any more."""
    room, text = here.kernel.image.symbols[ROOM], []
    for address, size in spans:
        content = bytearray(here.machine.read(address, size))
        if address <= room.address < address + size:
            content[room.address - address : room.address + room.size - address] = bytes(room.size)
        text.append(bytes(content))
    return text


@pytest.mark.parametrize("place", abi_places.PLACES, ids=str)
def test_a_release_refuses_exactly_the_hooks_it_never_had(place):
    """Asking for a missing hook is a TramplabError and leaves nothing behind; every other hook can be attached."""
    here = abi.lab(place)
    spans = [(s.address, s.size) for s in here.kernel.image.segments if s.executable]
    text = _read(here, spans)
    refused = set()
    for hook in abi_places.HOOKS:
        try:
            with here.hooked(hook):
                pass
        except TramplabError:
            refused.add(hook)
        assert not here.kernel.slowpath.ops
        assert _read(here, spans) == text
    assert refused == {hook for hook in abi_places.HOOKS if not place.allows(hook)}


#: ISA -> a loop that only ends where a callee-saved register holds something else than 8.
LOOPS = {
    "x86_64": "again: cmp r12, 8\nje again",
    "arm64": "again: cmp x19, #8\nb.eq again",
    "riscv64": "again: addi t6, s2, -8\nbeqz t6, again",
}


@pytest.mark.parametrize("isa", ISAS)
def test_a_loop_that_few_states_come_to_is_a_verdict(isa, monkeypatch):
    """Every state is played with a limit on instructions; without one nobody would hear of it."""
    here = abi.lab(abi_places.Place(isa, abi_places.RELEASES[-1]))
    parts = saving.code(here.kernel.image, here.kernel.features, "ip", ())
    monkeypatch.setattr(maker, "code", lambda *_: replace(parts, before=f"{LOOPS[isa]}\n{parts.before}"))
    with here.hooked("ops-ip") as h:
        h.check(3)
        with pytest.raises(StepLimit):
            for seed in range(4, 400):
                h.check(seed)


@pytest.mark.parametrize("isa", ISAS)
def test_nested_calls_really_happen(isa):
    """calls_others calls two traced functions and tail_call jumps to one; else nothing nested would be tested."""
    here = abi.lab(abi_places.Place(isa, abi_places.RELEASES[-1]))
    with here.hooked("ops") as h:
        for name, entered in (("calls_others", 3), ("tail_call", 2)):
            h.check(1, name)
            assert len(h.observations()) == entered
