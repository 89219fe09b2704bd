"""The life of a record: what its flags and its site must be after every change, and after every write of it."""

import re

import pytest

from tramplab.base.errors import GuestFault
from tramplab.ftrace import releases
from tramplab.ftrace.slowpath import SlowPath
from tramplab.ftrace.steps import Write
from tramplab.isa import ISAS
from tramplab_book.studies.shared.merged_panels import merged
from tramplab_book.studies.variants.switching import record_life
from tramplab_book.studies.variants.switching.record_life import TRAP, flag

RISC = ("arm64", "riscv64")


@pytest.fixture(scope="module")
def frame():
    return record_life.rows()


def ends(frame, isa):
    """The last row of every step of an ISA."""
    return list(frame[(frame["isa"] == isa) & frame["last"]].itertuples(index=False))


@pytest.mark.parametrize("isa", ISAS)
def test_the_life_goes_up_and_down_again(frame, isa):
    steps = ends(frame, isa)
    assert [row.ops for row in steps] == [state.replace("+", "other") for state in record_life.LIFE]
    assert [row[6] for row in steps] == [0, 1, 2, 1, 0, 1, 2, 1, 0] and frame.columns[6] == "count"
    same = [(row.site, row.pointer, row.target, row.ran) for row in steps]
    assert same[0] == same[4] == same[8] and same[1] == same[3] and same[5] == same[7]
    # the newest ops runs first, a direct call last
    assert [row.ran for row in steps[:7]] == ["", "a", "other a", "a", "", "d", "a d"]


def test_flags_by_hand(frame):
    """The rules of __ftrace_hash_rec_update() and ftrace_check_record(), worked out for this life."""
    force, wanted, off = "in force", "wanted", "-"
    expected = {
        "x86_64": {
            "REGS": [off, off, force, off, off, force, force, force, off],
            "TRAMP": [off, force, off, force, off, force, off, force, off],
            "CALL_OPS": [off] * 9,
        },
        **{
            isa: {
                "REGS": [off] * 9,
                "TRAMP": [off, off, off, off, off, force, off, force, off],
                "CALL_OPS": [off, force, off, force, off, force, off, force, off],
            }
            for isa in RISC
        },
    }
    for isa, flags in expected.items():
        flags["DIRECT"] = [off, off, off, off, off, force, wanted, force, off]
        for name, states in flags.items():
            assert [flag(row.flags, name) for row in ends(frame, isa)] == states, (isa, name)


def test_x86_rewrites_five_bytes_behind_a_breakpoint(frame):
    rows = list(frame[frame["isa"] == "x86_64"].itertuples(index=False))
    for before, int3, tail, first in zip(rows[0::3], rows[1::3], rows[2::3], rows[3::3], strict=False):
        assert [row.write for row in (int3, tail, first)] == ["int3", "tail", "first byte"]
        assert int3.site == "cc" + before.site[2:] and tail.site == "cc" + first.site[2:]
        assert int3.leads == tail.leads == TRAP and first.leads != TRAP
        assert len(first.site) == 10 and (first.site[:2] == "e8") == bool(first.leads)
    assert len(rows) == 1 + 3 * 8


@pytest.mark.parametrize("isa", RISC)
def test_elsewhere_the_pointer_comes_first_and_no_call_ever_meets_a_stranger(frame, isa):
    rows = list(frame[frame["isa"] == isa].itertuples(index=False))
    assert [row.write for row in rows[1:]] == ["ops pointer", "instruction"] * 8
    for before, pointer, instruction in zip(rows[0::2], rows[1::2], rows[2::2], strict=False):
        assert pointer.site == before.site and pointer.pointer == instruction.pointer
        assert TRAP not in (pointer.leads, instruction.leads)
        # in between, a call runs what ran before or what will run
        assert set(pointer.ran.split()) <= {*before.ran.split(), *instruction.ran.split()}
    coming, going = rows[1], rows[7]
    assert (coming.pointer, coming.leads, coming.ran) == ("a", "", "")
    assert (going.pointer, going.leads, going.calls, going.ran) == ("nop", "ftrace_caller", "ftrace_stub", "")


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_seen_in_between_depends_on_the_order(isa, monkeypatch):
    """The writes of a plan the other way round: a call of half an instruction, or one through a pointer to nobody."""
    register = SlowPath.register

    def backwards(self, request):
        ops, steps = register(self, request)
        site = self.records[request.filter[0]].site
        places = [n for n, s in enumerate(steps) if isinstance(s, Write) and site.entry - 8 <= s.address < site.body]
        moved = dict(zip(places, reversed(places), strict=True))
        return ops, [steps[moved.get(n, n)] for n in range(len(steps))]

    monkeypatch.setattr(SlowPath, "register", backwards)
    subject = record_life._Watched(isa, releases.LATEST)
    if isa == "x86_64":
        with pytest.raises(GuestFault):
            subject.reach("a")
    else:
        subject.reach("a")
        first, second = subject.writes
        assert (first["write"], first["pointer"], first["calls"], first["ran"]) == (
            "instruction", "nop", "ftrace_stub", "",
        )  # fmt: skip
        assert (second["write"], second["ran"]) == ("ops pointer", "a")


def test_every_lane_has_a_state_at_every_step(frame):
    life, order = record_life.life(frame), record_life.order(frame)
    for lanes, steps in ((life, record_life.LIVED), (order, 2 + 3 * 3)):
        assert not lanes.duplicated(["isa", "step", "lane"]).any()
        assert len(lanes) == len(ISAS) * steps * lanes["lane"].nunique()
    x86 = order[order["isa"] == "x86_64"]
    site = list(x86["state"][x86["lane"] == "site"])
    rest = {"N": "INT3 + NOP", "C": "INT3 + call"}
    assert site == [
        "NOP",
        rest["N"],
        rest["C"],
        "call",
        *[rest["C"], rest["C"], "call"],
        "call",
        rest["C"],
        rest["N"],
        "NOP",
    ]


def test_isas_that_differ_nowhere_are_drawn_once(frame):
    """riscv64's direct call is out of reach, so its site stays where it is."""
    lanes = record_life.order(frame)
    assert list(dict.fromkeys(merged(lanes)["isa"])) == ["x86_64", "arm64, riscv64"]
    other = lanes.assign(state=lanes["state"].where(lanes.index != lanes.index[-1], "another"))
    assert list(dict.fromkeys(merged(other)["isa"])) == list(ISAS) == list(dict.fromkeys(merged(record_life.life(frame))["isa"]))


def test_numbers_are_those_of_the_rows(frame):
    n = record_life.numbers(frame)
    assert n["attached-total"] == n["records-total"] < n["seen-total"]
    spoilt = frame.assign(count=frame["count"] + (frame["step"] == 3))
    assert record_life.numbers(spoilt)["records-total"] > n["records-total"]
    fewer = frame[~((frame["isa"] == "arm64") & (frame["write"] == "ops pointer"))]
    assert [record_life.numbers(of)["arm64-writes"] for of in (frame, fewer)] == ["2", "1"]


def test_tables_have_the_rows(frame):
    last = record_life.table(frame)
    assert len(last) == len(ISAS) * len(record_life.LIFE) and len(record_life.writes(frame)) == len(frame)
    for flags, names in zip(last["flags"].fillna(""), frame["flags"][frame["last"]], strict=True):
        for name in record_life.FLAGS:
            state = flag(names, name)
            found = re.search(rf"(\(?)\b{name}\b", flags)
            assert (state == "-" and not found) or (state == "wanted") == bool(found[1])
