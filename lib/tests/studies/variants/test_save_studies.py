"""The studies of save sets, live patching and their consumers: known relations of the rows, and verdicts that follow them."""


import pytest

from support.publish.guarded import problem
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.native.result import Result
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.variants.live_patching import beside_bpf, consumers, live_patching
from tramplab_book.studies.variants.saving import arguments, generated, jobs, save_set_cycles


def test_only_live_arguments_depend_on_the_function():
    frame = arguments.rows()
    frame = frame[frame["hook"].isin(list(save_set_cycles.SETS.values()))]
    assert frame["hypothetical"].all()
    for (isa, hook), part in frame.groupby(["isa", "hook"]):
        costs = list(part.sort_values("args")["instructions"])
        registers = len(ISAS[isa].args)
        if hook == save_set_cycles.LIVE:
            assert costs == sorted(costs) and costs[registers] > costs[0] and len(set(costs[registers:])) == 1
        else:
            assert len(set(costs)) == 1


def timed(live: float, clobbered: float, **changes) -> Result:
    """A machine's times: 1 ns unhooked, a cycle of 0.25 ns, and three windows 0.01 ns apart with each hook."""
    times = {"none": 1.0, "ops-live": live, "ops-clobbered": clobbered}
    rows = [
        {
            "hook": hook,
            "windows": [ns + 0.01 * n for n in range(3)] if hook != "none" else [ns] * 3,
            "cycles_over": (ns - times["none"]) * 4,
            "agreed": True,
            **changes.get(hook, {}),
        }
        for hook, ns in times.items()
    ]
    told = {"isa": "x86_64", "cpu": "AMD EPYC, family 25, model 17, stepping 1", "vendor": "AuthenticAMD", "arguments": 1}
    told |= {"release": "v7.2", "date": "2026-11-22 08:50 UTC", "virtualised": "no"}
    return Result(tuple(rows), (0.25, 0.25, 0.25), (), (), told)


def test_a_machine_is_called_by_its_core_and_by_its_file_where_that_is_not_modelled():
    result = timed(3.0, 4.0)
    assert {row["machine"] for row in save_set_cycles.measured("a", result)} == {"zen4"}
    result.provenance.update({"cpu": "Intel(R) Xeon(R) Platinum 8380, family 6, model 106, stepping 6", "vendor": "GenuineIntel"})
    assert {row["machine"] for row in save_set_cycles.measured("a", result)} == {"a"}


def test_a_gain_has_the_band_of_both_windows():
    live, clobbered = save_set_cycles.measured("a", timed(3.0, 4.0))
    assert (live["cycles"], clobbered["cycles"], clobbered["gain"], clobbered["gain_low"]) == (8, 12, 0, 0)
    assert (live["gain"], live["gain_low"], live["gain_high"]) == (4, 3.84, 4.16)  # those of both hooks
    assert (live["args"], live["share"]) == (1, 0.333)


@pytest.mark.parametrize("hook", ["none", "ops-live", "ops-clobbered"])
def test_times_on_which_windows_do_not_agree_are_left_out(hook):
    assert list(save_set_cycles.measured("a", timed(3.0, 4.0, **{hook: {"agreed": False}}))) == []


def test_what_was_measured_is_in_the_numbers_of_v3():
    frame = save_set_cycles.rows()
    share, n = save_set_cycles.shares(frame).set_index("machine"), save_set_cycles.numbers(frame)
    assert {f"{machine}-gain" for machine in share.index} < set(n) and not problem("v3", frame)
    assert all(float(n[f"{machine}-gain"]) == pytest.approx(gain, abs=0.01) for machine, gain in share["gain"].items())
    less = frame.assign(gain=frame["gain"] / 2, share=frame["share"] / 2)
    assert "0.8 < zen3-gain is not so" in problem("v3", less)


