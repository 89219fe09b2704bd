"""BPF on a kprobe: known relations of the rows, published ratios by hand, and a verdict that follows the rows."""

import pytest

from tramplab.isa import ISAS
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import saved
from tramplab_book.publish import published
from tramplab_book.publish.phrases import MARK
from tramplab_book.studies.direct.fprobe import fprobe_losses
from tramplab_book.studies.direct.kprobe import kprobe_losses, kprobe_ways
from tramplab_book.studies.direct.kprobe.kprobe_ways import BREAKPOINT, ROUNDS, UNOPTIMISED_WAY
from tramplab_book.studies.kernels.real_kernels import PART


@pytest.fixture(scope="module")
def rows():
    return kprobe_losses.rows()


def test_the_same_fprobes_are_compared(rows):
    """With direct call and fprobes of the page on those."""
    other = fprobe_losses.rows().drop_duplicates(["isa", "way"]).set_index(["isa", "way"])["instructions"]
    named = {UNOPTIMISED_WAY: "unoptimised", kprobe_ways.OPTIMISED_WAY: "+ no freelist"}
    for r in rows[rows["way"].isin(list(named))].itertuples():
        assert other[r.isa, named[r.way]] == r.instructions


def test_all_run_the_same_program():
    for isa in ISAS:
        names = {frozenset(s for s in hooked.symbols if s.startswith("lab_bpf")) for hooked, _ in kprobe_ways.calls(isa).values()}
        assert names == {frozenset({"lab_bpf_count"})}
        for hooked, idle in kprobe_ways.calls(isa).values():
            assert hooked.value == idle.value and "lab_bpf_count" not in idle.symbols


def test_published_ratios_by_hand():
    get = published.get
    loss = {n: get(f"arm64-rfc-{n}").value for n in ("direct-calls", "kprobe")}
    rfc = loss["kprobe"] / (100 - loss["kprobe"]) / (loss["direct-calls"] / (100 - loss["direct-calls"]))
    assert kprobe_ways.ratios("RFC")[BREAKPOINT] == pytest.approx(rfc)
    xu = {n: 1 / get(f"arm64-pi4-xu-trig-{n}").value for n in ("base", "kprobe", "fentry-direct")}
    ratio = (xu["kprobe"] - xu["base"]) / (xu["fentry-direct"] - xu["base"])
    assert kprobe_ways.ratios("Xu")[BREAKPOINT] == pytest.approx(ratio, rel=1e-3)
    m1 = {n: get(f"ebpf-exporter-m1-{n}").value for n in ("none", "kprobe-empty", "fentry-empty")}
    ratio = (m1["kprobe-empty"] - m1["none"]) / (m1["fentry-empty"] - m1["none"])
    assert kprobe_ways.ratios("M1")[BREAKPOINT] == pytest.approx(ratio) and round(ratio, 1) == 5.8


def test_rounds_stand_beside_the_isa_that_they_are_of(rows):
    for name in ROUNDS:
        assert rows[rows["isa"] != "arm64"][name].isna().all()
        assert set(rows[rows[name].notna()]["way"]) == set(kprobe_ways.ratios(name))


def with_times(rows, times: float, rounds):
    """The rows with kprobes so many times as slow as the fprobe in these rounds."""
    frame = rows.copy()
    for name in rounds:
        fprobe = frame.loc[frame["way"].isin([kprobe_ways.OPTIMISED_WAY, UNOPTIMISED_WAY]), name].max()
        frame.loc[frame[name].notna() & (frame["way"] == BREAKPOINT), name] = times * fprobe
    return frame


def test_rounds_in_which_a_kprobe_takes_the_most_time_are_counted(rows):
    n = kprobe_losses.numbers(rows)
    assert (n["rounds-kprobe-most"], n["rounds-total"], n["rfc-kprobe-published"]) == (4, 4, "5.02")
    assert kprobe_losses.numbers(with_times(rows, 0.9, ["Xu"]))["rounds-kprobe-most"] == 3
    for isa, count in kprobe_ways.real_breakpoints().items():
        assert n[f"{isa}-real-total"] == count


def test_real_kernels_stand_beside_the_labs(rows):
    found = kprobe_losses.beside_real(rows)
    assert set(found["isa"]) == set(ISAS) and len(found) >= 6
    for r in found.itertuples():
        result = next(f for f in saved.plain() if (f["kernel"]["isa"], f["kernel"]["release"]) == (r.isa, r.release))
        row = next(h for h in result["hooks"] if h["hook"] == "kprobe-brk")
        assert row["components"]["core"]["instructions"] == r.kernel
        assert (r.traps == 1) == ("kprobe_insn_slot" not in row["symbols"])


def test_the_whole_hook_is_near_every_plain_kernels():
    """Site, slot and all of the exceptions, within what is aimed at, wherever an image has it measured."""
    near = set()
    for found in saved.comparable():
        row = next(h for h in found["hooks"] if h["hook"] == "kprobe-brk")
        both = list(beside.pairs({**found, "hooks": [row]}))
        if row["status"] == "measured":
            real, lab = (sum(parts) for parts in zip(*((p.real[0], p.lab[0]) for p in both), strict=True))
            assert abs(lab - real) <= PART * real, (found["kernel"]["isa"], found["kernel"]["release"], real, lab)
            near.add((found["kernel"]["isa"], found["kernel"]["release"]))
    assert near == {("x86_64", "v6.1"), *((isa, release) for isa in ISAS for release in ("v6.12", "v7.2"))}


def test_what_no_kernel_has_is_marked(rows):
    for table in (kprobe_losses.table(rows), kprobe_losses.rounds(rows)):
        for way in table["way"]:
            assert way.endswith(MARK) == way.startswith("fprobe")
    assert all(figure.hypothetical for figure in kprobe_losses.FIGURES[:2])
