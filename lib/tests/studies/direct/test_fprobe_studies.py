"""BPF through an fprobe: known relations of the rows, and verdicts that follow them."""

import pytest

from tramplab.isa import ISAS
from tramplab_book.publish import published
from tramplab_book.publish.phrases import MARK
from tramplab_book.studies.direct.fprobe import fprobe_losses, fprobe_parts, stages
from tramplab_book.studies.direct.fprobe.stages import (
    DIRECT,
    OPTIMISED,
    SEQUENCE,
    UNOPTIMISED,
    WITHOUT_NODE,
    Stage,
)
from tramplab_book.studies.direct.returns import signatures

GUARDED = "program, guarded"


@pytest.fixture(scope="module")
def parts():
    return fprobe_parts.rows()


@pytest.fixture(scope="module")
def losses():
    return fprobe_losses.rows()


def test_each_part_is_there_exactly_where_its_reason_is(parts):
    """The list's functions run where the list is walked, the return trampoline where the return is hooked, and so on."""
    for isa in ISAS:
        for stage in stages.every():
            by = fprobe_parts.chosen(parts, isa, stage).set_index("part")["instructions"]
            assert (by["list function"] > 0) == stage.walk
            assert (by["return hook"] > 0) == stage.node
            assert by["copying"] > 0 and by["handler"] > 0 and by["fprobe"] > 0 and by[GUARDED] > 0
        direct = fprobe_parts.chosen(parts, isa, DIRECT).set_index("part")["instructions"]
        assert list(direct[direct > 0].index) == [fprobe_parts.TRAMPOLINE, GUARDED]


def test_what_goes_around_the_program_is_the_same_in_every_way(parts):
    """Nothing but the way differs; the pairs of kernels that are compared have the same guards."""
    for isa, rows in parts[parts["part"] == GUARDED].groupby("isa"):
        assert rows["instructions"].nunique() == 1, isa


def test_stages_differ_in_what_they_are_named_for():
    """Per ISA the frames and symbols tell: all registers, the list function, the return trampoline, and whose node it is."""
    for isa in ISAS:
        for stage in stages.every():
            run, _ = stages.run(isa, stage)
            names = run.symbols
            assert ("ftrace_ops_list_func" in names) == stage.walk
            assert ("arch_rethook_trampoline" in names) == stage.hook
            assert ("rethook_try_get" in names) == stage.node
            assert ("objpool_push" in names) == stage.ring
        frames = {regs: stages.run(isa, Stage(regs, False, False, False))[0].frame.written for regs in (True, False)}
        assert frames[True] > frames[False]


def test_the_waterfall_ends_at_the_direct_call(parts):
    steps = fprobe_parts.steps(parts)
    for isa, rows in steps.groupby("isa"):
        assert rows["instructions"].sum() == fprobe_parts.total(parts, isa, DIRECT)
        assert rows["instructions"].iloc[0] == fprobe_parts.total(parts, isa, UNOPTIMISED)
        assert len(rows) == len(SEQUENCE) + 2 and rows["step"].iloc[0].endswith(MARK)
    assert SEQUENCE[-1] == OPTIMISED


def test_alone_is_what_two_stages_differ_by(parts):
    for r in fprobe_parts.alone(parts).itertuples():
        (reason,) = (k for k, name in stages.REASONS.items() if name == r.reason)
        without = Stage(**{k: k != reason for k in stages.REASONS})
        only = Stage(**{k: k == reason for k in stages.REASONS})
        assert r.off == fprobe_parts.total(parts, r.isa, UNOPTIMISED) - fprobe_parts.total(parts, r.isa, without)
        assert r.back == fprobe_parts.total(parts, r.isa, only) - fprobe_parts.total(parts, r.isa, OPTIMISED)
        assert f"{-r.off:+d} / {r.back:+d}" in fprobe_parts._steps_table(parts).set_index("reason").loc[r.reason, r.isa]


def test_what_is_left_adds_up(parts):
    left = fprobe_parts.left(parts)
    n = fprobe_parts.numbers(parts)
    for isa in ISAS:
        over = left[left["isa"] == isa]["instructions"].sum()
        assert over == n[f"{isa}-over"] == n[f"{isa}-optimised-added"] - n[f"{isa}-direct-added"] > 0


def changed(parts, part: str, factor: float, **where):
    """The rows with one part of some of them made larger or smaller."""
    frame = parts.copy()
    hit = frame["part"] == part
    for name, value in where.items():
        hit &= frame[name] == value
    frame.loc[hit, "instructions"] = (frame.loc[hit, "instructions"] * factor).round().astype(int)
    return frame


def test_copying_is_what_the_handler_executes_more_than_for_a_function_without_arguments(parts):
    copied = signatures.adapters().set_index(["isa", "way", "arguments"])["instructions"]
    n, more = fprobe_parts.numbers(parts), fprobe_parts.numbers(changed(parts, "copying", 2))
    for isa in ISAS:
        copying, around = f"{isa}-copying-over", f"{isa}-handler-over"
        assert n[copying] == copied[isa, signatures.COPY, 2] > n[f"{isa}-stored"] == copied[isa, signatures.FRAME, 2]
        assert more[copying] == 2 * n[copying] and more[around] == n[around]


def test_ratios_are_of_the_same_calls(parts, losses):
    for r in losses.itertuples():
        stage = fprobe_losses.WAYS[r.way]
        ratio = fprobe_parts.total(parts, r.isa, stage) / fprobe_parts.total(parts, r.isa, DIRECT)
        assert r.instructions == pytest.approx(ratio, abs=0.006)
    assert list(fprobe_losses.WAYS.values()) == [*SEQUENCE, WITHOUT_NODE, Stage(regs=False, hook=False)]


def test_published_rounds_stand_where_they_belong(losses):
    """What they add to an event, by hand from the published figures; each beside one way, on the board's ISA."""
    get = published.get
    found = losses[losses["round"] != ""].set_index("round")
    assert list(found["isa"].unique()) == ["arm64"] and len(found) == len(fprobe_losses.ROUNDS)
    slow, direct = get("arm64-rfc-fprobe-no-optimisation").value, get("arm64-rfc-direct-calls").value
    assert found.loc["RFC, unoptimised", "published"] == pytest.approx(slow / (100 - slow) / (direct / (100 - direct)), abs=0.01)
    xu = {name: 1 / get(f"arm64-pi4-xu-trig-{name}").value for name in ("base", "fentry-indirect", "fentry-direct")}
    ratio = (xu["fentry-indirect"] - xu["base"]) / (xu["fentry-direct"] - xu["base"])
    assert found.loc["Xu", "published"] == pytest.approx(ratio, abs=0.01)


def test_published_ratios_have_the_order_of_the_counted_ones(losses):
    found = losses[losses["round"] != ""].sort_values("published")
    assert found["instructions"].is_monotonic_increasing
    assert list(found[found["published"] > found["instructions"]]["round"]) == ["Florent"]
    n = fprobe_losses.numbers(losses.assign(published=9.0))
    assert n["florent-published"] == "9.00" and n["arm64-declined-ratio"] == fprobe_losses.numbers(losses)["arm64-declined-ratio"]


def test_every_way_but_the_direct_call_is_marked(parts, losses):
    assert (parts["hypothetical"] == (parts["way"] != DIRECT)).all() and losses["hypothetical"].all()
    for study in (fprobe_parts, fprobe_losses):
        assert all(figure.hypothetical for figure in study.FIGURES)
    assert all(way.endswith(MARK) for way in fprobe_losses.table(losses)["way"])
    assert all(name.endswith(MARK) or name == DIRECT for name in fprobe_parts.ways(parts)["hook"])
