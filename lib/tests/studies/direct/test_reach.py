"""The page about reach: known relations of its rows, that its figures follow them, and a verdict that other rows change."""

import itertools

import pytest

from support.native import machines
from tramplab.ftrace import addresses, releases
from tramplab.ftrace.addresses import BPF, MODULES
from tramplab.isa import ISAS
from tramplab.vmlinux.results.result import added
from tramplab.vmlinux.saved import saved
from tramplab_book.publish.figures.figure import find
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.direct.reach import reach_boundary, reach_kernels, reach_price, reach_ranges, reach_ways
from tramplab_book.studies.direct.reach.reach_boundary import AHEAD, BEHIND, BEYOND, EDGE, LAST, SITE
from tramplab_book.studies.direct.reach.reach_ranges import ALL, DEBIAN, KASLR, NO_KASLR, NONE
from tramplab_book.studies.direct.reach.reach_ways import CASES, FAR, NEAR, SHARED, TARGET
from tramplab_book.studies.time import saved_times

DIRECT = [(isa, r) for isa in ISAS for r in releases.shown() if releases.features(ISAS[isa], r, {})["direct"]]
def kernel(frame, isa, release):
    return frame[(frame["isa"] == isa) & (frame["release"] == release)]


# -- the boundary


@pytest.fixture(scope="module")
def ends():
    return reach_boundary.rows()


def test_every_place_was_driven_in_every_release_with_direct_calls(ends):
    assert ends["ran"].all()
    assert list(dict.fromkeys(zip(ends["isa"], ends["release"], strict=True))) == DIRECT
    assert (ends.loc[ends["place"] != BEYOND, "through"] == SITE).all()
    assert ends.loc[ends["place"] == BEYOND, "through"].isin(("ftrace_caller", "ftrace_regs_caller")).all()


def test_what_no_kernel_does_is_marked(ends):
    """Out of reach is a kernel's case only where the callsite's ops leads to the direct call."""
    marked = {(isa, r) for isa, r, so in zip(ends["isa"], ends["release"], ends["hypothetical"], strict=True) if so}
    assert marked == {(isa, r) for isa, r in DIRECT if not releases.features(ISAS[isa], r, {})["call_ops"]}
    said = show(reach_boundary, "fig-reach", ends).text
    assert said.count("no kernel's *") == 2 and find(reach_boundary, "fig-reach").hypothetical


@pytest.mark.parametrize(("isa", "release"), DIRECT)
def test_reach_is_what_documents_say(ends, isa, release):
    """arm64: 26 bits of words; riscv64: 12 bits with a fixed AUIPC; else 31 bits behind, and ahead all that there is."""
    part = kernel(ends, isa, release)
    by = part.set_index(["side", "place"])["distance"]
    if isa == "arm64":
        assert (by[BEHIND, LAST], by[AHEAD, LAST]) == (-(1 << 27), (1 << 27) - 4)
        assert (by[BEHIND, BEYOND], by[AHEAD, BEYOND]) == (-(1 << 27) - 4, 1 << 27)
        assert reach_boundary.about(reach_boundary.span(part)) == "256 MiB"
    elif releases.features(ISAS[isa], release, {})["call_ops"]:
        assert reach_boundary.span(part) == 4096 - 2
    else:
        assert (AHEAD, EDGE) in by.index and abs(by[BEHIND, LAST] + (1 << 31)) <= 2048
        assert by[BEHIND, LAST] - by[BEHIND, BEYOND] in (1, 2)


def test_a_detour_is_the_same_on_both_sides_and_in_the_price(ends):
    """And nothing is stored on it."""
    prices = reach_price.rows()
    for isa, release in DIRECT:
        part = kernel(ends, isa, release)
        if part["hypothetical"].any():
            assert not reach_price.detour(prices, isa, release).any(), "the layout has nothing out of reach"
            continue
        by = part.set_index(["side", "place"])[["instructions", "loads", "stores", "taken"]]
        assert (by.loc[(BEHIND, BEYOND)] == by.loc[(AHEAD, BEYOND)]).all()
        more, price = by.loc[(BEHIND, BEYOND)] - by.loc[(BEHIND, LAST)], reach_price.detour(prices, isa, release)
        assert list(more) == [price["instructions"], price["loads"], price["stores"], price["branches_taken"]]
        assert more["instructions"] > 0 and more["stores"] == 0 and price["mispredicted"] == 0


