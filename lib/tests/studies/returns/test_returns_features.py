"""The study of what a probe on returns can tell and do: its sentences and its verdict follow the rows, whatever they say."""

import pytest

from tramplab.isa import ISAS
from tramplab.publish.claims.claims import DEPENDS, FAILS, HOLDS
from tramplab.publish.figures.show import show
from tramplab.returns.features import FEATURES, HARMS, NO, PART, YES
from tramplab.studies.returns import features
from tramplab.studies.returns.mechanisms import FEXIT, FPROBE, KRETPROBE, LATEST, builds


@pytest.fixture(scope="module")
def found():
    return features.rows()


def changed(frame, outcome, mechanism=None, feature=None, isa=None, release=None):
    """The rows, with another outcome where they are of all these."""
    where = frame["isa"].eq(isa) if isa else frame["isa"].notna()
    for column, value in (("mechanism", mechanism), ("feature", feature), ("release", release)):
        where &= frame[column].eq(value) if value else True
    assert where.any()
    return frame.assign(outcome=frame["outcome"].mask(where, outcome))


def level(frame):
    """The rows, with every feature of an fprobe as that of a kretprobe."""
    for isa in ISAS:
        whole = features.newest(frame[frame["isa"] == isa], KRETPROBE)
        for feature, outcome in zip(whole["feature"], whole["outcome"], strict=True):
            frame = changed(frame, outcome, FPROBE, feature, isa)
    return frame


def test_every_kernel_of_the_chapter_has_every_feature(found):
    for isa in ISAS:
        part = found[found["isa"] == isa]
        assert list(part["name"].unique()) == [build.name for build in builds(isa)]
        assert all(list(own["feature"]) == list(FEATURES) for _, own in part.groupby("name"))


def test_releases_of_one_mechanism_are_alike(found):
    """What instances are kept in, and what the trampoline is, does not matter to a user of a kretprobe."""
    probes = found[found["mechanism"] == KRETPROBE]
    assert (probes.groupby(["isa", "feature"])["outcome"].nunique() == 1).all()


def test_the_chart_has_a_kretprobe_an_fprobe_and_fexit_of_the_newest_release(found):
    shown = features.drawn(found)
    newest = found[found["release"] == LATEST].set_index(["isa", "mechanism", "feature"])
    told = {(r.isa, r.step, r.lane): r.state for r in shown.itertuples()}
    for (panel, column, feature), state in told.items():
        mechanism = next(m for m, name in features.SHOWN.items() if name == column)
        for isa in panel.replace("x86-64", "x86_64").split(", "):
            assert newest["outcome"][isa, mechanism, feature] == state
    panels = {panel for panel, *_ in told}
    assert sorted(isa for panel in panels for isa in panel.split(", ")) == ["arm64", "riscv64", "x86-64"]
    assert len(told) == len(panels) * len(features.SHOWN) * len(FEATURES)


def test_answers_follow_from_the_rows(found):
    said = features.answer(found)
    assert "Of 15 features a kretprobe has 11 in full, and an fprobe of the same kernel 7 of these." in said
    assert "less than a kretprobe when asked to keep a page of data for a call, see or count what its entry handler calls" in said
    assert "its exit handler calls and count all calls that it misses." in said
    assert "It does more when asked to let a kprobe be hit" in said and "goes astray with all but BPF fexit." in said
    assert "BPF fexit alone can tell the arguments at the return" in said
    same = features.answer(level(found))
    assert "a kretprobe has 11 in full, and an fprobe of the same kernel 11" in same and "less" not in same and "more" not in same
    assert "goes astray with all. " in features.answer(changed(found, HARMS, FEXIT, "left, both hooked"))
    assert "astray" not in features.answer(changed(found, PART, feature="left, both hooked"))
    endless = features.answer(changed(found, HARMS, FEXIT, "exit calls function"))
    assert "A handler that calls the function never ends with BPF fexit." in endless
    assert "alone" not in features.answer(changed(changed(found, NO, FEXIT), HARMS, FEXIT, "left, both hooked"))
    assert "data for a call, tell the value, see or" in features.answer(changed(found, PART, FPROBE, "value read"))
    one = features.answer(changed(found, NO, FPROBE, "tail call", "arm64"))
    assert "has in full 7 of 11 on x86-64, 6 of 11 on arm64 and 7 of 11 on riscv64 of those" in one
    assert ", and on arm64 to see both returns of a tail call" in one
    neither = features.answer(changed(changed(found, PART, KRETPROBE, "tail call"), PART, FPROBE, "tail call"))
    assert "has 10 in full, and an fprobe of the same kernel 6 of these" in neither  # what both lack is no feature of either


def test_the_claim_follows_from_the_rows(found):
    verdict = features.same_feature(found)
    assert (verdict.kind, verdict.on) == (DEPENDS, "the feature")
    assert set(verdict.numbers.values()) == {"7 of 11"} and "has 11 in full" in verdict.because
    assert features.same_feature(level(found)).kind == HOLDS
    harmed = changed(level(found), HARMS, FPROBE, release=LATEST)
    assert features.same_feature(harmed).kind == DEPENDS  # in one feature a kretprobe harms, too
    nothing = changed(changed(found, YES, KRETPROBE), NO, FPROBE)
    assert features.same_feature(nothing).kind == FAILS
    apart = changed(found, NO, FPROBE, "tail call", "arm64")
    assert features.same_feature(apart).on == "the feature and the ISA"
    better = changed(level(found), YES, FPROBE)
    assert features.same_feature(better).kind == HOLDS and "It does more" in features.same_feature(better).because


def test_older_kernels_do_not_decide_the_claim(found):
    older = changed(found, NO, KRETPROBE, release="v6.12")
    assert features.same_feature(older) == features.same_feature(found)


def test_numbers_and_tables_are_of_the_rows(found):
    n = features.numbers(found)
    assert n["features"] == len(FEATURES) and n["arm64-together"] == 2 and n["tried"] == 72
    assert (n["x86_64-whole"], n["x86_64-as-much"]) == (11, 7)
    assert n["x86_64-fprobe-fgraph-a-page-of-data"] == 120 and n["x86_64-fprobe-rethook-v6-12-a-page-of-data"] == 65472
    assert n["arm64-kretprobe-left-early"] == 10 and n["arm64-fgraph-left-both-hooked-said"] == "panic"
    assert "x86_64-kretprobe-tail-call" not in n and n["x86_64-kretprobe-tail-call-outcome"] == YES
    table = features.table(found)
    assert len(table) == len(ISAS) * len(FEATURES) and list(table.columns) == ["isa", "feature", "kretprobe", "fprobe"]
    shown = show(features, "fig-return-features", found)
    assert "in part: 120 bytes" in shown.text and all(len(line) <= 72 for line in shown.text.splitlines())
