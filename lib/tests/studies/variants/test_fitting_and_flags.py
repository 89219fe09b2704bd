"""The runs behind claims s7 and s8: a trampoline that fits its callbacks, and the twins of a record's flags."""

import pytest

from support.publish.guarded import problem
from tramplab.ftrace import releases
from tramplab.ftrace.records import BITS, MODIFY_CALL, Record
from tramplab.isa import ISAS
from tramplab_book.studies.variants.switching import fitting, observer, record_flags, record_life


@pytest.fixture(scope="module")
def fitted():
    return fitting.rows()


@pytest.fixture(scope="module")
def flags():
    return record_flags.rows()


def test_every_observer_sees_others_come_and_go(fitted):
    for _, part in fitted.groupby(["isa", "release", "observer"]):
        first = part["ops"].iloc[0]
        assert list(part["ops"]) == [f"{first}{rest}" for rest in (
            "", " live", " live args", " live args all", " live args", " live", "",
        )]  # fmt: skip
        assert list(part["total"]) == list(part["total"])[::-1] and part["hypothetical"].all()
    sets = fitted[fitted["observer"] == "live"]
    assert set(sets.groupby("ops")["saves"].agg(set).map(tuple)) == {("live",), ("args",), ("regs",)}


def test_what_an_ops_was_promised_by_its_need():
    order = {need: {f for f in observer.FIELDS if fitting._is_promised(f, need)} for need in fitting.NEEDS}
    assert order["live"] == {"ip", "parent_ip", "op", "arg0", "arg1", "arg2"}
    assert order["args"] == set(observer.FIELDS) - {"full_regs"} and order["all"] == set(observer.FIELDS)


def test_a_smaller_set_lets_an_observer_read_rubbish_that_it_was_not_promised(fitted):
    assert set(fitted["promised"]) == {""} and (fitted["differs"][fitted["observer"] == "live"] != "").any()


def test_the_kernel_cannot_serve_all_registers_where_it_has_no_such_trampoline(fitted):
    missing = fitted[fitted["usual"].isna()]
    assert set(missing["isa"]) == {"arm64", "riscv64"} and missing["ops"].str.contains("all").all()


@pytest.mark.parametrize(
    ("column", "value"), [("seen", 2), ("right", False), ("promised", "arg0"), ("total", 10_000)]
)
def test_another_run_refutes_s7(fitted, column, value):
    assert not problem("s7", fitted) and problem("s7", fitted.assign(**{column: value}))
    assert problem("s7", fitted.assign(**{column: fitted[column].where(fitted["isa"] != "arm64", value)}))


def test_no_gain_with_few_arguments_is_no_gain(fitted):
    assert problem("s7", fitted.assign(total=fitted["total"].where(fitted["usual"].isna(), fitted["usual"])))


def test_numbers_of_fitting_are_differences(fitted):
    n = fitting.numbers(fitted)
    line = fitting.newest(fitted).set_index(["isa", "step"])
    for isa in ISAS:
        assert n[f"{isa}-live-fewer"] == str(line.loc[(isa, 1), "usual"] - line.loc[(isa, 1), "total"])


# -- the word of flags


def test_the_counter_is_as_wide_as_releases_say(flags):
    assert (flags["full"] == 2 ** flags["bits"] - 1).all()
    assert record_flags.widths() == {"up to v6.2": 23, "in v6.3": 21, "since v6.4": 19}
    assert record_flags.numbers(flags)["bits"] == "23 up to v6.2, 21 in v6.3, 19 since v6.4"


def test_twins_by_hand():
    """Words written out; the counter of v6.4 has 19 bits, in that of v6.2 the places of CALL_OPS count."""
    word = {name: 1 << bit for name, bit in BITS.items()}
    on = word["ENABLED"]
    direct = word["DIRECT"] | word["DIRECT_EN"]
    assert record_flags.differing(on | direct | 1, on | word["DIRECT"] | 2, 19) == "DIRECT"
    assert record_flags.differing(on | word["DIRECT"] | 2, on | word["DIRECT"] | 3, 19) == ""
    assert record_flags.differing(on | 2, on | word["CALL_OPS"] | word["CALL_OPS_EN"] | 1, 19) == "CALL_OPS"
    assert record_flags.differing(on | 2, on | word["TRAMP"] | word["TRAMP_EN"] | 1, 23) == "TRAMP"
    assert record_flags.differing(on | 1, 0, 19) == "count"


def test_a_site_is_written_again_with_the_same_bytes_only_for_call_ops(flags):
    again = flags[flags["same"] > 0]
    assert set(again["isa"]) == {"arm64", "riscv64"} and again["twins"].str.contains("CALL_OPS").all()
    alone = flags[flags["twins"] == "CALL_OPS"]
    assert len(alone) and (alone["same"] == alone["rewritten"]).all()


def test_another_run_refutes_s8(flags, monkeypatch):
    life = record_life.rows()
    assert not problem("s8", life)
    strange = (flags["isa"] == "x86_64") & (flags["twins"] == "")
    for rewritten in (0, flags["cases"], flags["rewritten"] + strange):
        monkeypatch.setattr(record_flags, "rows", lambda rewritten=rewritten: flags.assign(rewritten=rewritten))
        assert problem("s8", life)


def test_a_slow_path_that_rewrites_too_much_is_seen(monkeypatch):
    """The comparison is with the bytes that a plan writes, not with what the records say."""
    settle = Record.settle

    def eager(self):
        settle(self)
        return MODIFY_CALL if self.count else settle(self)

    monkeypatch.setattr(Record, "settle", eager)
    rows = record_flags._told_apart("arm64", releases.LATEST)
    assert any(row["twins"] == "" and row["rewritten"] for row in rows)
