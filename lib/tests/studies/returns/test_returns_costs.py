"""What seeing a return costs: parts that add up and are where they belong, sentences that follow the rows, the verdict on k1."""

import pandas as pd
import pytest

from tramplab import TramplabError
from tramplab.isa import ISAS
from tramplab.lab.call import RecordedCall
from tramplab.returns import mechanisms
from tramplab.returns.mechanisms import (
    FEXIT,
    FGRAPH,
    FPROBE,
    KRETPROBE,
    KRETPROBE_BPF,
    LATEST,
    MECHANISMS,
    MULTI,
    RETHOOK,
)
from tramplab.vmlinux.saved import saved
from tramplab_book.publish import published
from tramplab_book.studies.returns.costs import many_probes, return_costs, return_published
from tramplab_book.studies.returns.costs.many_probes import MITIGATED, PLAIN
from tramplab_book.studies.time import saved_times

every_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.fixture(scope="module")
def costs():
    return return_costs.rows()


@pytest.fixture(scope="module")
def rounds():
    return return_published.rows()


@pytest.fixture(scope="module")
def many():
    return many_probes.rows()


def test_parts_are_the_whole_call(costs):
    """Together they are what is executed more, but for the handlers."""
    for isa in ISAS:
        for build in return_costs.compared(isa):
            hooked, idle = return_costs.calls(build)
            others = {name: c for name, c in hooked.counts.by_symbol.items() if name != "one_arg"}
            handlers = sum(c.instructions for name, c in others.items() if not return_costs.part(name))
            here = costs[(costs["isa"] == isa) & (costs["name"] == build.name)]
            more = hooked.counts.total.instructions - idle.counts.total.instructions
            assert here["instructions"].sum() == more - handlers > 0 and handlers > 0
            assert return_costs.added(hooked, idle).instructions == more - handlers


def test_each_part_is_there_exactly_where_it_belongs(costs):
    """By mechanism; exceptions where a kprobe is one."""
    for isa in ISAS:
        for build in return_costs.compared(isa):
            here = costs[(costs["isa"] == isa) & (costs["name"] == build.name)]
            by = here.set_index("part")["instructions"]
            kind, breaks = build.mechanism, mechanisms.breaks(isa, build.release)
            assert (by["exception"] > 0) == (kind in (KRETPROBE, KRETPROBE_BPF) and breaks) == (here["traps"].iloc[0] > 0)
            assert (by["graph tracer"] > 0) == (kind in (FGRAPH, FPROBE, MULTI))
            assert (by["return hook"] > 0) == (kind in (KRETPROBE, KRETPROBE_BPF, RETHOOK))
            assert (by[return_costs.PROBE] > 0) == (kind != FGRAPH)


def test_fexit_stands_beside_programs_and_a_bare_handler_beside_bare_ones(costs):
    """In the newest kernel each program is on the same probe as a bare handler, which costs less; its name says which it is."""
    for isa in ISAS:
        known = return_costs.totals(costs[(costs["isa"] == isa) & (costs["release"] == LATEST)]).set_index("mechanism")
        assert list(known.index[-3:]) == list(return_costs.PROGRAMS) == [name for name in known.index if name.startswith("BPF ")]
        for program, bare in ((KRETPROBE_BPF, KRETPROBE), (MULTI, FPROBE)):
            assert known.loc[program, "instructions"] > known.loc[bare, "instructions"] + 40
            assert known.loc[program, "traps"] == known.loc[bare, "traps"]
        for build in mechanisms.programs(isa):
            assert "lab_bpf_count" in return_costs.calls(build)[0].symbols


def test_what_was_measured_stands_in_the_table(costs, monkeypatch):
    """Of any number of machines, whatever they timed."""
    took = {"kretprobe": {"a": 300.0, "b": 200.0}, "fprobe-exit": {"a": 150.0, "c": 7.0}}
    monkeypatch.setattr(saved_times, "cycles", lambda hook, release=LATEST, isa="x86_64": _taken(took, hook, release, isa))
    table = return_costs.table(costs)
    here = table[table["isa"] == "x86_64"].set_index("name")
    assert list(here.loc["kretprobe", ["a", "b", "c"]]) == ["300", "200", "-"]
    assert list(here.loc["fprobe, fgraph", ["a", "b", "c"]]) == ["150", "-", "7.00"]
    rest = table[(table["isa"] != "x86_64") | ~table["name"].isin(("kretprobe", "fprobe, fgraph"))]
    assert (rest[["a", "b", "c"]] == "-").all(axis=None)
    assert list(return_costs.golden(costs).columns) == ["isa", "name", "insns", "Debian", "trap", "missed"]


