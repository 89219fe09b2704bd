"""Chapter 5's mispredicted returns and stack traces: known relations of the rows, and sentences and a verdict that follow them."""

import pytest

from support.publish.guarded import problem
from tramplab.base.paths import checkout
from tramplab.returns.mechanisms import FEXIT, KRETPROBE, Build
from tramplab.unwind.stacks import RIGHT
from tramplab_book.studies.direct.stacks.stack_calls import traced
from tramplab_book.studies.returns.unwinding import predicted, unwound, unwound_calls
from tramplab_book.studies.returns.unwinding.predicted import ABOVE, HOOK, OWN
from tramplab_book.studies.returns.unwinding.unwound_calls import ENTRY, EXIT, FUNCTION, SLEEPING, TRAMPOLINE, UNHOOKED


@pytest.fixture(scope="module")
def returns():
    return predicted.rows()


@pytest.fixture(scope="module")
def traces():
    return unwound.rows()


def of(frame, isa, name, place, recovered=True):
    keys = {"isa": isa, "name": name, "place": place, "recovered": recovered}
    return frame[(frame[list(keys)] == list(keys.values())).all(axis=1)].iloc[0]


# --- Predicted


def test_by_which_instruction(returns):
    said = returns[returns["returns"] > 0].groupby(["isa", "part"])["by"].agg(set).to_dict()
    assert said["x86_64", OWN] == said["x86_64", HOOK] == said["arm64", OWN] == {"ret"}
    assert said["arm64", ABOVE] == {""} and "c.jr" in said["riscv64", OWN]


def test_numbers_about_prediction_follow_the_rows(returns):
    n = predicted.numbers(returns)
    assert n["arm64-kretprobe-v6-1-missed-above"] == 8 and n["arm64-kretprobe-missed-above"] == 0
    assert predicted.numbers(returns.assign(outer=5))["x86_64-fgraph-missed-above"] == 5


# --- Unwound


def test_the_control_is_not_hooked_and_every_case_has_its_places(traces):
    for (isa, name), own in traces.groupby(["isa", "name"]):
        places = set(own["place"])
        assert places >= {FUNCTION, SLEEPING}
        assert (places == {FUNCTION, SLEEPING}) == (name == UNHOOKED)
        assert (TRAMPOLINE in places) == (name not in (UNHOOKED, FEXIT)), (isa, name)
        assert of(traces, isa, name, SLEEPING)["boundaries"] == 2
        if name != UNHOOKED:
            assert {ENTRY, EXIT} <= places
    assert (traces["right"] + traces["doubled"] + traces["lost"] + traces["wrong"] == traces["boundaries"]).all()
    assert ((traces["worst"] == RIGHT) == (traces["right"] == traces["boundaries"])).all()


def test_k7_follows_the_rows(returns, traces, monkeypatch):
    assert not problem("k7", traces) and not problem("k7", traces[~traces["pair"]]), "two at once are not what is claimed"
    fine, bad = traces.assign(lost=0, wrong=0), traces.assign(lost=1)
    assert "riscv64-kretprobe-not-asked-asleep-lost == riscv64-kretprobe-not-asked-asleep-all" in problem("k7", fine)
    assert "x86_64-kretprobe-asleep-lost == 0 is not so: 1" in problem("k7", bad)
    monkeypatch.setattr(predicted, "rows", lambda: returns.assign(outer=0))
    assert "x86_64-kretprobe-missed-above == 8 is not so: 0" in problem("k7", traces)


# --- The page's own experiment


def test_a_return_hook_asked_for_by_riscv_as_the_page_has_it():
    """The cell of the page, executed: with the recovery nobody has, a sleeper's caller is there."""
    page = (checkout() / "book" / "kretprobe-unwinding.md").read_text("utf-8")
    cell = page.split("(return-unwound-change)=")[1].split("```{code-cell} ipython3\n")[1].split("```")[0]
    assert max(map(len, cell.splitlines())) <= 69
    exec(compile(cell, "page", "exec"), {})
    build = Build("riscv64", KRETPROBE, "v7.2")
    rows = traced(build.kernel(), unwound_calls.Case("x", "riscv64", (build,)).variant(), True)
    assert {r["caller"] for r in rows if r["where"] == "asleep"} == {RIGHT}
