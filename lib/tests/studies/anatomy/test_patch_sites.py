"""The bytes of patch sites: they are what memory holds, and those of a booted kernel what Debian's kernels have there."""

import itertools

import pytest

from support.models.guests import every_isa
from tramplab.emulate import decode
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.vmlinux.debian.fetch import there
from tramplab.vmlinux.debian.list import packages
from tramplab.vmlinux.run.machine import FUNCTION, RealMachine
from tramplab.vmlinux.saved import store
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.anatomy import ORDER, patch_sites

FRAME = patch_sites.rows()


def bytes_of(isa: str, release: str, state: str, first: int) -> str:
    some = FRAME[(FRAME["isa"] == isa) & (FRAME["release"] == release) & (FRAME["state"] == state)]
    return "".join(some.loc[some["offset"] >= first, "bytes"])


@every_isa
@pytest.mark.parametrize("state", patch_sites.ATTACHED)
def test_what_is_shown_is_what_memory_holds_while_it_is_attached(isa, state):
    kernel = Kernel(isa)
    site = kernel.function(patch_sites.FUNCTION).site
    start = site.entry if site.literal is None else site.literal
    requests = hooks.requests(hooks.get(patch_sites.ATTACHED[state][isa]), 1 + (state == "two ops"))
    with kernel.attached(patch_sites.FUNCTION, *requests):
        held = kernel.machine.read(start, site.body - start).hex()
    assert held == bytes_of(isa, str(kernel.features.release), state, -8)


@pytest.mark.parametrize("package", [p for p in packages() if p.release in set(FRAME["release"])], ids=lambda p: p.name)
def test_a_booted_site_has_the_instructions_of_debians_kernel(package):
    """Immediate operands apart: code lies elsewhere."""
    if not there(package):
        pytest.skip(f"{package.name} has not been fetched (make kernels)")
    machine = RealMachine(store.opened(package))
    site = machine.function(FUNCTION).site
    real = machine.machine.read(site.entry, site.body - site.entry)
    lab = bytes.fromhex(bytes_of(package.isa, package.release, patch_sites.BOOTED, 0))

    def names(data: bytes) -> list[str]:
        found, at = [], 0
        while at < len(data):
            one = decode.at(ISAS[package.isa], 0x1000 + at, data[at:])
            found.append(f"{one.mnemonic} {one.operands.partition(',')[0]}")
            at += one.size
        return found

    assert names(real) == names(lab)


def test_a_site_is_shown_under_a_tab_for_each_isa_with_what_is_written_marked():
    shown = show(patch_sites, "fig-patch-site", FRAME)
    places = [shown.html.index(f'aria-label="{isa}"') for isa in ("arm64", "x86-64", "riscv64")]
    assert places == sorted(places)
    newest = FRAME[FRAME["release"] == patch_sites.releases.LATEST]
    cells = patch_sites.places(newest)
    assert shown.html.count("tl-changed") == cells["changed"].sum() > 10
    assert len(ORDER) == shown.html.count('type="radio"') == shown.html.count('<div class="tl-pane"')


def test_releases_with_the_same_site_are_one_line():
    found = patch_sites.spans(FRAME)
    for isa, some in found.groupby("isa"):
        states = some[[patch_sites.BOOTED, "one ops", "two ops", "direct call"]].apply(tuple, axis=1).tolist()
        assert all(a != b for a, b in itertools.pairwise(states)), isa
    released = found["releases"].str.split(" to ").explode()
    assert set(released) <= set(FRAME["release"]) and len(found) < FRAME.groupby(["isa", "release"]).ngroups
