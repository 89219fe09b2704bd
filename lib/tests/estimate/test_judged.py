"""Which models are usable: the rule on cases made up here, what the saved cases say, and who asks."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tramplab import cli
from tramplab.estimate import cores, judged
from tramplab.estimate.judged import Case, judge
from tramplab.estimate.measure import hook_estimate
from tramplab.ftrace.releases import LATEST
from tramplab.native import command
from tramplab.native.cached import HOOKS, saved


def cases(*pairs, core="zen4", name="a", sets=False):
    return [Case(core, name, f"hook{n}", measured, estimate, sets) for n, (measured, estimate) in enumerate(pairs)]


RIGHT = [(10, 10), (20, 20), (30, 30), (40, 40), (50, 50)]


@pytest.mark.parametrize(
    "pairs, usable",
    [
        (RIGHT, True),
        ([(m, 0.81 * m) for m, _ in RIGHT], True),  # 1 / 0.81 is 1.23
        ([(m, 0.79 * m) for m, _ in RIGHT], False),  # ranked alike, and all beside the band
        ([*RIGHT[:4], (50, 90)], True),  # four of five
        ([*RIGHT[:3], (40, 80), (50, 90)], False),
        ([(10, 12), (11, 11), (12, 10), (12.1, 9.9), (12.2, 9.8)], False),  # in the band, and ranked the other way round
        (RIGHT[:4], False),  # too few to be ranked
        ([], False),
    ],
)
def test_the_rule(pairs, usable):
    assert judge("zen4", cases(*pairs)).usable == usable
    assert not judge("zen3", cases(*pairs)).usable


def test_cases_that_set_a_parameter_do_not_judge_and_the_worst_set_ranks():
    wrong = cases((1, 9), (9, 1), (2, 8), (8, 2), (5, 50), name="b", sets=True)
    verdict = judge("zen4", [*cases(*RIGHT), *wrong])
    assert verdict.usable and (verdict.cases, verdict.inside, verdict.error, verdict.rank) == (5, 5, 0, 1)
    assert not judge("zen4", [*cases(*RIGHT), *(replace(c, sets=False) for c in wrong)]).usable
    assert judge("zen4", [*cases(*RIGHT), *cases(*RIGHT[:3], (40, 35), (50, 38), name="c")]).rank == 1
    assert judge("zen4", [*cases(*RIGHT), *cases(*RIGHT[:3], (40, 50), (50, 40), name="c")]).rank == pytest.approx(0.9)


def test_equal_numbers_share_their_rank():
    assert judged.spearman([1, 1, 2, 3], [1, 1, 5, 9]) == pytest.approx(1)
    assert judged.spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(0.866, abs=0.001)


def test_a_usable_model_holds_in_every_way():
    """What the pages say: some models are usable, and none that is not has an estimate anywhere else."""
    good = {core.name for isa in ("x86_64", "arm64", "riscv64") for core in judged.usable(isa)}
    assert good == {"golden-cove", "zen3", "zen4", "zen5"}
    for name in good:
        verdict = judged.verdict(name)
        assert verdict.inside >= 0.8 * verdict.cases and verdict.rank >= 0.9 and verdict.cases >= 5


def golden_cove(**values):
    """The core with other values of some parameters."""
    core = cores.get("golden-cove")
    changed = {name: replace(core["load"], name=name, value=v, low=v, high=v) for name, v in values.items()}
    return replace(core, parameters=core.parameters | changed)


def test_what_the_page_says_of_golden_coves_parameters():
    """Each is set by a case that names it: without it the estimate is short by a third or so. And which cases the model misses."""
    measured = {c.case: c.measured for c in judged.cases() if c.core == "golden-cove"}

    def short(hook, **values):
        return 1 - hook_estimate("x86_64", hook, LATEST, 1, golden_cove(**values)).mid / measured[hook]

    assert 0.3 < short("kretprobe", locks_wait=0) < 0.37 and short("kretprobe") < 0.2
    assert 0.3 < short("bpf-fexit:10", forward_renamed=0) < 0.37 and short("bpf-fexit:10") < 0.15
    core = cores.get("golden-cove")
    assert short("fgraph", mispredict=core["mispredict"].low) > 0.2 > abs(short("fgraph"))
    assert short("ops-regs", pop_flags=core["pop_flags"].low) > 0.15 > abs(short("ops-regs"))
    assert {c.case for c in judged.cases() if c.core == core.name and not c.inside} == {"bpf-fexit:2", "bpf-fmodret:2"}


def test_the_command_lists_every_core_and_every_case(capsys):
    assert cli.main(["cores"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 72
    lines = {line.split()[1]: line.split()[-1] for line in out.splitlines() if line.split()[:1] and line.split()[0] in
             ("x86_64", "arm64", "riscv64")}  # fmt: skip
    assert lines == {name: "yes" if judged.verdict(name).usable else "no" for name in cores.cores()}
    assert cli.main(["cores", "--json"]) == 0
    assert [Case(**row) for row in json.loads(capsys.readouterr().out)] == list(judged.cases())


def test_native_times_judge_by_the_same_rule():
    """A saved set gives its own core the verdict that the book has of it; the cases that set parameters are left out there, too."""
    result = saved(HOOKS)["intel-6-207-2-vm-hooks"]
    text = command.judged_text(result)
    wanted = judge("golden-cove", [c for c in judged.cases() if c.set == "intel-6-207-2-vm-hooks"])
    line = next(line for line in text.splitlines() if "golden-cove" in line).split()
    assert line[:3] == ["golden-cove", str(wanted.cases), str(wanted.inside)] and line[-1] == "yes"
    assert max(map(len, text.splitlines())) <= 72
    table = command.as_text(result)
    row = next(line for line in table.splitlines() if line.startswith("fgraph "))
    assert row.split()[-1].endswith("%") and "that of golden-cove estimates" in table


@pytest.mark.parametrize(
    "cpu, vendor, isa, name",
    [
        ("Intel(R) Xeon(R) Processor, family 6, model 207, stepping 2", "GenuineIntel", "x86_64", "golden-cove"),
        ("Intel(R) Core(TM) i7-6700K, family 6, model 94, stepping 3", "GenuineIntel", "x86_64", "golden-cove"),  # its own is none
        ("AMD EPYC 9654, family 25, model 17, stepping 1", "AuthenticAMD", "x86_64", "zen4"),
        ("AMD X, family 27, model 1, stepping 0", "AuthenticAMD", "x86_64", "zen5"),
        ("Raspberry Pi 4, CPU implementer 0x41, CPU variant 0x0, CPU part 0xd08", "0x41", "arm64", None),
    ],
)
def test_the_nearest_usable_model(cpu, vendor, isa, name):
    found = judged.nearest(cpu, vendor, isa)
    assert (found and found.name) == name