def _taken(took, hook, release, isa):
    return took.get(hook, {}) if (release, isa) == (LATEST, "x86_64") else {}


@pytest.mark.parametrize(("mechanism", "locked"), [(KRETPROBE, 2), (FPROBE, 0)])
def test_a_kretprobe_of_x86_locks_and_an_fprobe_does_not(mechanism, locked):
    """As the page says: taking an instance and putting it back, with interrupts off."""
    call = RecordedCall.of(return_costs.calls(mechanisms.get("x86_64", mechanism))[0])
    executed = [call.instructions[step.pc].mnemonic for step in call.steps]
    assert executed.count("lock cmpxchg") == executed.count("cli") == locked
    assert sum(name.startswith("lock") for name in executed) == locked


def test_a_name_that_belongs_nowhere_is_an_error():
    with pytest.raises(TramplabError, match="name it in PARTS"):
        return_costs.part("schedule")


@every_isa
def test_debians_kernel_stands_beside_every_mechanism_that_it_decides(isa, costs):
    """The newest release's: a kretprobe by the hook that the ISA has, a breakpoint on arm64 and riscv64. Of an older release it
    stands wherever the image has the hook."""
    probe = "kretprobe" if isa == "x86_64" else "kretprobe-brk"
    hooks = {
        "kretprobe": probe,
        "fgraph": "graph",
        "fprobe, fgraph": "fprobe-exit",
        "BPF kretprobe": f"{probe}-bpf",
        "BPF kprobe_multi": "kretprobe-multi",
        "BPF fexit": "bpf-fexit",
    }
    here = return_costs.totals(costs[costs["isa"] == isa])
    newest = here[here["release"] == LATEST].set_index("mechanism")
    assert dict(newest["debian"]) == {name: saved.added(isa, LATEST, hook) for name, hook in hooks.items()}
    assert newest["debian"].notna().all()
    for r in here[here["release"] != LATEST].itertuples():
        counted = saved.added(isa, r.release, probe if r.mechanism == "kretprobe" else "fprobe-exit")
        assert (None if pd.isna(r.debian) else r.debian) == counted


@every_isa
def test_numbers_are_those_of_the_rows(isa, costs):
    numbers = return_costs.numbers(costs)
    for r in return_costs.totals(costs).itertuples():
        if r.isa == isa and r.release == LATEST:
            assert numbers[f"{isa}-{return_costs.slug(r.name)}-added"] == r.instructions


@every_isa
def test_one_probe_of_many_is_one(isa, many, costs):
    """What the first one adds is what it adds alone, in another meter; and each further one adds the same."""
    for mechanism in (*many_probes.BARE, *many_probes.PROGRAM):
        here = many[(many["isa"] == isa) & (many["mechanism"] == mechanism)]
        counts = here[here["functions"] == 1].set_index("probes")["instructions"]
        alone = return_costs.totals(costs[(costs["isa"] == isa) & (costs["name"] == mechanism)])
        assert list(alone["instructions"]) == [counts[1]]
        steps = {(counts[k] - counts[k - n]) / n for k, n in ((3, 1), (4, 1), (6, 2), (8, 2))}
        assert len(steps) == 1 and steps.pop() == many_probes.further(many, isa, mechanism) > 0


@every_isa
def test_a_probe_elsewhere_costs_memory_and_hardly_an_instruction(isa, many):
    for mechanism in (KRETPROBE, FPROBE, FEXIT):
        here = many[(many["isa"] == isa) & (many["mechanism"] == mechanism) & (many["probes"] == 1)]
        assert list(here["functions"]) == list(many_probes.FUNCTIONS)
        counts = list(here["instructions"])  # a few more where a bucket has another function, too
        assert counts == sorted(counts) and counts[-1] - counts[0] <= 20 and (mechanism != FEXIT or len({*counts}) == 1)
        assert here["bytes"].is_monotonic_increasing and here["bytes"].is_unique
    assert many_probes.each(many, isa, FPROBE) < many_probes.each(many, isa, FEXIT) < many_probes.each(many, isa, KRETPROBE)


