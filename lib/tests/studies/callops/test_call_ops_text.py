"""What CALL_OPS costs in text, and what branches reach: sums that must come out, relations known beforehand, a verdict that other
rows change."""

import pytest

from support.publish.guarded import problem
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.vmlinux.saved import saved
from tramplab_book.studies.callops import branch_reach, text_bytes, text_images, text_schemes
from tramplab_book.studies.callops.branch_reach import BEHIND, DEBIAN, JAL, LONE, PAIR, SIZES, TEXT
from tramplab_book.studies.callops.text_bytes import LITERAL, OTHER, OWN, PAD, PADDING, SITE
from tramplab_book.studies.callops.text_schemes import BTI, BUILDS, CALL_OPS, FIXED, LONG, NONE, PLAIN, SCHEMES
from tramplab_book.studies.direct.reach import reach_ranges

STUDIES = (text_bytes, text_images, branch_reach)


# -- bytes by cause


@pytest.fixture(scope="module")
def sites():
    return text_bytes.rows()


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s.isa} {s.build} {s.name}")
def test_causes_add_up_to_the_text(sites, scheme):
    """To the byte, and none is negative."""
    here = (sites["isa"] == scheme.isa) & (sites["build"] == scheme.build) & (sites["scheme"] == scheme.name)
    part = sites[here].set_index("cause")["total"]
    made = text_bytes._compiled(scheme)
    assert part.sum() == len(made.text) and (part >= 0).all()
    before, at = text_schemes.reserved(scheme)
    assert part[SITE] == at * len(made.functions) and part.sum() - part[OWN] >= (before + at) * len(made.functions)


def test_functions_own_code_is_the_same_with_sites(sites):
    assert not sites.loc[sites["cause"] == OTHER, "total"].any()
    assert (sites[sites["cause"] == OWN].groupby(["isa", "build"])["total"].nunique() == 1).all()


def test_causes_of_a_text_by_hand():
    """Two functions with a pointer of eight bytes and a site of four, the first 6 bytes long: two of padding before the second."""
    from tramplab.build.corpus import Compiled, Function

    plain = Compiled(bytes(11), (Function("a", 0, 6), Function("b", 6, 5)))
    made = Compiled(bytes(8 + 4 + 6 + 2 + 8 + 4 + 5 + 1), (Function("a", 8, 10), Function("b", 28, 9)))
    assert text_bytes.causes(made, plain, 8, 4) == {
        OWN: 11, SITE: 8, LITERAL: 16, text_bytes.ROOM: 0, PAD: 0, PADDING: 3, OTHER: 0,
    }  # fmt: skip
    longer = Compiled(made.text + bytes(2), (made.functions[0], Function("b", 28, 11)))
    assert text_bytes.causes(longer, plain, 8, 4)[OTHER] == 2
    pad = bytes.fromhex("5f2403d5")
    padded = Compiled(bytes(8) + pad + bytes(9), (Function("a", 8, 13),))
    found = text_bytes.causes(padded, Compiled(bytes(5), (Function("a", 0, 5),)), 8, 4)
    assert (found[PAD], found[OTHER], found[PADDING]) == (4, 0, 0)


def test_alignment_is_what_chance_says(sites):
    """A function ends at any multiple of its shortest instruction: on average half way between two aligned places."""
    for (isa, build), (_, step) in BUILDS.items():
        align = 16 if isa == "x86_64" else 8
        found = text_bytes.each(sites, isa, CALL_OPS, build)[PADDING]
        assert found == pytest.approx((align - step) / 2, abs=0.25)
    assert text_bytes.each(sites, "riscv64", FIXED)[PADDING] == pytest.approx(1, abs=0.1)


def test_only_landing_pads_behind_paciasp_are_a_sites_doing(sites):
    pads = sites[sites["cause"] == PAD]
    assert set(pads.loc[pads["total"] > 0, "build"]) == {BTI}
    assert set(pads.loc[pads["total"] > 0, "scheme"]) == {PLAIN, CALL_OPS}
    one = pads[(pads["build"] == BTI) & (pads["scheme"] != NONE)]["total"]
    assert one.nunique() == 1 and one.iloc[0] % 4 == 0 and one.iloc[0] // 4 < sites["functions"].iloc[0]


def test_flags_are_the_lab_kernels_and_what_no_kernel_has_is_marked():
    by = {(s.isa, s.build, s.name): s for s in SCHEMES}
    for (isa, build, name), scheme in by.items():
        kernel = releases.features(ISAS[isa], scheme.release, {}) if scheme.release else None
        has = bool(kernel and kernel["call_ops"])
        assert scheme.hypothetical == (name == CALL_OPS and not has), (isa, build, name)
    assert text_schemes.flags(by["riscv64", "", CALL_OPS]) == ("-fpatchable-function-entry=8,4", "-falign-functions=8")
    assert text_schemes.flags(by["riscv64", LONG, CALL_OPS])[1] == "-fpatchable-function-entry=4,2"
    assert text_schemes.reserved(by["riscv64", LONG, CALL_OPS]) == text_schemes.reserved(by["riscv64", "", CALL_OPS]) == (8, 8)
    assert text_schemes.reserved(by["x86_64", "", PLAIN]) == (0, 5)


