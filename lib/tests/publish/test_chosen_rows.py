"""Citations of a figure's rows: those that a reader chooses, the first ones, and those of a figure of a reader's own."""

import dataclasses
import re

import pandas as pd
import pytest

from support.complaints import refused
from tramplab.cli import main
from tramplab_book import studies
from tramplab_book.publish import phrases
from tramplab_book.publish.cite import edition
from tramplab_book.publish.figures.citation import CHOICES, block, chosen_rows, citation
from tramplab_book.publish.figures.citation import _by as chosen_by
from tramplab_book.publish.figures.figure import Figure, find
from tramplab_book.publish.findings import findings
from tramplab_book.publish.table import pivot
from tramplab_book.studies import stated

FINDINGS = findings.read()
FIGURES = {figure.id: (study, figure) for study in studies.every().values() for figure in study.FIGURES}


TABLE = pivot("instructions", index=("isa", "hook"))


def rows() -> pd.DataFrame:
    """Rows of one count; the numbers mean nothing."""
    return pd.DataFrame(
        [
            {"isa": isa, "release": release, "hook": hook, "component": "site", "instructions": 100 * i + 10 * j + k}
            for i, isa in enumerate(("x86_64", "arm64"))
            for j, release in enumerate(("v6.1", "v7.2"))
            for k, hook in enumerate(("ops", "ops x2", "ops-live *"))
        ]
    )


class Study:
    NAME, TITLE = "example", "An example"

    def __init__(self, *figures):
        self.FIGURES = figures

    def rows(self):
        return rows()


NEWEST = Figure("fig-x", "How much?", rows=lambda frame: frame[frame["release"] == "v7.2"], table=TABLE)
ACROSS = Figure("fig-y", "Since when?", table=pivot("instructions", across="release", index=("isa", "hook"), total=False))


def test_without_a_finding_the_first_rows_are_cited():
    many = pd.concat([rows().assign(hook=f"hook{n}") for n in range(9)])
    text = block(Study(), dataclasses.replace(NEWEST, table=lambda _: many), rows())
    assert re.search(r"^\((\d+) more lines: tramplab cite fig-x --full\)$", text, re.M) and text.count("hook0") > 2
    tall = many.rename(columns={"hook": " ".join(f"h{n}" for n in range(30))})
    assert "h7" not in block(Study(), dataclasses.replace(NEWEST, table=lambda _: tall), rows()), "no heading without a row"


