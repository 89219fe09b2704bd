"""The study of what a probe on returns can tell and do: its sentences and its verdict follow the rows, whatever they say."""

import pytest

from tramplab.isa import ISAS
from tramplab.returns.features import FEATURES, YES
from tramplab.returns.mechanisms import LATEST, builds
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.returns import features


@pytest.fixture(scope="module")
def found():
    return features.rows()


def test_every_kernel_of_the_chapter_has_every_feature(found):
    for isa in ISAS:
        part = found[found["isa"] == isa]
        assert list(part["name"].unique()) == [build.name for build in builds(isa)]
        assert all(list(own["feature"]) == list(FEATURES) for _, own in part.groupby("name"))


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
