"""The time line of kretprobes: what releases are said to have is what their kernels do, and the verdict on k6 follows the rows."""

import pytest

from tramplab import Bpf, Fprobe, Kernel, Kretprobe, TramplabError
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.publish.claims.claims import FAILS, HOLDS
from tramplab.studies.returns import return_left
from tramplab.studies.returns import return_releases as study
from tramplab.studies.returns.mechanisms import breaks
from tramplab.studies.returns.migration.migrated import SAME
from tramplab.studies.returns.return_releases import ENTRY, FEXIT, FPROBE, KRETPROBE, LATEST, NONE, SAID
from tramplab.vmlinux.saved import probes_saved

every_isa = pytest.mark.parametrize("isa", ISAS)
#: What is executed of a call -> the state that only kernels have which execute it.
SIGNS = {
    ENTRY: {"kprobe_ftrace_handler": "ftrace", "lab_trap_entry": "breakpoint"},
    KRETPROBE: {"recycle_rp_inst": "own list", "rethook_trampoline_handler": "return hook"},
    "kretprobe return": {"kretprobe_trap": "exception"},
    FPROBE: {"fprobe_handler": "return hook", "fprobe_fgraph_entry": "graph tracer"},
    FEXIT: {"__bpf_prog_exit_recur": "direct call"},
}


@pytest.fixture(scope="module")
def rows():
    return study.rows()


def states(rows, isa, release):
    part = rows[(rows["isa"] == isa) & (rows["release"] == release)]
    return dict(zip(part["what"], part["state"], strict=True))


def executed(kernel, request):
    """The functions that a call executes with this attached; raises TramplabError where the kernel has no such thing."""
    with kernel.attached(kernel.function("one_arg"), request):
        return set(kernel.call("one_arg", 1).counts.by_symbol)


@every_isa
def test_there_is_a_row_for_every_release_and_lane(isa, rows):
    part = rows[rows["isa"] == isa]
    assert len(part) == len(releases.known()) * len(study.LANES) and not part.duplicated(["release", "what"]).any()
    assert set(part["sure"]) <= {"read", "inferred", "recalled", "-"}


@every_isa
@pytest.mark.parametrize("release", releases.shown())
def test_a_kretprobe_does_what_the_line_says(isa, release, rows):
    kernel, said = Kernel(isa, release), states(rows, isa, release)
    behind = said[ENTRY] == NONE
    assert behind == ((isa, release) == ("riscv64", "v6.12"))
    if behind:
        with pytest.raises(TramplabError, match="takes no kretprobe at a function that ftrace can trace"):
            executed(kernel, Kretprobe(breakpoint=True))
    ran = executed(kernel, Kretprobe(breakpoint=breaks(isa, release), untraced=behind))
    assert "lab_kretprobe_exit" in ran
    for what in (*[ENTRY][behind:], KRETPROBE, "kretprobe return"):
        for sign, state in SIGNS[what].items():
            assert (sign in ran) == (said[what] == state), (what, sign)
    assert (said["kretprobe pool"] == "objpool") == ("objpool_push" in ran)


@every_isa
@pytest.mark.parametrize("release", releases.shown())
def test_what_is_there_sees_the_return_and_what_is_not_is_refused(isa, release, rows):
    kernel, said = Kernel(isa, release), states(rows, isa, release)
    for what, request, handler, refused in (
        (FPROBE, Fprobe(entry=False, exit=True), "lab_fprobe_exit", "has no fprobes"),
        (FEXIT, Bpf(fexit=1), "lab_bpf_count", "has no direct calls"),
    ):
        if said[what] == NONE:
            with pytest.raises(TramplabError, match=refused):
                executed(kernel, request)
        elif what == FPROBE or kernel.features["bpf"]:  # the lab knows what guards a program only in newer releases
            ran = executed(kernel, request)
            assert handler in ran and {SIGNS[what][sign] for sign in SIGNS[what] if sign in ran} == {said[what]}