@pytest.mark.parametrize(
    ("figure", "chosen", "lines"),
    [
        (NEWEST, {"isa": "arm64"}, 3),
        (NEWEST, {"isa": "arm64", "hook": "ops-live"}, 1),
        (NEWEST, {"release": "v7.2"}, 6),
        (ACROSS, {"release": "v6.1", "hook": "ops"}, 2),
    ],
)
def test_rows_are_chosen(figure, chosen, lines):
    table = chosen_rows(figure, figure.rows(rows()), chosen)
    assert len(table) == lines and ("v7.2" in table.columns) == (figure is ACROSS and "release" not in chosen)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fig-by-release", "--isa", "arm46"], "unknown isa of fig-by-release 'arm46'; did you mean arm64"),
        (["fig-by-release", "--hook", "opps"], "unknown hook of fig-by-release 'opps'; did you mean ops"),
        (["fig-by-release", "--release", "v6.3"], "unknown release of fig-by-release 'v6.3'; did you mean v6.4"),
        (["fig-dead-registers", "--release", "v6.4"], "the table of fig-dead-registers is not by release; its rows"),
        (["s5", "--isa", "arm64"], "s5 is no figure and has no rows to choose by --isa."),
        (["fig-by-release", "--isa", "arm64", "--bibtex"], "BibTeX has no rows to choose by --isa."),
        (["fig-single-calback"], "did you mean fig-single-callback"),
    ],
)
def test_what_is_not_there_is_one_sentence(arguments, complaint, capsys):
    assert main(["cite", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


PANELS = pd.DataFrame(
    [
        {"isa": panel, "mechanism": f"{n} ops", "of": isa, "added": 10 * n + k}
        for k, (isa, panel) in enumerate((("x86_64", "x86-64, ORC"), ("arm64", "arm64 v7.2")))
        for n in (1, 2)
    ]
)


@pytest.mark.parametrize(
    ("table", "chosen", "added"),
    [
        (PANELS, {"isa": "x86_64"}, [10, 20]),
        (PANELS, {"isa": "arm64", "hook": "2 ops"}, [21]),
        (PANELS.assign(isa=["fentry / two ops"] * 2 + ["fexit"] * 2), {"hook": "two ops"}, [10, 20]),
        (PANELS.assign(isa=["fentry / two ops"] * 2 + ["fexit"] * 2), {"isa": "arm64"}, [11, 21]),
        (PANELS.drop(columns="isa"), {"isa": "x86_64"}, [10, 20]),
    ],
)
def test_an_isa_is_no_panels_title_and_rows_that_are_hooks_are_chosen_by_hook(table, chosen, added):
    figure = Figure("fig-x", "How much?", table=lambda frame: table.loc[frame.index])
    assert [*chosen_rows(figure, PANELS.assign(isa=PANELS["of"]), chosen)["added"]] == added


def test_rows_of_a_figure_bring_the_findings_that_are_about_them():
    study, figure = FIGURES["fig-found"]
    text = " ".join(citation(study, figure.id, chosen={"isa": "x86_64"}).split())
    assert stated.stated(FINDINGS["nmissed-was-honest"]).says in text
    assert "Further: segment-is-old-stack (tramplab cite ID)." in text
    assert "Further: nmissed-was-honest, graph-hides-callers," in citation(study, figure.id)
    assert stated.stated(FINDINGS["entry-is-refused"]).says in " ".join(citation(study, figure.id, full=True).split())


def test_chosen_rows_carry_their_own_mark():
    """What the mark means is said where a chosen row has it, and nothing of it where none has."""
    figure = dataclasses.replace(NEWEST, hypothetical=True)
    for hook, starred in (("ops", False), ("ops-live", True)):
        text = " ".join(citation(Study(figure), "fig-x", chosen={"hook": hook}).split())
        assert (phrases.HYPOTHETICAL in text) == starred and "In part hypothetical" not in text
    assert "In part hypothetical: no kernel has it." in figure.limits_of("It adds."), "no star is explained where none is"


def test_each_value_of_a_figure_can_be_chosen():
    assert not refused(check_choices, FIGURES)


#: A cell whose numbers or mark no heading explains.
PAIR = re.compile(r"\d[\d.]*([/x+][\d.]+|[!?])")


def check_choices(name):
    study, figure = FIGURES[name]
    frame = figure.rows(study.rows())
    table = figure.table(frame)
    pairs = [cell for cell in table.to_numpy().ravel() if PAIR.fullmatch(str(cell))]
    assert figure.legend or not pairs, "what do its pairs and marks mean?"
    figure = dataclasses.replace(figure, table=lambda _: table.copy())  # made once, not for each value
    cells = [(what, str(cell)) for what in CHOICES for column in chosen_by(table, what) for cell in table[column]]
    for what, value in dict.fromkeys((what, cell.removesuffix(phrases.MARK)) for what, cell in cells):
        text = block(study, figure, frame, chosen={what: value})
        assert figure.legend in " ".join(text.split())
        assert len(text.splitlines()) <= 12 and max(map(len, text.splitlines())) <= 72


def test_a_readers_own_figure_has_a_citation_without_a_link(monkeypatch):
    monkeypatch.delenv("TRAMPLAB_GEN", raising=False)
    monkeypatch.setenv("TRAMPLAB_URL", "https://example.org")
    edition.current.cache_clear()
    study = FIGURES["fig-counting"][0]
    own = Study(dataclasses.replace(find(study, "fig-counting"), id="fig-my-own"))
    own.rows = study.rows
    text = citation(own, "fig-my-own")
    edition.current.cache_clear()
    assert "Link:" not in text and text.endswith("(not in a published edition)\n")
