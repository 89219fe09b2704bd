"""The experiments behind claims s2, s4, s5 and s6: what is attached, what is left, and what a call then does."""

import re

import pytest

from support.publish.guarded import problem
from tramplab.isa import ISAS
from tramplab_book.studies.variants.switching import backing_out, switching
from tramplab_book.studies.variants.switching.attached import Hooked


@pytest.fixture(scope="module")
def steps():
    return switching.rows()


def test_every_callback_runs_once_and_the_result_is_right(steps):
    held = steps["ops"].str.contains("(", regex=False)
    for ops, ran in zip(steps["ops"][~held], steps["ran"][~held], strict=True):
        assert sorted(ops.split()) == sorted(ran.split())
        assert [x for x in ran.split() if x != "d"] == [x for x in reversed(ops.split()) if x != "d"], "newest first"
        assert "d" not in ran or ran.endswith("d")
    assert steps["right"].all() and held.any()


def test_an_idle_site_leads_nowhere(steps):
    idle = steps["ops"] == ""
    for column in ("target", "calls", "ran", "flags"):
        assert set(steps[column][idle]) <= {"", "TOUCHED", "TOUCHED MODIFIED"} and all(steps[column][~idle])
    assert set(steps["total"][idle] - steps["site"][idle] - steps["function"][idle]) == {0}
    pointer = steps.groupby("isa")[["release", "literal"]].apply(
        lambda part: set(part["release"][part["literal"] != ""])
    )
    assert pointer.to_dict() == {
        "x86_64": set(), "arm64": {"v6.4", "v6.12", "v6.16", "v7.2"}, "riscv64": {"v6.16", "v7.2"},
    }  # fmt: skip


def test_the_record_counts_what_is_attached(steps):
    assert [len(re.findall(r"\w", ops)) for ops in steps["ops"]] == list(steps["count"])
    flags = {ops: set(part["flags"].str.contains("REGS_EN")) for ops, part in steps.groupby("ops")}
    assert flags["a r"] == flags["r"] == {True} and flags["a"] == flags["a b"] == {False}


def test_registers_saved_are_those_of_the_trampolines(steps):
    """Against the frames known from each kernel's machine code, those of ftrace_caller."""
    plain = steps[(steps["sequence"] == "plain") & (steps["step"] == 1)].set_index(["isa", "release"])["saved"]
    assert set(plain["x86_64"]) == {8}  # rax rcx rdx rsi rdi r8 r9 rbp
    assert set(plain["arm64"]) == {10}  # x0-x8 and the frame pointer
    assert plain["riscv64"].to_dict() == {
        **dict.fromkeys(("v5.17", "v6.1", "v6.4"), 8),  # a0-a7
        **dict.fromkeys(("v6.12", "v6.16", "v7.2"), 9),  # and s0
    }


def test_sequences_that_a_release_never_had_have_no_rows(steps):
    had = steps.groupby("isa")["sequence"].agg(set).to_dict()
    assert all(set(switching.SEQUENCES) == sequences for sequences in had.values())
    direct = steps[steps["sequence"] == "direct"].groupby("isa")["release"].agg(set)
    assert {isa: min(releases, key=lambda r: [int(n) for n in r[1:].split(".")]) for isa, releases in direct.items()} == {
        "x86_64": "v5.17", "arm64": "v6.4", "riscv64": "v6.12",
    }  # fmt: skip


def test_what_is_not_restored_is_the_pointer_where_a_guarded_and_another_ops_met():
    """An account of its own: the pointer is chosen by the ops that leaves, so it differs where that one and the one that
    stays disagree about the guard."""
    frame = backing_out.rows()
    assert frame[["site", "text", "idle"]].all(axis=None)
    numbers = backing_out.numbers(frame)
    assert (numbers["removals"], numbers["removals-inexact"]) == (len(frame), sum(frame["literal"] == 0))
    for r in frame.itertuples():
        ops = r.ops.split()
        disagree = len(ops) == 2 and ops.count("g") == 1
        assert r.literal == (not (r.call_ops and disagree)), r
    lengths = frame["ops"].str.split().str.len()
    assert set(lengths) == {1, 2, 3} and not frame.duplicated(["isa", "release", "ops"]).any()
    newest = frame[(frame["isa"] == "x86_64") & (frame["release"] == "v7.2")]
    assert len(newest) == 4 + (16 - 1) + (3**3 + 3 * 3**2)  # of the letters a g r d, at most one d


def test_a_guest_that_differs_is_noticed(monkeypatch):
    """The comparison can fail: a byte left behind in the site, or anywhere else, by a removal."""
    detach = Hooked.detach
    for offset, column in ((0, "site"), (-64, "text")):

        def careless(self, place=-1, offset=offset):
            detach(self, place)
            at = self.function.site.entry + offset
            self.kernel.machine.poke(at, bytes([self.kernel.machine.read(at, 1)[0] ^ 1]))

        monkeypatch.setattr(Hooked, "detach", careless)
        row = backing_out._undo(Hooked("arm64", "v7.2"), ("a",))
        assert not row[column] and not row["idle"] and row["literal"]


def test_what_is_left_is_removed_first_one_first(monkeypatch):
    removed, detach = [], Hooked.detach

    def watched(self, place=-1):
        removed.append(self.letters.split()[place])
        detach(self, place)

    monkeypatch.setattr(Hooked, "detach", watched)
    row = backing_out._undo(Hooked("arm64", "v7.2"), ("a", "g", "d"))
    assert removed == ["d", "a", "g"] and row["idle"]


@pytest.mark.parametrize("isa", ISAS)
def test_a_state_is_reached_from_any_other(isa):
    subject = Hooked(isa, "v7.2")
    states = ["", "a", "a b", "b", "b g a", "", "a b"]
    for state in states:
        subject.reach(state)
        assert subject.letters == state
        assert subject.observe()["count"] == len(state.split())


def test_the_lanes_and_the_findings_follow_the_rows(steps):
    last = switching.newest(steps)
    assert not problem("guard-is-lost", last)
    lanes = switching.strip(last).groupby("isa", sort=False)["lane"].agg(lambda names: list(dict.fromkeys(names)))
    assert lanes["x86_64"] == ["site", "calls, both plain or other guarded", "calls, first guarded"]
    assert lanes["arm64"] == ["site", "calls, both plain", "calls, other guarded", "calls, first guarded"] == lanes["riscv64"]
    kept = last.assign(total=last["total"].where(last["sequence"] != "guarded stays", 100))
    assert "arm64-guarded-stays-3-added < 0.35" in problem("guard-is-lost", kept)
    assert not problem("direct-call-beside-ops", steps)
    cheap = steps.assign(total=steps["total"].where(steps["ops"] != "d a", 60))
    assert "12 * x86_64-direct-1-added < x86_64-direct-2-added" in problem("direct-call-beside-ops", cheap)
