"""The runs behind the matrix of consumers: every cell that is not right leads to one, and that shows a wrong answer."""

import functools
import html
import re

import pytest

from tramplab.cli import main
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.command import told
from tramplab.sparsity.consumers.matrix import GARBAGE, NOT_ASKED, RIGHT, WRONG, matrix
from tramplab.sparsity.structures.views import views
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.shared.consumers import NAMES
from tramplab_book.studies.sparsity import consumer_charts, consumer_runs
from tramplab_book.studies.sparsity import register_consumers as consumers

FIGURE = "fig-register-consumers"
BAD = (WRONG, GARBAGE)
#: Names in the chart -> those of the study.
CONSUMERS, VIEWS = ({name: one for one, name in names.items()} for names in (NAMES, consumer_charts.ENTRIES))


@pytest.fixture(scope="module")
def found():
    return consumers.rows()


@functools.cache
def matrices(isa):
    kernel = Kernel(isa, consumers.NEW)
    return {view.name: matrix(kernel, view) for view in views(kernel)}


def cells(page):
    """The cells of the chart in a page: (ISA, consumer, structure) -> outcome, and where the cell leads."""
    found = re.findall(r'(?:<a href="#([^"]*)">)?<path aria-label="([^;"]*); ([^;"]*); ([^;"]*); [^:"]*: ([^"]*)" role', page)
    return {(isa, CONSUMERS[row], VIEWS[column]): (outcome, leads) for leads, isa, row, column, outcome in found}


def printed(page):
    """What the runs in a page printed, by their ids, of which none is there twice."""
    runs = [(name, html.unescape(text)) for name, text in re.findall(r'<pre id="(run-[\w-]+)"[^>]*>(.*?)</pre>', page, re.S)]
    assert len(dict(runs)) == len(runs)
    return dict(runs)


def parts(text):
    """A run's first line, its second, and the rest by what it begins with, each as words."""
    head, said, rest = re.fullmatch(r"(.*)\n(\S.*?)\n(  \S.*)", text, re.S).groups()
    lines = re.sub(r"\n {10}", " ", rest).splitlines()
    kinds = {kind: [line[10:] for line in lines if line.split()[0] == kind] for kind in ("reads", "says", "should")}
    return head, " ".join(said.split()), kinds


def faults(page):
    """What is wrong with the cells of a page and the runs that they lead to."""
    runs, out = printed(page), []
    for (isa, consumer, view), (outcome, leads) in cells(page).items():
        if outcome not in BAD:
            out += [f"{isa}, {view}, {consumer} is {outcome} and leads somewhere"] if leads else []
            continue
        if leads not in runs:
            out.append(f"{isa}, {view}, {consumer} leads nowhere")
            continue
        head, said, rest = parts(runs[leads])
        if not re.fullmatch(rf"{isa} {consumers.NEW}, {view}: a (pt|ftrace)_regs of \d+ bytes", head):
            out.append(f"{leads}: of another structure")
        if not said.startswith(f"{consumer} (") or not said.endswith(f"): {outcome}"):
            out.append(f"{leads}: of another consumer or outcome")
        if not rest["reads"] or not all(re.fullmatch(r"\w+(\[\d+\])?, \w+(: .*)?", line) for line in rest["reads"]):
            out.append(f"{leads}: read nothing")
        if len(rest["says"]) != 1 or len(rest["should"]) != 1 or rest["says"] == rest["should"]:
            out.append(f"{leads}: no wrong answer")
    return out


def test_every_cell_that_is_not_right_leads_to_a_run_with_a_wrong_answer(found):
    page = show(consumers, FIGURE, found).html
    assert faults(page) == []
    bad = [key for key, (outcome, _) in cells(page).items() if outcome in BAD]
    assert len(bad) > 15 and {isa for isa, _, _ in bad} == set(ISAS)
    assert set(printed(page)) == set(consumers.shown(found)["run"]) - {""}, "the runs of the others as well"
    assert {outcome for outcome, _ in cells(page).values()} == {RIGHT, WRONG, GARBAGE, NOT_ASKED}