def test_hypothetical_hooks_are_marked_wherever_they_are_shown():
    """In tables, citations and charts of these figures by the mark, which the limits explain; in the CSV by a column."""
    for study in (arguments, generated, jobs, save_set_cycles):
        for figure in study.FIGURES:
            rows = figure.rows(study.rows())
            without = {str(h) for h in rows.loc[rows["hypothetical"], "hook"]}
            assert without and all(hooks.hypothetical(h) or h in generated.SKETCHED for h in without)
            shown = show(study, figure.id)
            assert figure.hypothetical and "hypothetical: no kernel has it." in " ".join(shown.citation.split())
            lines = [line.split() for line in shown.text.splitlines() if set(line.split()) & without]
            for words in lines if figure.id != "fig-save-set-cycles" else ():
                assert all(words[i + 1].startswith("*") for i, word in enumerate(words) if word in without), words
            if figure.chart:
                drawn = figure.chart(rows).rows
                assert {row.get("bar", row.get("name")) for row in drawn if row["hollow"]} == without


def test_what_is_drawn_of_live_patching_is_what_is_added():
    frame = live_patching.rows()
    newest = live_patching.named(frame[frame["release"] == releases.LATEST]).set_index(["isa", "save"])["added"]
    drawn = live_patching.bars(frame).groupby(["isa", "save"])["instructions"].agg(["sum", "min"])
    assert dict(drawn["sum"]) == dict(newest) and drawn["min"].min() > 0


def test_what_no_kernel_has_is_marked():
    """In rows, tables, what is drawn and what citations say; what a release has is not."""
    assert all(study.FIGURES[0].hypothetical for study in (live_patching, consumers))
    for frame, shown in (
        (live_patching.rows(), live_patching.table(live_patching.rows())),
        (consumers.rows(), consumers.served(consumers.rows())),
    ):
        assert set(frame.loc[~frame["hypothetical"], "save"]) == {"args", "regs"}
        assert list(shown["save"].str.endswith(" *")) == list(frame["hypothetical"])


@pytest.mark.parametrize(
    ("save", "column", "value", "isa"),
    [
        ("ip", "plain_right", 3, "arm64"),
        ("ip", "stacked_right", 0, "x86_64"),
        ("ip", "added", 999, None),
        ("ip", "outer", 8, None),
        ("ip", "shares", False, "riscv64"),
        ("ip+sp, call", "stacked_right", 2, "x86_64"),
        ("ip+sp, call", "outer", 0, None),
        ("ip+sp, call", "shares", True, "arm64"),
    ],
)
def test_v6_follows_the_rows(save, column, value, isa):
    frame = live_patching.rows()
    assert not problem("v6", frame)
    frame.loc[(frame["save"] == save) & ((frame["isa"] == isa) | (isa is None)), column] = value
    assert problem("v6", frame)


def test_what_consumers_touch():
    """By hand: live patching writes ip and reads nothing; a consumer of registers reads ip, and what it is made to read."""
    frame = consumers.rows()
    every = frame[frame["save"] == "all"].set_index(["isa", "consumer"])
    for isa, ip, argument, kept in (
        ("x86_64", "ip", "di", "bx"),
        ("arm64", "pc", "regs[0]", "x19"),
        ("riscv64", "epc", "args[0]", "s1"),
    ):
        patching, counts, taking, other = (every.loc[isa, c] for c in consumers.CONSUMERS)
        assert (patching["read"], patching["wrote"], patching["names"]) == (0, 1, ip)
        assert (counts["read"], counts["wrote"], counts["names"]) == (1, 1, ip)
        assert set(taking["names"].split()) == {ip, argument} and set(other["names"].split()) == {ip, kept}
    assert every["served"].all()


@pytest.mark.parametrize(
    ("consumer", "save", "served", "isa"),
    [
        ("consumer, register", "ip", True, None),
        ("consumer, register", "ip", True, "arm64"),
        ("live patching", "ip", False, "x86_64"),
        ("live patching", "ip", False, "riscv64"),
    ],
)
def test_v7_follows_the_rows(consumer, save, served, isa):
    frame = consumers.rows()
    assert not problem("v7", frame)
    where = (frame["save"] == save) & (frame["consumer"] == consumer)
    frame.loc[where & ((frame["isa"] == isa) | (isa is None)), ["served", "added"]] = served, 20
    assert problem("v7", frame)


