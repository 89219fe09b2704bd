"""The time line of kretprobes: what releases are said to have is what their kernels do, and numbers follow the rows."""

import pytest

from tramplab import Bpf, Fprobe, Kernel, Kretprobe, TramplabError
from tramplab.ftrace import releases
from tramplab.ftrace.releases import features, nearest
from tramplab.isa import ISAS
from tramplab.returns.mechanisms import breaks
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.saved import probes_saved
from tramplab_book.studies.returns import return_left
from tramplab_book.studies.returns import return_releases as study
from tramplab_book.studies.returns.return_releases import ENTRY, FEXIT, FPROBE, KRETPROBE, NONE, SAID

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


def test_numbers_follow_the_rows(rows):
    n = study.numbers(rows)
    assert (n["removable"], n["together"], n["still"], n["riscv64-lost"], n["arm64-lost"]) == (
        "v6.15", "since v6.14", 3, "v6.10", "never"
    )  # fmt: skip
    there = study.numbers(rows.assign(state=rows["state"].mask(rows["what"] == FPROBE, "graph tracer")))
    assert (there["removable"], there["together"], there["riscv64-lost"]) == (SAID, "all along", "never")
    kept = rows.assign(state=rows["state"].mask((rows["what"] == KRETPROBE) & (rows["isa"] == "arm64"), NONE))
    assert study.numbers(kept)["still"] == 2


# --- What kernels still contain


@pytest.fixture(scope="module")
def left():
    return return_left.rows()


def test_shares_are_of_the_rows(left):
    for r in return_left.shares(left).itertuples():
        part = left[(left["isa"] == r.isa) & (left["release"] == r.release)].set_index("part")["bytes"]
        assert r.bytes == part["kretprobe"] + part["return hook"] and r.kprobe == part["kprobe"]
        assert r.percent == round(100 * r.bytes / (r.bytes + r.kprobe)) and 0 < r.percent < 50


def test_real_kernels_bear_the_line_out(rows):
    """All images have kretprobes, and none has fprobes before its release did; a build may leave them out."""
    packages = {package.name: package for package in plain()}
    for kernel in probes_saved.read()["kernels"]:
        package, parts = packages[kernel["name"]], kernel["parts"]
        assert "register_kretprobe" in parts["kretprobe"]
        there = nearest(package.release) in study.has(rows, package.isa, FPROBE)
        assert there or "register_fprobe" not in parts["fprobe"]
        entry = bool(features(ISAS[package.isa], nearest(package.release), {})["kprobes_on_ftrace"])
        assert ("kprobe_ftrace_handler" in parts["kprobe"]) == entry