def test_the_first_release_that_is_alike_is_found(ends):
    assert reach_boundary.same_since(ends, "arm64") == "v6.4"
    changed = ends.copy()
    changed.loc[(ends["isa"] == "arm64") & (ends["release"] == "v6.12"), "instructions"] += 1
    assert reach_boundary.same_since(changed, "arm64") == "v6.16"


# -- the ways


@pytest.fixture(scope="module")
def ways():
    return reach_ways.rows()


@pytest.mark.parametrize(("isa", "release"), DIRECT)
def test_the_cases_of_the_commit_are_driven(ways, isa, release):
    assert ways["right"].all()
    near, far, shared = (reach_ways.way(ways, isa, release, case) for case in CASES)
    caller = "ftrace_caller" if not releases.features(ISAS[isa], release, {})["regs"] else "ftrace_regs_caller"
    assert near == ["site", TARGET, "function"]
    detour = releases.features(ISAS[isa], release, {})["call_ops"]
    assert far == (["site", caller, TARGET, "function"] if detour else near)
    assert shared[:2] == ["site", caller] and shared[-3:] == [caller, TARGET, "function"]
    order = [shared.index(place) for place in ("list function", "callback", "call_direct_funcs", TARGET)]
    assert order == sorted(order), "the ops was attached last, so it is the first on the list"
    part = kernel(ways, isa, release)
    before = part[(part["case"] == FAR) & (part["place"] == caller)]
    assert not before["stores"].any() and (before["loads"].sum() == 2) == detour


def test_the_detour_is_shown_with_its_instructions(ways):
    shown = reach_ways.detours(reach_ways.shown(ways))
    assert list(dict.fromkeys(shown["isa"])) == ["arm64 v7.2", "riscv64 v7.2"]
    arm64 = shown[shown["isa"] == "arm64 v7.2"]["instruction"].to_list()
    assert arm64[0] == "mov x9, x30" and arm64[1].startswith("bl ") and arm64[-1] == "br x17"
    assert len(arm64) == 2 + reach_ways.numbers(ways)["far-instructions"]


def test_numbers_of_the_ways_follow_the_rows(ways):
    far = (ways["isa"] == "arm64") & (ways["release"] == "v7.2") & (ways["case"] == FAR) & (ways["place"] == "ftrace_caller")
    assert reach_ways.numbers(ways)["far-stores"] == 0
    assert reach_ways.numbers(ways.assign(stores=ways["stores"].mask(far, 3)))["far-stores"] == 3


# -- the ranges


@pytest.fixture(scope="module")
def ranges():
    return reach_ranges.rows()


@pytest.mark.parametrize("size", [16 << 20, 47 << 20, 120 << 20, 200 << 20])
@pytest.mark.parametrize("range_", addresses.data().ranges, ids=lambda r: f"{r.isa} {r.layout}")
def test_a_range_is_made_of_places_beside_the_image(range_, size):
    for image in range_.images(size):
        assert image[1] - image[0] == size and image[1] < 1 << 64
        places = range_.places(image)
        assert (not places) == bool(range_.holds and size >= range_.holds)
        for start, end in places:
            assert range_.start.at(image) <= start < end <= range_.end.at(image)
            assert end <= image[0] or image[1] <= start
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(places))


def test_ranges_of_arm64_by_hand():
    """4 KiB pages, 48 bits: from the image's link address to 8 MiB below the memory map, which is 2 TiB and ends at -1 GiB; KASLR
    puts the image 2^45 bytes or more above that address."""
    by = {r.layout: r for r in addresses.of("arm64", "v7.2")}
    link = 0xFFFF800080000000
    (plain,), (low, high) = by[NO_KASLR].images(1 << 25), by[KASLR].images(1 << 25)
    assert plain[0] == link and low[0] - link == 1 << 45 and high[0] - low[0] == (1 << 46) - (1 << 21)
    assert by[NO_KASLR].places(plain) == [(plain[1], (1 << 64) - (1 << 30) - (1 << 41) - (8 << 20))]
    assert sum(b - a for a, b in by["modules"].places(plain)) == (1 << 27) - (1 << 25)