def test_releases_that_are_alike_are_one_step(rows):
    """And no two steps next to each other are."""
    drawn = study.drawn(rows)
    wide = drawn.pivot(index="step", columns=["isa", "what"], values="state").reindex(drawn["step"].unique())
    assert not (wide == wide.shift()).all(axis="columns").any()
    firsts = {step: step.split(" to ") for step in wide.index}
    for step, span in firsts.items():
        for isa in ISAS:
            assert states(rows, isa, span[0]) == states(rows, isa, span[-1]) == wide.loc[step, isa].to_dict()


def test_words_for_releases():
    assert study.when(["v5.17"]) == "up to v5.17" and study.when(["v6.1"]) == "in v6.1"
    assert study.when(["v6.1", "v6.2", "v7.1"]) == "from v6.1 to v6.2 and in v7.1"


def test_the_answer_follows_the_rows(rows):
    said = study.answer(rows)
    assert "on arm64 since v6.14, on riscv64 from v6.2 to v6.9 and since v6.14;" in said and "kretprobes since v6.14." in said
    assert "on return hooks on x86-64 and riscv64 and with a list of their own on arm64" in said
    assert said.endswith("took no kretprobe on riscv64 from v6.10 to v6.15.")
    assert "took no kretprobe" not in study.answer(rows.assign(state=rows["state"].mask(rows["what"] == ENTRY, "breakpoint")))
    never = rows.assign(state=rows["state"].where((rows["isa"] != "arm64") | (rows["what"] != FPROBE), NONE))
    assert "on arm64 never," in study.answer(never) and "beside their kretprobes never." in study.answer(never)


def test_the_verdict_on_k6_follows_the_rows(rows):
    """It is of users that move unchanged; where an fprobe is missing, they cannot. The lack of one is told beside it."""
    users = study.fields_read()
    verdict = study.not_at_once(rows, users)
    assert verdict.kind == HOLDS and verdict.numbers["first without"] == "v6.15" == study.numbers(rows)["removable"]
    assert "Up to v6.13 some ISA" in verdict.because and f"{LATEST} still has kretprobes." in verdict.because
    same = users.assign(outcome=SAME)
    assert str(study.not_at_once(rows, same)) == "depends on the release"
    there = rows.assign(state=rows["state"].mask(rows["what"] == FPROBE, "graph tracer"))
    assert study.not_at_once(there, same).kind == FAILS
    assert study.not_at_once(there, users).kind == HOLDS
    assert study.not_at_once(there, users).numbers["first without"] == SAID
    gone = rows.assign(state=rows["state"].mask(rows["what"] == FPROBE, NONE))
    assert study.not_at_once(gone, same).kind == HOLDS


# --- What kernels still contain


@pytest.fixture(scope="module")
def left():
    return return_left.rows()


def test_shares_are_of_the_rows(left):
    for r in return_left.shares(left).itertuples():
        part = left[(left["isa"] == r.isa) & (left["release"] == r.release)].set_index("part")["bytes"]
        assert r.bytes == part["kretprobe"] + part["return hook"] and r.kprobe == part["kprobe"]
        assert r.percent == round(100 * r.bytes / (r.bytes + r.kprobe)) and 0 < r.percent < 50


def test_what_is_said_of_the_kernels_follows_the_rows(left):
    said = return_left.answer(left)
    n = return_left.numbers(left)
    assert f"{n['x86_64-v7-2-bytes']} bytes on x86-64" in said and f"{n['x86_64-v7-2-times']} times as many bytes" in said
    none = left.assign(bytes=left["bytes"].where(left["part"] != "fprobe", 0))
    assert "fprobes have 0.0 times as many bytes" in return_left.answer(none)


def test_real_kernels_bear_the_line_out(monkeypatch, rows):
    """And would not, if one had fprobes before its release did, or no kretprobes."""
    assert return_left.still_there().agrees
    monkeypatch.setattr(study, "rows", lambda: rows.assign(state=rows["state"].mask(rows["what"] == FPROBE, NONE)))
    assert not return_left.still_there().agrees
    monkeypatch.undo()
    known = probes_saved.read()
    known["kernels"][0]["parts"]["kretprobe"] = {}
    monkeypatch.setattr(probes_saved, "read", lambda: known)
    assert not return_left.still_there().agrees
