"""The studies of sparse register structures: what their rows must say of each other, and verdicts that follow from them."""

import pytest

from support.publish.guarded import problem
from tramplab.isa import ISAS
from tramplab.sparsity.consumers.matrix import NOT_ASKED, RIGHT, WRONG
from tramplab.sparsity.structures.classify import CONSTANT, GARBAGE, TRUE
from tramplab_book.studies.sparsity import consumer_charts
from tramplab_book.studies.sparsity import context_rewrite as rewritten
from tramplab_book.studies.sparsity import register_consumers as consumers
from tramplab_book.studies.sparsity import register_frames as frames
from tramplab_book.studies.sparsity import register_walks as walks


@pytest.fixture(scope="module")
def filled():
    return frames.rows()


@pytest.fixture(scope="module")
def found():
    return consumers.rows()


def changed(frame, column, value, **where):
    some = frame.copy()
    chosen = some.index == some.index
    for name, wanted in where.items():
        chosen &= some[name].isin(wanted if isinstance(wanted, tuple) else (wanted,))
    assert chosen.any()
    some.loc[chosen, column] = value
    return some


# -- who fills


def test_every_register_has_one_line_with_every_provider(filled):
    for (isa, *_), part in filled[filled["register"] != ""].groupby(["isa", "release", "provider"]):
        assert sorted(part["register"]) == sorted(frames.every(isa))


def test_an_argument_that_is_not_there_denies_p1(filled):
    assert not problem("p1", filled)
    one = changed(filled, "kind", GARBAGE, isa="arm64", provider=frames.ARGUMENTS, register="x7")
    assert "max(x86_64-needed-lost, arm64-needed-lost, riscv64-needed-lost) == 0 is not so: 1" in problem("p1", one)
    more = changed(filled, "kind", TRUE, isa="riscv64", provider=frames.ARGUMENTS, register="s1")
    assert problem("p1", more) == "max(x86_64-beyond, arm64-beyond, riscv64-beyond) == 0 is not so: 1 and 0"
    none = changed(filled, "kind", CONSTANT, provider=frames.ALL, register="r15")
    assert problem("p1", none) == "x86_64-ftrace_regs_caller-true == x86_64-registers is not so: 19 and 20"


def test_what_is_shown_is_the_newest_with_each_provider(filled):
    some = frames.newest(filled)
    assert (some.groupby(["isa", "provider"])["release"].nunique() == 1).all()
    old = some[some["provider"] == frames.ALL].groupby("isa")["release"].first()
    assert dict(old) == {"x86_64": "v7.2", "arm64": "v6.1", "riscv64": "v6.4"}


# -- who reads


def test_a_wrong_answer_differs_and_a_right_one_does_not(found):
    plain = found[~found["consumer"].isin((consumers.CHAIN,)) & (found["outcome"] != NOT_ASKED)]
    assert (plain[plain["outcome"] == RIGHT]["said"] == plain[plain["outcome"] == RIGHT]["should"]).all()
    assert (plain[plain["outcome"] == WRONG]["said"] != plain[plain["outcome"] == WRONG]["should"]).all()


def test_where_no_mode_is_wrong_p3_fails(found):
    assert not problem("p3", found)
    for isa, release in (("riscv64", "v7.2"), ("arm64", "v6.16")):
        repaired = changed(found, "outcome", RIGHT, way="partial", consumer=consumers.MODE, isa=isa, release=release)
        assert "-user-mode == 'wrong' is not so" in problem("p3", repaired)


def test_a_set_that_is_not_full_and_given_out_is_held_by_p2(found, monkeypatch):
    """In the release of its day, and in the newest at the return."""
    assert not problem("p2", found)
    for provider, wrong in ((consumers.BACK, "NULL"), (consumers.ENTRY, "not full")):
        outcome = WRONG if wrong == "not full" else RIGHT
        now = changed(found, "outcome", outcome, consumer="full", provider=provider, isa="x86_64", release="v7.2")
        now = changed(now, "said", "0x0", consumer="full", provider=provider, isa="x86_64", release="v7.2")
        assert f"x86_64-v7-2-{provider}-gives == " in problem("p2", now) and problem("p2", now).count(wrong) > 0
    then = consumers.at_the_time()
    given = changed(changed(then, "outcome", RIGHT, isa="riscv64"), "said", "0x1", isa="arm64", consumer="full")
    monkeypatch.setattr(consumers, "at_the_time", lambda: given)
    assert "riscv64-v6-5-ftrace_caller-gives == 'not full' is not so: full" in problem("p2", found)
    assert "arm64-v6-5-ftrace_caller-gives == 'NULL' is not so: full" in problem("p2", found)


