"""The studies of generated trampolines: known relations of their rows, and verdicts that follow the rows."""

import pytest

from support.publish.guarded import problem
from tramplab.isa import ISAS
from tramplab_book.studies.variants.saving import first_program, generated, jobs, what_for
from tramplab_book.studies.variants.unwinding import fix_up, unwound


def changed(frame, value, column, where):
    """The rows with one column changed where all of `where` holds."""
    chosen = True
    for name, wanted in where.items():
        chosen &= frame[name] == wanted
    assert chosen.any() and (frame.loc[chosen, column] != value).any()
    frame.loc[chosen, column] = value
    return frame


def test_an_argument_in_a_register_is_a_store_and_a_load():
    """Of a trampoline that knows the function; arm64's of ftrace's kind has an instruction for two of them."""
    cost = generated.overhead(generated.rows()).pivot_table(
        index=["isa", "variant"], columns="args", values="instructions"
    )
    for isa, record in ISAS.items():
        registers = len(record.args)
        for variant in generated.KNOWING:
            steps = cost.loc[isa, variant].diff().iloc[1 : registers + 1]
            paired = isa == "arm64" and variant == "ops-live"
            assert list(steps) == ([2, 0] * 4 if paired else [2] * registers), (isa, variant)


def test_like_with_like_by_hand():
    """x86-64: nothing of the one, two slots of the other, ftrace's copies have the slots too. arm64: the way through
    ftrace_caller, and three instructions that make the address that a BLR goes through. riscv64: that way, and an AUIPC before each
    call of a trampoline. And a program of fentry begins with a nop."""
    counted = generated.overhead(generated.rows()).query("args == 2").set_index(["isa", "variant"])
    setting = counted["instructions"] - counted["alike"]
    assert [setting["x86_64", v] for v in ("bare", "ops-live", "ops", "ops-regs")] == [0, 2, 2, 3]
    assert [setting["arm64", v] for v in ("bare", "bpf-fentry", "ops-live", "ops")] == [9, 16, 0, 0]
    assert [setting["riscv64", v] for v in ("bare", "bpf-fentry", "ops-live", "ops")] == [5, 8, 1, 0]
    assert ("arm64", "ops-regs") not in setting and "ops-own-regs" not in generated.VARIANTS
    assert [generated.far_step(isa) for isa in ISAS] == [0, 6, 4]


@pytest.mark.parametrize(
    ("variant", "part", "value", "failed"),
    [
        ("bpf-fentry", "core", 20, "0.6 * x86_64-bpf-fentry-total < x86_64-bpf-fentry-core"),
        ("bare", "trampoline", 30, "x86_64-bare-total < 14"),
        ("bare", "core", 1, "x86_64-bare-core == 0"),
    ],
)
def test_what_is_said_of_ten_instructions_follows_the_rows(variant, part, value, failed):
    frame = generated.rows()
    assert not problem("v1", frame)
    where = {"isa": "x86_64", "args": 2, "variant": variant, "part": part}
    assert f"{failed} is not so: " in problem("v1", changed(frame, value, "instructions", where))


def test_every_instruction_has_one_job():
    """The jobs of a trampoline are all of its instructions; without arguments none keeps any."""
    frame, counted = jobs.rows(), generated.rows()
    sums = frame.groupby(["isa", "args", "variant"])["instructions"].sum()
    for r in counted[(counted["part"] == "trampoline") & counted["variant"].isin(jobs.VARIANTS)].itertuples():
        assert sums[r.isa, r.args, r.variant] == r.instructions
    kept = frame[frame["job"] == what_for.KEEP]
    assert not kept.loc[kept["args"] == 0, "instructions"].any()
    for isa, record in ISAS.items():
        for args in range(9):
            one = kept[(kept["isa"] == isa) & (kept["args"] == args) & (kept["variant"] == "bare")]
            assert one["instructions"].item() == 2 * min(args, len(record.args))
    some = frame[frame["instructions"] > 0]
    assert set(some.loc[some["job"] == what_for.REACH, "isa"]) == {"arm64", "riscv64"}
    assert set(some.loc[some["job"] == what_for.MARKS, "isa"]) == {"x86_64"}


