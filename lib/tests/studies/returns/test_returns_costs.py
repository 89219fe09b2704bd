"""What seeing a return costs: parts that add up and are where they belong, sentences that follow the rows, the verdict on k1."""

import pandas as pd
import pytest

from tramplab import TramplabError
from tramplab.isa import ISAS
from tramplab.lab.call import RecordedCall
from tramplab.publish import published
from tramplab.publish.claims.claims import DEPENDS, FAILS, HOLDS
from tramplab.studies.returns import mechanisms
from tramplab.studies.returns.costs import many_probes, return_costs, return_published, return_saves
from tramplab.studies.returns.costs.many_probes import MITIGATED, PLAIN
from tramplab.studies.returns.costs.return_saves import ARGS, REGS, VALUE, WITHOUT
from tramplab.studies.returns.mechanisms import (
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
from tramplab.studies.time import saved_times
from tramplab.vmlinux.saved import saved

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


@pytest.fixture(scope="module")
def saves():
    return return_saves.rows()


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


def test_what_was_measured_stands_in_the_table_and_in_the_answer(costs, monkeypatch):
    """Of any number of machines, whatever they timed."""
    took = {"kretprobe": {"a": 300.0, "b": 200.0}, "fprobe-exit": {"a": 150.0, "c": 7.0}}
    monkeypatch.setattr(saved_times, "cycles", lambda hook, release=LATEST, isa="x86_64": _taken(took, hook, release, isa))
    table = return_costs.table(costs)
    here = table[table["isa"] == "x86_64"].set_index("name")
    assert list(here.loc["kretprobe", ["a", "b", "c"]]) == ["300", "200", "-"]
    assert list(here.loc["fprobe, fgraph", ["a", "b", "c"]]) == ["150", "-", "7.00"]
    rest = table[(table["isa"] != "x86_64") | ~table["name"].isin(("kretprobe", "fprobe, fgraph"))]
    assert (rest[["a", "b", "c"]] == "-").all(axis=None)
    assert "Measured on x86-64, an fprobe takes 150 cycles where a kretprobe takes 300 (on a)." in return_costs.answer(costs)
    assert list(return_costs.golden(costs).columns) == ["isa", "name", "insns", "Debian", "trap", "missed"]
    took["fprobe-exit"].pop("a")
    assert return_costs.answer(costs).endswith("No saved machine has timed a kretprobe and an fprobe.")


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


def test_the_answer_follows_the_rows(costs):
    """Another ranking, another sentence; and a kernel that contradicts is named."""
    said = return_costs.answer(costs)
    assert "fewer than a kretprobe on arm64 and riscv64 alone" in said and "alike" in said
    cheap = costs.copy()
    cheap.loc[cheap["mechanism"] == FPROBE, "instructions"] = 1
    assert "fewer than a kretprobe on x86-64, arm64 and riscv64 alone" in return_costs.answer(cheap)
    dear = costs.copy()
    dear.loc[dear["mechanism"].isin((FPROBE, MULTI)), "instructions"] = 1000
    said = return_costs.answer(dear)
    assert "fewer than a kretprobe on no ISA, and a program of kprobe_multi fewer than one on a kretprobe on no ISA;" in said
    turned = costs.copy()
    turned.loc[(turned["isa"] == "x86_64") & (turned["mechanism"] == KRETPROBE), "debian"] = 9999
    assert "ranks those that were counted there otherwise on x86-64" in return_costs.answer(turned)


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
    for mechanism in many_probes.CALLED:
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
    assert "with bare handlers, with 3 and more on x86-64 and any number on arm64 and riscv64; with" in many_probes.answer(many)
    assert "behind each, with 2 and more on x86-64 and any number on arm64 and riscv64." in many_probes.answer(many)
    dear = many.copy()
    dear.loc[(dear["mechanism"] == FPROBE) & (dear["isa"] == "arm64"), "instructions"] = 10_000
    assert many_probes.cheaper_from(dear, "arm64") == 0 and "no number on arm64" in many_probes.answer(dear)
    once = many.copy()
    once.loc[(once["mechanism"] == FPROBE) & (once["isa"] == "x86_64") & (once["probes"] == 4), "instructions"] = 10_000
    assert many_probes.cheaper_from(once, "x86_64") == 6


def test_mitigations_move_from_how_many_on(many):
    """By what returns and indirect calls execute more; a price of each at which one alone is cheaper; and the answer says both."""
    safe, pairs = many_probes.mitigated(many), many_probes.PAIRS.values()
    assert [many_probes.cheaper_from(of, "x86_64", pair) for pair in pairs for of in (many, safe)] == [3, 2, 2, 2]
    said = many_probes.mitigations_answer(many)
    assert "bare handlers, from 3 on without and from 2 on with mitigations; with a BPF program behind each, from 2 on." in said
    for pair in pairs:
        even = many_probes.even_at(many, pair)
        costs = [[many_probes._value(many, "x86_64", m, c) for c in ("instructions", "returns", "indirect")] for m in pair]
        dearer = [[n + each * (r + i) for n, r, i in costs] for each in (even - 1, even)]
        assert dearer[0][0] > dearer[0][1] and dearer[1][0] <= dearer[1][1] and f" {even} (with" in said
    free = many.assign(returns=0, indirect=0)
    assert many_probes.even_at(free, (FPROBE, KRETPROBE)) == 0 and "One alone" not in many_probes.mitigations_answer(free)
    assert "with bare handlers, from 3 on; with" in many_probes.mitigations_answer(free)


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
    assert "takes 0.50 (a) and 0.75 (b) times a kretprobe's cycles." in return_published.answer(rounds)
    drawn = return_published.dumbbells(rounds)
    timed = drawn[drawn["by"] == return_published.MEASURED]
    assert len(timed) == 4 and set(zip(timed["low"], timed["ratio"], timed["high"], strict=True)) == {(0.5, 0.625, 0.75)}
    took.clear()
    assert set(return_published.dumbbells(rounds)["by"]) == {return_published.PUBLISHED, return_published.INSTRUCTIONS}
    assert return_published.answer(rounds).endswith("was timed on no saved machine.")


def test_what_the_instructions_contradict_is_said(rounds):
    said = return_published.answer(rounds)
    assert "say the contrary of 4" in said and "in 6 of 6 rounds that 3 mails published" in said
    assert "alone, 0.32 to 0.99 times." in said
    alike = rounds.assign(instructions=0.5)
    assert "say the contrary of 0" in return_published.answer(alike)
    assert len(return_published.contradicted(rounds.assign(published=2.0, instructions=0.5))) == len(rounds)


@every_isa
def test_a_smaller_set_costs_less_and_serves_no_more(isa, saves):
    known = return_saves.whole(saves[saves["isa"] == isa]).set_index("saves")
    assert known["instructions"][REGS] > known["instructions"][ARGS] > known["instructions"][VALUE]
    assert known["right"][REGS] >= known["right"][ARGS] >= known["right"][VALUE] >= 2
    assert return_saves.lost(saves, isa, REGS) == [] and return_saves.lost(saves, isa, VALUE)
    tracing = saves[(saves["isa"] == isa) & saves["consumer"].isin(("return-value", "instruction-pointer"))]
    assert set(tracing["outcome"]) == {return_saves.RIGHT}


def test_a_smaller_set_is_held_against_all_saved_in_the_same_way(saves):
    """arm64's kernels have an exception save them; what that takes is not what saving less takes off."""
    known = return_saves.whole(saves).set_index(["isa", "saves"])["instructions"]
    assert [isa for isa in ISAS if (isa, WITHOUT) in known.index] == ["arm64"]
    trap, off = known["arm64", REGS] - known["arm64", WITHOUT], known["arm64", WITHOUT] - known["arm64", VALUE]
    assert trap > 4 * off > 0
    said, verdict = return_saves.answer(saves), return_saves.need_not_save(saves)
    assert f"{off} of {known['arm64', WITHOUT]} on arm64" in said and f"counted there, takes {trap} more." in said
    assert f"instead of 8 of 8 for {known['arm64', WITHOUT]} on arm64" in verdict.because
    assert "exception" not in return_saves.answer(saves[saves["saves"] != WITHOUT].assign(instructions=7))


def test_the_verdict_on_k1_follows_the_rows(saves):
    assert return_saves.need_not_save(saves).kind == DEPENDS
    served = saves.assign(outcome=return_saves.RIGHT)
    assert return_saves.need_not_save(served).kind == HOLDS
    lost = saves.copy()
    lost.loc[lost["saves"].isin((REGS, WITHOUT)), "outcome"] = return_saves.RIGHT
    lost.loc[lost["saves"] == VALUE, "outcome"] = return_saves.WRONG
    assert return_saves.need_not_save(lost).kind == FAILS


def test_what_there_is_not_is_said():
    with pytest.raises(TramplabError, match="unknown mechanism that sees returns 'kretprob'; did you mean kretprobe"):
        mechanisms.get("x86_64", "kretprob")
    with pytest.raises(TramplabError, match="arm64 never had fprobe, rethook; it has kretprobe"):
        mechanisms.get("arm64", RETHOOK)
    with pytest.raises(TramplabError, match="unknown ISA 'x86'"):
        mechanisms.builds("x86")
    assert {m for isa in ISAS for m in mechanisms.newest(isa)} == set(MECHANISMS) - {KRETPROBE_BPF, MULTI}
    assert {build.mechanism for isa in ISAS for build in mechanisms.programs(isa)} == {KRETPROBE_BPF, MULTI}


def test_the_answer_lists_mechanisms_that_can_be_told_apart(costs):
    """Each has its number behind it: no name is cut by a comma, and what is of one ISA ends where another's begins."""
    for ranked in return_costs.answer(costs).split(". ")[:2]:
        parts = ranked.partition(": ")[2].split("; ")
        assert len(parts) == len(ISAS)
        for part in parts:
            each = part.removeprefix("and ").rpartition(" on ")[0].replace(" and ", ", ").split(", ")
            assert len(each) == 3 and all(one.rpartition(" ")[2].isdigit() for one in each), part