def test_the_computed_case_is_that_of_the_release(ranges):
    """data/releases.yml, which other pages rest on, says near, far or either of what is computed here."""
    for isa, release in reach_kernels.kernels():
        for code in (MODULES, BPF):
            part = kernel(ranges, isa, release)
            part = part[part["code"].str.contains(code) & (part["kernel"] == DEBIAN) & ~part["layout"].str.contains("full")]
            word = {(ALL,): "near", (NONE,): "far"}.get(tuple(set(part["case"])), "either")
            assert word == releases.reach(isa, release, code).value


# -- the price


@pytest.fixture(scope="module")
def prices():
    return reach_price.rows()


def test_debians_kernels_pay_for_the_same_detour(prices):
    """arm64 to the instruction; riscv64's assembler saves one that the lab's does not."""
    seen = set()
    for result in saved.plain():
        rows, isa, release = {r["hook"]: r for r in result["hooks"]}, result["kernel"]["isa"], result["kernel"]["release"]
        if rows["direct-far"]["status"] != "measured":
            continue
        both = rows["direct"]["status"] == "measured"  # else nothing is near, and a call that is unhooked stands for it
        far = added(rows["direct-far"], rows["direct" if both else "none"])
        mine = reach_price.detour(prices, isa, releases.nearest(release))
        assert (far["loads"], far["stores"]) == (mine["loads"], mine["stores"])
        if both:
            assert (far["instructions"], far["branches_taken"]) == (mine["instructions"], mine["branches_taken"])
        assert 0 <= mine["instructions"] - far["instructions"] <= (isa == "riscv64")
        seen.add((isa, release))
    assert seen == {("arm64", "v6.12"), ("arm64", "v7.2"), ("arm64", "v7.3"), ("riscv64", "v7.2")}


def test_measured_cycles_stand_beside_the_hooks_that_were_timed(prices, monkeypatch):
    """By ISA and release, and none where windows do not agree."""
    times = {"direct": 2.0, "direct-far": 3.0, "direct+ops": 50.0}
    made = {
        "quick": machines.result("x86_64", times, unquiet=("direct-far",)),
        "other": machines.result("arm64", {"ops": 4.0}),
        "old": machines.result("x86_64", times, release="v6.18"),
    }
    shown = reach_price.shown(prices)
    monkeypatch.setattr(saved_times, "saved", lambda kind: made)
    table = reach_price.table(shown).set_index(["isa", "case"])
    quick, other = table["quick"], table["other"]
    assert dict(quick[quick != "-"]) == {("x86-64 v7.2", NEAR): "4.00", ("x86-64 v7.2", SHARED): "100"}
    assert dict(other[other != "-"]) == {("arm64 v7.2", "ops"): "8.00"} and "old" not in table
    monkeypatch.setattr(saved_times, "saved", lambda kind: {})
    assert list(reach_price.table(shown)) == ["isa", "case", "insns", "loads", "stores", "taken", "mispredicted returns"]


def test_numbers_of_the_price_follow_the_rows(prices, ranges):
    changed = prices.copy()
    cost = ["instructions", "loads", "stores", "branches_taken"]
    arm64 = changed["isa"] == "arm64"
    near = prices[arm64 & (prices["case"] == NEAR)]
    changed.loc[arm64 & (prices["case"] == FAR), cost] = near[cost].to_numpy()
    detours = [reach_price.numbers(frame)["arm64-v7-2-detour-added"] for frame in (prices, changed)]
    assert detours == [6, 0] and reach_price.numbers(prices)["arm64-v7-2-detour-stores-added"] == 0
    inside = ranges.assign(case=ranges["case"].mask((ranges["isa"] == "arm64") & (ranges["code"] == BPF), ALL))
    first = [reach_ranges.numbers(frame)["arm64-kaslr-first"] for frame in (ranges, inside)]
    assert first == ["out of reach", "in reach"]


def test_every_release_is_laid_out_as_the_debian_kernel_nearest_to_it():
    """Debian does not have each release on each ISA, and a newer one may be shown before it has."""
    for isa in ISAS:
        laid = {release: reach_ranges.laid_out(isa, release)[0] for release in ("v6.12", "v7.1", "v7.2", "v7.3", "v8.0")}
        assert laid["v8.0"] == laid["v7.3"]
        assert (laid["v7.3"] == laid["v7.2"]) == (isa == "riscv64") and laid["v7.1"] == laid["v6.12"] != laid["v7.2"]
