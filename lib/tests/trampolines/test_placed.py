"""Code at a chosen place: where a site's own reach ends, to the instruction, by the encoder and by executing it."""

import struct

import pytest

from tramplab import Direct, GuestFault, Kernel, Ops, TramplabError
from tramplab.emulate.engine import PAGE
from tramplab.ftrace import arch, releases
from tramplab.ftrace.window import SPACE, step, window
from tramplab.isa import ISAS
from tramplab.trampolines.placed import Placed

FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: Every kind of patch site that can call directly.
KERNELS = [("x86_64", "v6.12"), ("x86_64", "v7.2"), ("arm64", "v6.4"), ("arm64", "v7.2"), ("riscv64", "v6.12"), ("riscv64", "v7.2")]
MADE = "placed_trampoline[0]"


def ends(isa, release):
    """The window of the function's site, and its ends that are not those of the address space, each with the place beyond."""
    kernel = Kernel(isa, release)
    site = kernel.function(FUNCTION).site
    low, high = window(kernel.isa, site, kernel.features, kernel.image.address)
    wide = step(kernel.isa, kernel.features)
    return kernel, site, [(end, end + out) for end, out in ((low, -wide), (high, wide)) if 0 < end < SPACE - wide]


def after_the_site(run):
    """The symbol that the first instruction behind the site is of."""
    return next(run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) != "site")


@pytest.mark.parametrize(("isa", "release"), KERNELS)
def test_the_reach_ends_where_execution_says(isa, release):
    """The last place that a site calls by itself, and the first that it does not: both run, the second through ftrace."""
    kernel, site, found = ends(isa, release)
    assert len(found) == (2 if kernel.features["call_ops"] else 1), "elsewhere addresses end before the reach does"
    for end, beyond in found:
        k = Kernel(isa, release, room_at=(end, beyond))
        function = k.function(FUNCTION)
        assert function.site == site
        idle, ways = k.call(function, *ARGUMENTS), []
        for place in (end, beyond):
            with k.attached(function, Placed(at=place)):
                run = k.call(function, *ARGUMENTS)
            assert run.value == idle.value and MADE in run.symbols and place in run.instructions
            ways.append(after_the_site(run))
        assert ways[0] == MADE and ways[1] in ("ftrace_caller", "ftrace_regs_caller")
        assert k.call(function, *ARGUMENTS).counts == idle.counts, "nothing is left"


@pytest.mark.parametrize(("isa", "release"), KERNELS)
def test_the_encoders_branch_arrives_at_the_end_and_not_beyond(isa, release):
    """Past all bookkeeping: the bytes that the encoder makes for a place, at the site."""
    kernel, site, found = ends(isa, release)
    own = arch.of(kernel.isa)
    for end, beyond in found:
        k = Kernel(isa, release, room_at=(end, beyond))
        k.attach(k.function(FUNCTION), Placed(at=end), Ops())  # the code is there, and the site goes to the list
        code = k.machine.read(end, 12)
        assert after_the_site(k.call(FUNCTION, *ARGUMENTS)) != MADE
        k.machine.poke(site.ip, own.call_bytes(site, end, k.features, k.image.address))
        assert after_the_site(k.call(FUNCTION, *ARGUMENTS)) == MADE
        k.detach(*reversed(k.slowpath.ops))
        k.machine.poke(beyond, code)
        with pytest.raises((GuestFault, struct.error)):
            k.machine.poke(site.ip, own.call_bytes(site, beyond, k.features, k.image.address))
            k.call(FUNCTION, *ARGUMENTS)