# -- beside BPF


def test_who_shares_a_function_with_live_patching():
    """Before v6.0 nobody; from then on BPF, but on riscv64 no trampoline that calls the function, and not where a fault is in
    the way; never one that is not asked."""
    frame = beside_bpf.rows()
    for r in frame.itertuples():
        facts = releases.features(ISAS[r.isa], r.release, releases.faulty(r.isa, r.release))
        if not facts["direct"]:
            wanted = beside_bpf.NONE
        elif r.beside == "no ops_func" or releases.parse(r.release) < (6, 0):
            wanted = beside_bpf.BUSY
        else:
            wanted = beside_bpf.BOTH
            joins, old = r.beside == beside_bpf.JOINED, facts["direct_modified_unasked"] and r.patching == "first"
            if facts["direct_without_regs"]:
                wanted = beside_bpf.UNCALLED
            elif r.isa == "riscv64" and (joins or r.beside == "fexit"):
                wanted = beside_bpf.LOST if joins and old else beside_bpf.NOT_MADE
            elif joins and old and r.isa == "x86_64":
                wanted = beside_bpf.LOST
            elif r.beside == "fexit" and facts["direct_hash_kept"] and r.patching == "first":
                wanted = beside_bpf.KEPT
        assert r.outcome == wanted, r
    assert set(frame["outcome"]) == set(beside_bpf.LETTERS)


def test_what_kernels_had_broken_is_shown_as_it_was():
    """Of x86-64 v6.4 all programs; fexit after a live patch up to v6.17; of what comes first there is a line where it matters."""
    frame = beside_bpf.rows()
    table = beside_bpf.table(frame).set_index(["isa", "beside"])
    assert {line for _, line in table.index} == {
        "no ops_func", "fentry", *(f"{name}; patch {n}" for name in ("fexit", beside_bpf.JOINED) for n in beside_bpf.ORDERS)
    }  # fmt: skip
    x86 = {line.split(";")[0] + line[-6:]: list(table.loc[("x86_64", line)].str.strip()) for _, line in table.index}
    assert [cells[2] for cells in x86.values()] == ["R", *"NNNNN"] and not problem("faults-beside-live-patch", frame)
    assert x86["fexit first"][3:5] == ["K", "K"] and x86["fentry, then fexit first"][3:5] == ["O", "O"]
    assert "arm64 since v6.17, riscv64 never" in beside_bpf.FIGURES[0].limits
    fixed = frame.assign(outcome=frame["outcome"].replace(beside_bpf.KEPT, beside_bpf.BOTH), added=frame["added"].fillna(300))
    assert "x86_64-fexit-first-v6-12" in problem("faults-beside-live-patch", fixed)


def test_what_is_said_of_sharing_follows_the_rows():
    frame = beside_bpf.rows()
    assert not problem("live-patch-and-direct", frame)
    other = frame.copy()
    other.loc[other["release"] == "v6.1", ["outcome", "ran", "went_on"]] = beside_bpf.BUSY, "", ""
    assert beside_bpf.numbers(other)["first"] == "v6.4" and "first == 'v6.1'" in problem("live-patch-and-direct", other)
    unasked = frame["beside"] == "no ops_func"
    asked = frame.assign(outcome=frame["outcome"].mask(unasked, beside_bpf.BOTH), added=frame["added"].mask(unasked, 300))
    assert "unasked-total == 0 is not so" in problem("live-patch-and-direct", asked)
    astray = frame.assign(went_on=frame["went_on"].replace("replacement", "function"))
    assert "0.85 * orders-total < replaced-total" in problem("live-patch-and-direct", astray)
    other.loc[:, "outcome"] = beside_bpf.BUSY
    assert beside_bpf.numbers(other)["first"] == "none"