def test_the_check_of_runs_can_fail(found):
    """A run with the right answer, of another outcome, that read nothing, is not there, or two in one place."""
    page = show(consumers, FIGURE, found).html
    name = "run-riscv64-ftrace-caller-partial-user-mode"
    run = printed(page)[name]
    assert faults(page.replace(run, run.replace("says    0x1", "says    0x0"))) == [f"{name}: no wrong answer"]
    assert faults(page.replace(run, run.replace("): wrong", "): right"))) == [f"{name}: of another consumer or outcome"]
    assert faults(page.replace(run, run.replace("partial: a", "perf: a"))) == [f"{name}: of another structure"]
    assert faults(page.replace(run, re.sub(r"  reads .*\n", "", run))) == [f"{name}: read nothing"]
    there = "riscv64, ftrace_caller, partial, user-mode leads nowhere"
    assert faults(page.replace(f'<pre id="{name}"', "<pre")) == [there]
    assert faults(page.replace(f'"#{name}"', '"#"', 1)) == [there]
    with pytest.raises(AssertionError):
        printed(page.replace('id="run-riscv64-ftrace-caller-partial-callchain"', f'id="{name}"'))


def test_a_run_goes_with_its_cell(found):
    """One that is repaired leads nowhere, one that breaks somewhere; no other cell notices."""
    rows = found.copy()
    new = (rows["release"] == consumers.NEW) & (rows["isa"] == "arm64")
    one = new & (rows["view"] == "ftrace_caller, perf") & (rows["consumer"] == "argument")
    other = new & (rows["view"] == "breakpoint") & (rows["consumer"] == "user-mode")
    rows.loc[one, ["outcome", "said"]] = [RIGHT, rows.loc[one, "should"].iloc[0]]
    rows.loc[other, ["outcome", "said"]] = [WRONG, "0x1"]
    before, after = (show(consumers, FIGURE, frame).html for frame in (found, rows))
    assert faults(after) == []
    assert set(printed(before)) - set(printed(after)) == {"run-arm64-ftrace-caller-perf-argument"}
    assert set(printed(after)) - set(printed(before)) == {"run-arm64-breakpoint-pt-regs-user-mode"}


def test_a_run_is_what_the_command_prints(found, capsys):
    runs = printed(show(consumers, FIGURE, found).html)
    shown = consumers.shown(found)
    for row in shown[shown["run"] != ""].to_dict("records"):
        assert runs[row["run"]] == told(matrices(row["isa"])[row["view"]], row["consumer"]), row["run"]
    assert main(["registers", "riscv64", "ftrace_caller, partial", "user-mode", "--release", consumers.NEW]) == 0
    assert capsys.readouterr().out == runs["run-riscv64-ftrace-caller-partial-user-mode"] + "\n"


def test_the_text_has_the_runs_too(found):
    shown = show(consumers, FIGURE, found)
    text = " ".join(shown.text.split())
    for name, run in printed(shown.html).items():
        assert " ".join(run.partition("\n")[2].split()) in text, name
    assert max(map(len, shown.text.splitlines())) <= 66


def test_the_address_of_a_run_is_its_names_and_no_release(found):
    """What was cited stays, when a newer release is shown. No two cells of one release have the same."""
    every = found.assign(outcome=WRONG)
    for _, part in every.groupby("release"):
        names = consumer_runs.ids(part)
        assert names.is_unique and names.str.fullmatch(r"run(-[a-z0-9]+)+").all()
    of = every.assign(run=consumer_runs.ids(every)).groupby(["isa", "provider", "way", "consumer"])["run"].agg(set)
    assert of["x86_64", "return_to_handler", "pt_regs", "user-mode"] == {"run-x86-64-return-to-handler-pt-regs-user-mode"}
    assert of["arm64", "ftrace_caller", "perf", "argument"] == {"run-arm64-ftrace-caller-perf-argument"}
    assert (of.map(len) == 1).all()


def test_in_every_release_what_is_not_right_shows_another_answer(found):
    """Of garbage, too, where the samples happen to give the right one."""
    bad = found[found["outcome"].isin(BAD)]
    assert set(bad["release"]) == set(consumers.RELEASES) and (bad["said"] != bad["should"]).all()