def test_what_all_registers_do_not_serve_follows_the_rows(found):
    assert consumers.unserved(found) == {
        "x86_64": [],
        "arm64": ["user-mode", "callchain", "interrupts", "conditions", "emulate-branch"],
        "riscv64": ["user-mode", "callchain", "interrupts"],
    }
    full = found.copy()
    asked = (full["provider"] == consumers.ALL) & (full["way"] == "pt_regs") & (full["outcome"] != NOT_ASKED)
    full.loc[asked, "outcome"] = RIGHT
    assert consumers.numbers(full)["arm64-all-fails"] == 0 < consumers.numbers(found)["arm64-all-fails"]


def test_what_accessors_and_a_converted_pt_regs_are_asked_is_compared_question_by_question(found):
    n = consumers.numbers(found)
    assert n["same-asked"] == n["accessors-asked"] == 4 * len(ISAS) and n["more-asked"] + n["same-asked"] == n["breakpoint-asked"]
    lost = changed(found, "outcome", WRONG, isa="arm64", way="partial", consumer="argument", provider=consumers.ENTRY)
    assert consumers.numbers(lost)["same-right"] == n["same-right"] - 1 and consumers.numbers(lost)["more-right"] == n["more-right"]


def test_what_is_read_is_marked_and_nothing_else(found):
    trap = consumers.of_trap(found)
    crosses = consumer_charts.reads(trap)
    some = crosses[(crosses["isa"] == "riscv64") & (crosses["consumer"] == "user-mode")]
    assert list(some["fields"]) == ["status"]
    assert set(crosses["isa"]) == set(ISAS) and not crosses.duplicated(["isa", "fields", "consumer"]).any()
    roles = consumer_charts.roles(trap).set_index(["isa", "consumer", "role"])["read"]
    filled = {(isa, consumer, role) for (isa, consumer, role), read in roles.items() if read == consumer_charts.READS}
    for isa, consumer, wanted in (("riscv64", "user mode", {"mode"}), ("arm64", "callchain", {"mode", "ip", "fp"})):
        assert {role for one, other, role in filled if (one, other) == (isa, consumer)} == wanted
    assert {role for _, consumer, role in filled if consumer == "arguments"} == {"args"}


def test_the_chart_shows_the_worst_of_a_group_of_registers():
    rows = frames.newest(frames.rows())
    cells = frames.drawn(frames.rows()).set_index(["isa", "provider", "role"])["kind"]
    assert len(cells) == (len(ISAS) * len(set(frames.PROVIDERS.values())) - 1) * len(frames.ROLES)
    assert ("arm64", "kprobe") not in set(zip(*[cells.index.get_level_values(n) for n in ("isa", "provider")], strict=True))
    entry = rows[(rows["isa"] == "x86_64") & (rows["provider"] == frames.ARGUMENTS)].set_index("register")["kind"]
    assert set(entry[list(ISAS["x86_64"].args)]) == {TRUE} == {cells["x86_64", "entry", "args"]}
    back = rows[(rows["isa"] == "x86_64") & (rows["provider"] == frames.RETURN)].set_index("register")["kind"]
    assert {TRUE, GARBAGE} == set(back[list(ISAS["x86_64"].args)]) and cells["x86_64", "return", "args"] == GARBAGE


# -- who is found


def test_a_walk_that_finds_a_stranger_denies_p9():
    rows = walks.rows()
    assert not problem("p9", rows)
    for column, value, start in (("strange", "somebody", "registers"), ("found", 0, "registers"), ("found", 1, "nowhere")):
        assert "unlike == 0 is not so" in problem("p9", changed(rows, column, value, isa="arm64", start=start))


def test_what_chance_decides_is_said_to_be_so(found):
    rows = walks.rows()
    stale = found[(found["consumer"] == consumers.CHAIN) & (found["outcome"] == "garbage")]
    chance = rows[rows["outcome"] == walks.CHANCE]
    assert set(zip(chance["isa"], chance["release"], chance["view"], strict=True)) == set(
        zip(stale["isa"], stale["release"], stale["view"], strict=True)
    )


# -- who is rewritten


def test_a_program_that_computes_another_thing_is_counted():
    rows = rewritten.rows()
    assert rewritten.numbers(rows)["wrong-total"] == 0
    other = changed(rows, "same", False, program="first-argument", isa="riscv64")
    assert rewritten.numbers(other)["wrong-total"] == 1
    assert rewritten.numbers(changed(rows, "outcome", rewritten.ACCEPTED))["wrong-total"] > 0, "what was refused computes nothing"


def test_what_reads_a_field_that_nobody_fills_is_refused_for_it(filled):
    """The fields for which programs are refused, beside what was found of them."""
    rows, some = rewritten.rows(), frames.newest(filled)
    refused = rows[rows["outcome"] == "nobody fills it"]
    assert len(refused) >= 15
    for isa, part in refused.groupby("isa"):
        held = some[(some["isa"] == isa) & (some["provider"] == frames.ARGUMENTS) & some["kind"].isin((TRUE,))]
        assert not set(part["reads"]) & set(held["slot"])
