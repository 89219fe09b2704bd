"""The golden tables, and the README's experiment."""

import itertools
import re
import shutil
import subprocess

import pytest

from support import ROOT
from support.publish.guarded import problem
from tramplab.build.toolchain import GUEST
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import counts_of
from tramplab.trampolines.plain import Ops
from tramplab_book import studies
from tramplab_book.commands import expected_file, study_text
from tramplab_book.studies.variants.one_callback import single_callback
from tramplab_book.studies.variants.switching import callbacks, elsewhere


@pytest.mark.parametrize("name", studies.every())
def test_golden_table(name):
    """What the study prints is what data/expected holds; `make update` rewrites it when the change is meant."""
    study = studies.get(name)
    assert study_text(study, study.rows()) == expected_file(name).read_text("utf-8")


def test_golden_tables_are_of_studies():
    """No table outlives its study."""
    assert {p.stem for p in expected_file("x").parent.glob("*.txt")} == set(studies.every())


def test_lines_fit_a_mail():
    for name in studies.every():
        assert all(len(line) <= 72 for line in expected_file(name).read_text("utf-8").splitlines())


def test_ten_instructions_counted_by_hand():
    """The example of the method page against numbers worked out on paper: n words, n - 1 branches back."""
    rows = studies.get("counting").rows()
    n = len(studies.get("counting").WORDS)
    for isa, loop, loads, stores in (("x86_64", 4, n + 2, 2), ("arm64", 4, n + 2, 3), ("riscv64", 5, n, 1)):
        part = rows[rows["isa"] == isa]
        assert len(part) == 10
        assert part["times"].sum() == 10 + (n - 1) * loop
        assert (part["loads"].sum(), part["stores"].sum()) == (loads, stores)
        assert part["branches_taken"].sum() == (n - 1) + 1


def test_readme_experiment(tmp_path):
    """The README's sed line adds one nop, and the trampoline's count goes up by exactly that instruction."""
    line = re.search(r"sed -i '(s/.*/)' lib/tramplab/guest/(\S+)", (ROOT / "README.md").read_text("utf-8"))
    guest = tmp_path / "guest"
    shutil.copytree(GUEST, guest)
    subprocess.run(["sed", "-i", line.group(1), str(guest / line.group(2))], check=True)
    for release in ("v6.2", "v6.4", "v7.2"):
        before, after = (_counts(Kernel("arm64", release, guest=g)) for g in (GUEST, guest))
        assert after["trampoline"].instructions == before["trampoline"].instructions + 1
        assert {c: n for c, n in after.items() if c != "trampoline"} == {
            c: n for c, n in before.items() if c != "trampoline"
        }
        assert after["trampoline"].stores == before["trampoline"].stores


def _counts(kernel):
    with kernel.attached(kernel.function("one_arg"), Ops()):
        return kernel.call("one_arg", 1).counts.by_component


def test_added_is_hooked_minus_unhooked():
    """The derived table against the rows it is from."""
    rows = single_callback.rows()
    table = single_callback.added(rows)
    for _, line in table.iterrows():
        for release in table.columns[2:]:
            if line[release] == line[release]:
                assert line[release] == single_callback.cost(rows, line["isa"], line["hook"], release) > 0


def test_from_two_callbacks_on_the_cost_is_a_straight_line():
    """The page says so and quotes the slope, from the counts of the study; here every count up to 20 is tried."""
    rows = callbacks.rows()
    for isa in ISAS:
        totals = [
            sum(c["instructions"] for c in counts_of(isa, "ops", args=3, callbacks=k)["components"].values())
            for k in range(2, 21)
        ]
        assert {b - a for a, b in itertools.pairwise(totals)} == {callbacks.numbers(rows)[f"{isa}-further-step"]}


def test_a_bend_in_the_line_withdraws_its_slope():
    rows = callbacks.rows()
    bent = rows["instructions"].where(rows["callbacks"] != callbacks.COUNTS[-1], rows["instructions"] + 1)
    numbers = callbacks.numbers(rows.assign(instructions=bent))
    assert {numbers[f"{isa}-further-step"] for isa in ISAS} == {"-"}
    assert "-" not in {callbacks.numbers(rows)[f"{isa}-further-step"] for isa in ISAS}


def test_the_bars_are_what_the_first_callbacks_add_and_a_wish_for_all_registers():
    rows = callbacks.rows()
    bars = callbacks.drawn(rows).set_index(["isa", "what"])["instructions"]
    for isa in ISAS:
        line = rows[(rows["isa"] == isa) & (rows["release"] == releases.LATEST) & (rows["regs"] == "none")]
        totals = line.set_index("callbacks")["instructions"]
        assert bars[isa, "the first"] == totals[1] and bars[isa, "the second"] == totals[2] - totals[1]
        assert bars[isa, "each further one"] == totals[3] - totals[2] and 0 < bars[isa, "all registers"] < bars[isa, "the second"]
    bent = rows["instructions"].where(rows["callbacks"] != callbacks.COUNTS[-1], rows["instructions"] + 1)
    assert "each further one" not in set(callbacks.drawn(rows.assign(instructions=bent))["what"])


def test_ops_elsewhere_cost_a_call_only_through_the_list_function():
    """The steps against one that is bent, and the finding against rows in which one ops here pays as well."""
    rows = elsewhere.rows()
    numbers = elsewhere.numbers(rows)
    for isa in ISAS:
        assert numbers[f"{isa}-one-step"] == 0 < numbers[f"{isa}-two-step"]
        assert numbers[f"{isa}-without-step"] == ("-" if isa == "x86_64" else numbers[f"{isa}-two-step"])
    paid = rows.assign(instructions=rows["instructions"] + 3 * rows["others"])
    assert not problem("two-pay-for-others", rows)
    assert problem("two-pay-for-others", paid).startswith("x86_64-one-step == 0 is not so: 3 and 0")
    bent = rows.assign(instructions=rows["instructions"].where(rows["others"] != elsewhere.COUNTS[-1], 0))
    assert set(elsewhere.numbers(bent).values()) == {"-"}
