"""Chapter 5's mispredicted returns and stack traces: known relations of the rows, and sentences and a verdict that follow them."""

import pytest

from support.publish.guarded import problem
from tramplab.base.paths import checkout
from tramplab.base.width import INDENTED_WIDTH
from tramplab.isa import ISAS
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK, Build, newest
from tramplab.unwind.stacks import DOUBLED, MISSING, RIGHT, WRONG
from tramplab_book.publish.phrases import MARK
from tramplab_book.publish.table import text_table
from tramplab_book.studies.direct.stacks.stack_calls import traced
from tramplab_book.studies.returns.unwinding import predicted, unwound, unwound_calls
from tramplab_book.studies.returns.unwinding.predicted import ABOVE, HOOK, OWN
from tramplab_book.studies.returns.unwinding.unwound_calls import ENTRY, EXIT, FUNCTION, PLACES, SLEEPING, TRAMPOLINE, UNHOOKED


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


def test_a_hooked_return_is_mispredicted_itself_and_its_callers_unless_the_trampoline_is_level(returns):
    """Read from the trampolines: x86-64's return_to_handler calls over itself, arm64's BRK comes back by ERET; riscv64's
    return_to_handler leaves by a call, and all others by a second return."""
    known = predicted.whole(returns)
    level = (known["left"] == 0) == (known["outer"] == 0)
    assert level.all() and set(known["outer"]) == {0, 8} and (known["own"] == known["settled"]).all()
    hooked = known[known["mechanism"] != FEXIT]
    assert (hooked[OWN] == 1).all() and (hooked["own"] >= 1).all()
    by = known.set_index(["isa", "name"])
    assert by.loc[("x86_64", FGRAPH), "outer"] == by.loc[("arm64", KRETPROBE), "outer"] == 0
    assert by.loc[("arm64", "kretprobe v6.1"), "outer"] == by.loc[("arm64", FGRAPH), "outer"] == 8
    assert by.loc[("riscv64", FPROBE), "left"] == 1 and by.loc[("riscv64", KRETPROBE), "left"] == -1
    assert by.loc[("arm64", KRETPROBE), "leaves"] == "eret" and by.loc[("x86_64", FEXIT), "own"] == 0


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


def test_a_sleeper_s_caller_is_there_where_somebody_asks_for_it(traces):
    """riscv64's graph tracer keeps another place than is asked for, and its unwinder asks for no return hook."""
    for isa in ISAS:
        for mechanism in (KRETPROBE, FGRAPH, FPROBE, *((RETHOOK,) if isa != "arm64" else ())):
            name = newest(isa)[mechanism].name
            asked, silent = (of(traces, isa, name, SLEEPING, recovered) for recovered in (True, False))
            lost = isa == "riscv64" and mechanism in (FGRAPH, FPROBE)
            assert asked["worst"] == (WRONG if lost else RIGHT) and silent["worst"] == WRONG
            assert bool(asked["real"]) == (isa != "riscv64" or lost) != bool(silent["real"])


def test_handlers_at_the_return(traces):
    """x86-64's are right by ORC; arm64's return_to_handler has no record, a kretprobe's exception has; riscv64's trampolines have
    none that lead to the caller."""
    worst = {(isa, m): of(traces, isa, b.name, EXIT)["worst"] for isa in ISAS for m, b in newest(isa).items()}
    assert {m for isa, m in worst if isa == "x86_64" and worst[isa, m] != RIGHT} == set()
    assert {m for isa, m in worst if isa == "arm64" and worst[isa, m] != RIGHT} == {FGRAPH, FPROBE}
    assert {m for isa, m in worst if isa == "riscv64" and worst[isa, m] == RIGHT} == {FEXIT}
    assert of(traces, "arm64", FEXIT, SLEEPING)["worst"] == DOUBLED


def test_two_on_one_function(traces):
    asleep = traces[traces["pair"] & (traces["place"] == SLEEPING)].set_index(["isa", "name"])["worst"].to_dict()
    assert asleep == {
        ("x86_64", "fgraph + kretprobe"): RIGHT,
        ("x86_64", "kretprobe + fgraph"): WRONG,
        ("arm64", "fgraph + kretprobe"): RIGHT,
        ("arm64", "kretprobe + fgraph"): RIGHT,
    }


def test_what_no_unwinder_does_is_marked(traces):
    names = set(zip(traces["isa"], unwound_calls.named(traces), strict=True))
    assert {("riscv64", "kretprobe" + MARK), ("riscv64", "kretprobe, not asked"), ("arm64", "kretprobe")} <= names
    assert {("x86_64", "fgraph, not asked" + MARK), ("arm64", FEXIT), ("riscv64", UNHOOKED)} <= names


def test_k7_follows_the_rows(returns, traces, monkeypatch):
    assert not problem("k7", traces) and not problem("k7", traces[~traces["pair"]]), "two at once are not what is claimed"
    fine, bad = traces.assign(lost=0, wrong=0), traces.assign(lost=1)
    assert "riscv64-kretprobe-not-asked-asleep-lost == riscv64-kretprobe-not-asked-asleep-all" in problem("k7", fine)
    assert "x86_64-kretprobe-asleep-lost == 0 is not so: 1" in problem("k7", bad)
    monkeypatch.setattr(predicted, "rows", lambda: returns.assign(outer=0))
    assert "x86_64-kretprobe-missed-above == 8 is not so: 0" in problem("k7", traces)


def test_tables_fit_and_charts_draw(returns, traces):
    for study, frame in ((predicted, returns), (unwound, traces)):
        (figure,) = study.FIGURES
        assert text_table(figure.table(frame), INDENTED_WIDTH, split="isa") and figure.chart(frame)
        assert len(figure.question) <= 66
    assert set(traces["place"]) == set(PLACES) and set(traces["worst"]) == {RIGHT, DOUBLED, MISSING, WRONG}


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