def test_what_the_pointer_costs_follows_from_the_rows(sites):
    assert not problem("pointer-is-the-cost", sites)
    changed = sites.copy()
    usual = (changed["isa"] == "riscv64") & (changed["build"] == "")
    here = usual & (changed["scheme"] == CALL_OPS) & (changed["cause"] == PADDING)
    changed.loc[here, "each"] += 2
    assert "riscv64-alignment-each < 0.32 * riscv64-call-ops-each is not so: 5.1" in problem("pointer-is-the-cost", changed)


# -- Debian's kernels


def test_percentages_are_of_the_images():
    frame = text_images.rows()
    plain = {(r["kernel"]["isa"], r["kernel"]["release"]): r["kernel"] for r in saved.plain()}
    built = frame[frame["kernel"] == text_images.BUILT]
    assert set(zip(built["isa"], built["release"], strict=True)) == set(plain)
    for r in built[built["cause"] != PADDING].itertuples():
        kernel = plain[r.isa, r.release]
        start, end = (int(n, 16) for n in kernel["places"]["text"])
        has = kernel["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"]
        each = {SITE: 5 if r.isa == "x86_64" else 8, LITERAL: 8 if has else 0}[r.cause]
        assert r.percent == pytest.approx(100 * text_images.sites_of(kernel) * each / (end - start), abs=0.006)
    without = dict(key for key, kernel in plain.items() if not kernel["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"])
    with_it = frame[frame["hypothetical"]]
    assert dict(zip(with_it["isa"], with_it["release"], strict=True)) == without, "the newest of each ISA"
    for isa, release in without.items():
        there = frame[(frame["isa"] == isa) & (frame["release"] == release)].groupby("kernel")[["text", "percent"]].sum()
        assert (there.loc[text_images.WITH] > there.loc[text_images.BUILT]).all()


# -- reach


@pytest.fixture(scope="module")
def reach():
    return branch_reach.rows()


def one(frame, branch, where, kernel):
    return frame[(frame["branch"] == branch) & (frame["where"] == where) & (frame["kernel"] == kernel)]["reached"].iloc[0]


@pytest.mark.parametrize("size", SIZES)
def test_a_jal_in_a_text_is_what_geometry_says(reach, size):
    """Of a square of sites and places the band around its diagonal: 2r - r² of it, where a branch reaches r of the text."""
    r = 1 / size
    assert one(reach, JAL, TEXT, f"{size} MiB") == pytest.approx(100 * (2 * r - r * r), rel=0.02)


@pytest.mark.parametrize("size", SIZES)
def test_bl_in_a_text_is_what_geometry_says(reach, size):
    r = min(1, 128 / size)
    assert one(reach, "BL", TEXT, f"{size} MiB") == pytest.approx(100 * (2 * r - r * r), rel=0.01)


@pytest.mark.parametrize("size", SIZES)
def test_a_lone_jalr_reaches_a_page_of_any_text(reach, size):
    assert one(reach, LONE, TEXT, f"{size} MiB") == pytest.approx(100 / (256 * size), rel=0.01)


def test_a_larger_text_has_less_in_reach(reach):
    sizes = [f"{size} MiB" for size in SIZES]
    for (_, where), part in reach[reach["kernel"] != DEBIAN].groupby(["branch", "where"]):
        by = part.set_index("kernel")["reached"][sizes]
        assert where == branch_reach.MODULES or by.is_monotonic_decreasing


def test_it_agrees_with_the_ranges_of_the_other_page(reach):
    """What fig-reach-ranges says of Debian's kernels: all, some or nothing of a range is in reach."""
    ranges = reach_ranges.rows()
    ranges = ranges[(ranges["kernel"] == DEBIAN) & ~ranges["layout"].isin(("modules, when full", reach_ranges.NO_KASLR))]
    ranges = ranges[ranges["at"] == "lowest"]
    names = {(s.isa, s.release): s.name for s in branch_reach.schemes() if not s.jal}
    for (isa, release, code), part in ranges.groupby(["isa", "release", "code"]):
        for where in code.split():
            share = one(reach, names[isa, release], where, DEBIAN)
            assert (share == 100) == (part["inside"] == part["room"]).all()
            assert (share == 0) == (part["inside"] == 0).all()


def test_nothing_reads_as_all_or_nothing_that_is_not(reach):
    shown = branch_reach.table(reach)
    assert shown[shown["branch"] == "JAL *"]["8"].to_list() == ["23", "0", "<0.01", "0.05"]
    assert branch_reach.percent(99.9999) == ">99.9" and branch_reach.percent(0.0001) == "<0.01"


@pytest.mark.parametrize(
    ("branch", "where", "kernel", "reached", "guard"),
    [
        (LONE, TEXT, DEBIAN, 100.0, "lone-text"),
        (LONE, BEHIND, "8 MiB", 100.0, "lone-most"),
        (PAIR, BEHIND, "256 MiB", 99.9, "pair-least"),
        (JAL, TEXT, DEBIAN, 100.0, "jal-text"),
        (JAL, BEHIND, DEBIAN, 100.0, "jal-most"),
    ],
)
def test_r7_falls_with_a_share_of_either_side(reach, branch, where, kernel, reached, guard):
    """A range out of the reach of a few of the pair's sites is enough, and so is one that a shorter branch reaches."""
    assert not problem("r7", reach)
    changed = reach.copy()
    here = (changed["branch"] == branch) & (changed["where"] == where) & (changed["kernel"] == kernel)
    changed.loc[here, "reached"] = reached
    assert guard in problem("r7", changed)


def test_every_figure_says_that_it_has_what_no_kernel_has():
    assert all(figure.hypothetical for study in STUDIES for figure in study.FIGURES)