@pytest.mark.parametrize(("isa", "release"), KERNELS)
def test_the_window_is_that_of_the_instruction(isa, release):
    """From the encodings: 26 bits of words, 32 bits of bytes behind five of them, 32 bits in two halves, 12 bits."""
    kernel, site, _ = ends(isa, release)
    low, high = window(kernel.isa, site, kernel.features, kernel.image.address)
    last = SPACE - step(kernel.isa, kernel.features)
    auipc = int.from_bytes(kernel.machine.read(site.entry, 4), "little")
    fixed = site.entry + ((auipc >> 12) - (1 << 20 if auipc >> 31 else 0) << 12)
    expected = {
        "nop5": (site.body - (1 << 31), min(site.body + (1 << 31) - 1, last)),
        "literal-mov-bl": (site.ip - (1 << 27), site.ip + (1 << 27) - 4),
        "detour8": (site.entry - (1 << 31) - (1 << 11), min(site.entry + (1 << 31), last)),
        "literal-auipc-jalr": (fixed - (1 << 11), fixed + (1 << 11) - 2),
    }[kernel.features["site"]]
    wide = step(kernel.isa, kernel.features)
    assert (low, high) == (-(-expected[0] // wide) * wide, expected[1] // wide * wide)


def test_an_odd_target_is_a_mark_where_kernels_have_it():
    """x86-64 from v6.19 on jumps to one; before, code may lie there."""
    old, new = Kernel("x86_64", "v6.12"), Kernel("x86_64", "v7.2")
    assert (step(old.isa, old.features), step(new.isa, new.features)) == (1, 2)
    at = old.isa.module_base + 0x100001
    with pytest.raises(TramplabError, match=rf"x86_64 v7\.2 has no target at {at:#x}: choose a multiple of 2\."):
        Kernel("x86_64", room_at=(at,)).attach(new.function(FUNCTION), Placed(at=at))
    k = Kernel("x86_64", "v6.12", room_at=(at,))
    with k.attached(k.function(FUNCTION), Placed(at=at)):
        assert after_the_site(k.call(FUNCTION, *ARGUMENTS)) == MADE


@pytest.mark.parametrize("isa", ISAS)
def test_a_place_without_room_is_refused_in_one_sentence(isa):
    record = ISAS[isa]
    at = record.module_base + (1 << 20)
    k = Kernel(isa, room_at=(at,))
    function = k.function(FUNCTION)
    for place in (at + PAGE, function.address, k.image.address("lab_shape"), k.image.address("lab_direct_hits")):
        with pytest.raises(TramplabError, match=f"there is no room for code at {place:#x}"):
            k.attach(function, Placed(at=place))
    k.attach(function, Placed(at=at))
    with pytest.raises(TramplabError, match=f"other code lies at {at:#x} already"):
        k.attach(k.function("one_arg"), Placed(at=at))
    with pytest.raises(TramplabError, match="has a direct call already"):
        k.attach(function, Direct())
    k.detach(*k.slowpath.ops)
    with k.attached(function, Placed(at=at)):
        assert k.machine.read(at, 4) != bytes(4)
    assert k.machine.read(at, 4) == bytes(4)
    for wrong, why in ((1 << 64, "is no address"), (-1, "is no address"), (record.module_base, "the guest has data or modules")):
        with pytest.raises(TramplabError, match=why):
            Kernel(isa, room_at=(wrong,))
    release = next((r for r in releases.known() if not releases.features(record, r, {})["direct"]), None)
    if release:
        with pytest.raises(TramplabError, match="has no direct calls"):
            old = Kernel(isa, release, room_at=(at,))
            old.attach(old.function(FUNCTION), Placed(at=at))


@pytest.mark.parametrize("isa", ISAS)
def test_room_is_had_at_the_end_of_all_addresses_and_in_a_gap_of_the_text(isa):
    last = SPACE - 16
    k = Kernel(isa, room_at=(last,))
    function = k.function(FUNCTION)
    gap = k.image.code[0][1] + 15 & ~15
    assert gap < k.image.code[1][0]
    for place in (last, gap):
        with k.attached(function, Placed(at=place)):
            assert place in k.call(function, *ARGUMENTS).instructions
    assert k.machine.read(gap, 16) == bytes(16)