def test_what_the_numbers_of_the_jobs_say():
    """ftrace's passes more, the generated one makes the larger frame, and neither has a setting's job among the compared."""
    n = jobs.numbers(jobs.rows())
    for isa in ISAS:
        assert n[f"{isa}-ops-live-passing"] > n[f"{isa}-bare-passing"] and n[f"{isa}-bare-frame"] > n[f"{isa}-ops-live-frame"]
        for variant in jobs.VARIANTS:
            own = [n[f"{isa}-{variant}-{job}"] for job in what_for.JOBS if job not in what_for.SETTING]
            assert sum(own) == n[f"{isa}-{variant}-alike"] <= n[f"{isa}-{variant}-total"]
    assert [n[f"{isa}-better-from"] for isa in ISAS] == [8, 2, 0]


@pytest.mark.parametrize(("isa", "job"), [("x86_64", what_for.FRAME), ("arm64", what_for.KEEP), ("riscv64", what_for.CALL)])
def test_what_the_live_set_takes_more_refutes_v8(isa, job):
    frame = jobs.rows()
    assert not problem("v8", frame)
    chosen = (frame["isa"] == isa) & (frame["variant"] == "ops-live") & (frame["job"] == job) & (frame["args"] == 7)
    frame.loc[chosen, "instructions"] += 50
    assert problem("v8", frame) == f"{isa}-worse == 0 is not so: 1 and 0"


@pytest.mark.parametrize("job", (*what_for.SETTING, what_for.PASS))
def test_v8_compares_like_with_like(job):
    """Whatever one side has of landing pads, slots, ways that are there for its place, and arguments of its callee."""
    frame, chosen = jobs.rows(), ("kept", "worse")
    said = jobs.numbers(frame)
    frame.loc[(frame["variant"] == "bare") & (frame["job"] == job), "instructions"] += 100
    other = jobs.numbers(frame)
    assert [n for n in said if n.endswith(chosen) and said[n] != other[n]] == []


def test_the_figure_of_programs_has_what_kernels_do():
    (figure,) = fix_up.FIGURES
    rows = figure.rows(fix_up.rows())
    assert set(rows["unwound"]) == {unwound.FP, unwound.ORC} and not rows["hypothetical"].any()
    assert figure.chart(rows)


@pytest.mark.parametrize(
    ("name", "isa", "hook", "way", "column", "failed"),
    [
        ("v5", "x86_64", "bpf-fentry", unwound.FP, "caller", "x86_64-fentry-fp-caller == 0"),
        ("v5", "x86_64", "ops", unwound.FP, "both", "x86_64-ops-fp-both == x86_64-ops-fp-count"),
        ("v5", "x86_64", "bpf-fentry", unwound.ORC, "both", "x86_64-fentry-ORC-both == x86_64-fentry-ORC-count"),
        ("fexit-hides-function", "x86_64", "bpf-fexit", unwound.ORC, "function", "x86_64-fexit-ORC-function == 0"),
        ("fexit-hides-function", "riscv64", "bpf-fexit", unwound.FP, "both", "riscv64-fexit-fp-both == riscv64-fexit-fp-count"),
    ],
)
def test_what_is_found_from_a_program_follows_the_rows(name, isa, hook, way, column, failed):
    frame = fix_up.rows()
    assert not problem(name, frame)
    there = (frame["isa"] == isa) & (frame["hook"] == hook) & (frame["unwound"] == way) & (frame["part"] == fix_up.PROGRAM)
    frame.loc[there, column] = 2
    assert problem(name, frame).startswith(f"{failed} is not so: ")


def test_the_steps_of_a_program():
    """The stretches add up to the call, and the program's guards are most of what lies before it."""
    walks = {w["isa"]: w for w in first_program.walks()}
    frame = first_program.rows()
    for isa, walk in walks.items():
        assert frame[frame["isa"] == isa]["instructions"].sum() == len(walk["steps"])
        assert "bpf_prog[0.1]" in {value for _, changes, _, _ in walk["steps"] for value in changes.values()}
    numbers = first_program.numbers(frame)
    assert all(numbers[f"{isa}-save"] > numbers[f"{isa}-restore"] for isa in ISAS)