def test_from_how_many_on_fprobes_are_cheaper_follows_the_rows(many):
    """The page says that they are where there are many."""
    assert all(1 <= many_probes.cheaper_from(many, isa) <= 4 for isa in ISAS)
    dear = many.copy()
    dear.loc[(dear["mechanism"] == FPROBE) & (dear["isa"] == "arm64"), "instructions"] = 10_000
    assert many_probes.cheaper_from(dear, "arm64") == 0 and many_probes.numbers(dear)["arm64-from"] == "no number"
    once = many.copy()
    once.loc[(once["mechanism"] == FPROBE) & (once["isa"] == "x86_64") & (once["probes"] == 4), "instructions"] = 10_000
    assert many_probes.cheaper_from(once, "x86_64") == 6


def test_mitigations_move_from_how_many_on(many):
    """By what returns and indirect calls execute more."""
    safe, pairs = many_probes.mitigated(many), many_probes.PAIRS.values()
    assert [many_probes.cheaper_from(of, "x86_64", pair) for pair in pairs for of in (many, safe)] == [3, 2, 2, 2]
    free = many_probes.mitigated(many.assign(returns=0, indirect=0))
    assert many_probes.cheaper_from(free, "x86_64", (FPROBE, KRETPROBE)) == 3


def test_debians_kernel_adds_as_much_with_mitigations_as_the_lab_says(many):
    """The executed thunks beside the lab's returns and indirect calls, which are as many."""
    rows = many_probes.mitigations_table(many).set_index(["mechanism", "booted"])
    for mechanism in many_probes._DEBIAN:
        lab, debian = (rows.loc[(mechanism, MITIGATED), c] for c in ("1", "Debian"))
        plain, real = (rows.loc[(mechanism, PLAIN), c] for c in ("1", "Debian"))
        assert lab - plain == int(debian) - int(real) > 30, mechanism
    assert set(rows.loc[FEXIT]["Debian"]) == {"-"}


def test_published_ratios_are_of_time_and_of_the_same_table(rounds):
    for r, given in zip(return_published.ROUNDS, rounds.itertuples(), strict=True):
        rates = [published.get(r.ids + bench) for bench in (r.other, "kretprobe")]
        assert given.published == pytest.approx(rates[1].value / rates[0].value, abs=0.01)
        assert rates[0].message == rates[1].message == given.message
        entries = [published.get(r.ids + bench) for bench in (r.entry, "kprobe")]
        left = [1 / whole.value - 1 / entry.value for whole, entry in zip(rates, entries, strict=True)]
        assert given.returns == pytest.approx(left[0] / left[1], abs=0.01)
        assert {one.message for one in entries} == {given.message}


def test_measured_ratios_are_of_machines_that_timed_both(rounds, monkeypatch):
    took = {"kretprobe-bpf": {"a": 300.0, "b": 200.0}, "kretprobe-multi": {"a": 150.0, "b": 150.0}, "bpf-fexit": {"c": 7.0}}
    monkeypatch.setattr(saved_times, "cycles", lambda hook, release=LATEST, isa="x86_64": _taken(took, hook, release, isa))
    table = return_published.table(rounds).set_index("round")
    assert list(table.loc["v22, after", ["a", "b"]]) == ["0.50", "0.75"] and "c" not in table.columns
    assert (table.loc[["v15, before", "2025, fexit"], ["a", "b"]] == "-").all(axis=None)
    n = return_published.numbers(rounds)
    assert n["machines"] == n["machines-faster"] == 2 and n["rounds-total"] == n["rounds-faster"] == 6
    drawn = return_published.dumbbells(rounds)
    timed = drawn[drawn["by"] == return_published.MEASURED]
    assert len(timed) == 4 and set(zip(timed["low"], timed["ratio"], timed["high"], strict=True)) == {(0.5, 0.625, 0.75)}
    took.clear()
    assert set(return_published.dumbbells(rounds)["by"]) == {return_published.PUBLISHED, return_published.INSTRUCTIONS}
    assert return_published.numbers(rounds)["machines"] == 0


def test_what_there_is_not_is_said():
    with pytest.raises(TramplabError, match="unknown mechanism that sees returns 'kretprob'; did you mean kretprobe"):
        mechanisms.get("x86_64", "kretprob")
    with pytest.raises(TramplabError, match="arm64 never had fprobe, rethook; it has kretprobe"):
        mechanisms.get("arm64", RETHOOK)
    with pytest.raises(TramplabError, match="unknown ISA 'x86'"):
        mechanisms.builds("x86")
    assert {m for isa in ISAS for m in mechanisms.newest(isa)} == set(MECHANISMS) - {KRETPROBE_BPF, MULTI}
    assert {build.mechanism for isa in ISAS for build in mechanisms.programs(isa)} == {KRETPROBE_BPF, MULTI}
