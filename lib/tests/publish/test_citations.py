"""What a reader pastes into a mail: at most twelve lines that say what was found, what the numbers are, and how to see it again."""

import dataclasses
import re

import pandas as pd
import pytest

from support.complaints import refused
from support.publish.some_claims import IDS
from tramplab.cli import main
from tramplab_book import studies
from tramplab_book.commands import study_text
from tramplab_book.publish import phrases
from tramplab_book.publish.cite import cite, edition, pages, permalinks
from tramplab_book.publish.claims import claims, ledger, verdict
from tramplab_book.publish.figures.citation import CHOICES, block, chosen_rows, citation, titled
from tramplab_book.publish.figures.citation import _by as chosen_by
from tramplab_book.publish.figures.citation import stated as stated_of
from tramplab_book.publish.figures.figure import Figure, find
from tramplab_book.publish.figures.show import show
from tramplab_book.publish.findings import findings
from tramplab_book.publish.table import pivot, text_table
from tramplab_book.studies import stated

FINDINGS = findings.read()
FIGURES = {figure.id: (study, figure) for study in studies.every().values() for figure in study.FIGURES}


NOWHERE, REAL = "https://tramplab.example", "https://example.org"
#: Every citable id at a real address, and one of each kind at one that leads nowhere.
CITED = {REAL: [*permalinks.read()], NOWHERE: ["fig-by-release", "v3", "single-callback", "unwinding", "tramplab"]}


@pytest.fixture(params=CITED, ids=("real", "nowhere"))
def base(request, monkeypatch):
    """The address of a book that is of a commit: one that leads nowhere, or a real one."""
    now = dataclasses.replace(edition.current(), commit="1" * 12, name="1" * 7, base_url=request.param)
    monkeypatch.setattr(edition, "current", lambda: now)
    return request.param


def said_by(capsys, *arguments) -> str:
    assert main(["cite", *arguments]) == 0
    return capsys.readouterr().out


def entries_of(text: str):
    """BibTeX entries by their keys. By the parser itself: whoever is asked for one looks through all that is installed."""
    from pybtex.database.input.bibtex import Parser

    return Parser().parse_string(text).entries


# -- every citable id

#: Whose numbers they are, in every citation but a claim's, whose scope says it in its own words.
WHOSE = (cite.LAB, "rewritten trampolines and C core, not Linux", "emulated from their images", "both emulated")
WHOSE += ("booted under QEMU", "in a booted kernel", "Seen in Debian's images")


def check_rerun(lines, command, base):
    """How to run it again, and where its terms are explained: at an address, or in the checkout that one needs for the first."""
    terms = f"Terms: {base}/e/{edition.current().name}/p/glossary.html"
    assert (terms in lines) == (base == REAL)
    assert (f"Rerun: {command}" if base == REAL else f"Rerun: {command}; terms: book/glossary.md") in lines


def test_a_citation_fits_a_mail_and_stands_without_its_link(base, capsys):
    assert not refused(lambda name: check_citation(name, base, capsys), CITED[base])


def check_citation(name, base, capsys):
    text = said_by(capsys, name)
    lines, now = text.splitlines(), edition.current()
    assert len(lines) <= 12 and max(map(len, lines)) <= 72, text
    assert any(what in " ".join(lines) for what in WHOSE) or name in IDS
    now_named = permalinks.get(name).target.partition("#")[2]
    name = now_named if now_named in FINDINGS or now_named in FIGURES else name
    assert has_result(name, " ".join(text.split())), text
    command = "claims" if name in IDS else "findings" if name in FINDINGS else ""
    where = f"; rerun: tramplab {command} {name}" if command else f", {name}"
    assert f"edition {now.version}, commit {now.commit}{where}" in " ".join(lines)
    link = f"Link: {base}/e/{now.name}/p/{name}.html"
    assert (lines[-1] == link) == (base == REAL) == ("://" in text)
    if name in FIGURES and not findings.of_figure(name):
        check_rerun(lines, f"tramplab run {FIGURES[name][0].NAME}", base)


@pytest.mark.parametrize("base", [REAL], indirect=True)
def test_each_box_has_its_link(base):
    """Of a figure, a claim, a page that says something in short, and one of which a page has the box at its end."""
    boxes = {"fig-counting": show(FIGURES["fig-counting"][0], "fig-counting").html, "v4": ledger.box("v4").html}
    boxes |= {"anatomy": stated.in_short("anatomy").html, "method": cite.box(cite.place("method"), "method")}
    for name, text in boxes.items():
        assert cite.boxed(text, name).endswith(f"Link: {base}/e/{edition.current().name}/p/{name}.html\n"), name


#: Lists without a sentence of their own.
LISTS = {"glossary-hooks", "glossary-terms", "references-docs", "references-mails", "references-commits"}


def has_result(name, text) -> bool:
    """Is there what was found: of a claim the result on file or the first that its judge says, of a figure its title or finding, of
    a chapter or section a sentence behind its heading?"""
    if name in IDS:
        found, claim = verdict.judge(name), claims.get(name)
        named = all(mail.author in text for mail in (claim.mail, claim.also, claim.answered) if mail)
        return named and (found.result or cite.sentences(found.because)[0]) in text
    if name in FINDINGS:
        return stated.stated(FINDINGS[name]).says in text
    if name in FIGURES:
        study, figure = FIGURES[name]
        rows = study.rows()
        said = [s.says for s in stated_of(study, figure, rows)] or [titled(study, figure, rows)]
        return said[0] in text
    link = permalinks.get(name)
    heading = " ".join(pages.heading(link.page, link.target.partition("#")[2]).split())
    said = text.partition("Tramplab, edition")[0].partition(heading)[2] or text
    return name in LISTS or len(re.findall(r"\w{2,}[^.?!]*[.?!]", said.removeprefix("."))) > 1


def test_a_bibtex_entry_fits_a_mail_and_has_a_key_of_its_own(base, capsys):
    assert not refused(lambda name: check_bibtex(name, base, capsys), CITED[base])


def check_bibtex(name, base, capsys):
    text = said_by(capsys, name, "--bibtex")
    assert max(map(len, text.splitlines())) <= 72 and text.count("{") == text.count("}")
    ((key, entry),) = entries_of(text).items()
    assert ("url" in entry.fields) == (base == REAL) and edition.current().commit in entry.fields["note"]
    if name in FIGURES:
        assert key == f"tramplab-{name}" and name in entry.fields["note"] and entry.type == "incollection"
        assert entry.fields["title"] == re.sub(r"([&%$#_{}])", r"\\\1", FIGURES[name][1].question)


def test_the_book_and_its_chapters_have_bibtex_entries():
    chapter = entries_of(cite.bibtex("single-callback-history"))["tramplab-trampoline-releases"]
    assert chapter.fields["title"] == "Since which release" and chapter.type == "incollection"
    assert entries_of(cite.bibtex("tramplab"))["tramplab"].type == "book"


def test_full_has_the_whole_table(capsys):
    study, figure = FIGURES["fig-by-release"]
    table = text_table(figure.table(figure.rows(study.rows())), split="isa")
    short, full = said_by(capsys, figure.id), said_by(capsys, figure.id, "--full")
    assert table in full and table not in short and max(map(len, full.splitlines())) <= 72
    assert all(limit in " ".join(full.split()) for limit in (figure.limits, cite.LAB))
    claim = said_by(capsys, "s5", "--full")
    assert "YICbK5JLqRXnjgEW@krava" in claim and "235 instructions instead of 46" in " ".join(claim.split())


# -- what the numbers are


#: What a citation says of numbers that are no counts.
TIMES = re.compile(r"estimates with their band|native (times|cycles)|published times")


def test_estimates_and_times_are_not_called_counts():
    """By the table: a column of cycles or nanoseconds, or a cell with a band."""
    assert not refused(check_kind, FIGURES)


def check_kind(name):
    study, figure = FIGURES[name]
    frame = figure.rows(study.rows())
    table = figure.table(frame)
    titles = " ".join(map(str, [*table.columns, *table.attrs.get("units", {}).values()]))
    banded = table.astype(str).apply(lambda column: column.str.contains(r"\d \(-?\d[\d.]* to ")).to_numpy().any()
    text = " ".join(citation(study, name).split())
    if banded or re.search(r"\b(cycles|estimates?|band|ns)\b", titles):
        assert TIMES.search(text) and "not time" not in text
    else:
        assert ("not time" in text) != bool(TIMES.search(text))
    assert figure.hypothetical == ("hypothetical: no kernel has it" in text) or findings.of_figure(name)


def test_where_cycles_are_shown_is_said_that_they_were_measured_or_by_which_model_they_are_estimates():
    """On the page and in its text form, where a figure stands without its citation, and by `tramplab run`."""
    assert not refused(check_cycles, FIGURES)


def check_cycles(name):
    study, figure = FIGURES[name]
    rows = study.rows()
    frame, shown = figure.rows(rows), show(study, name, rows)
    for text, of in ((shown.text, frame), (shown.html.partition('class="tl-cite"')[0], frame), (study_text(study, rows), rows)):
        if re.search(r"\bcycles\b", text) and not re.search(r"\b([Mm]easured|[Tt]imed)\b", text):
            cores = set(map(str, of["core"].dropna())) if "core" in of else {""}  # else the sentences name them, or the machines
            assert "estimate" in text and (any(core in text for core in cores) or "models of cores" in text)


# -- rows of one's choice

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


def test_a_claims_citation_keeps_its_scope_however_little_room_there_is():
    assert not refused(check_scope, IDS)


def check_scope(claim):
    scope = ledger.citation(claim, full=True).split("\n\n")[-1].partition("Tramplab, edition")[0]
    for lines in range(cite.LINES, 0, -1):
        text = ledger.citation(claim, lines=lines)
        assert " ".join(scope.split()) in " ".join(text.split()) and "..." not in text and f"Claim {claim}, in our words:" in text


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


# -- a reader's own


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


def test_what_a_page_shows_is_what_the_command_prints(monkeypatch):
    monkeypatch.delenv("TRAMPLAB_GEN", raising=False)
    study, figure = FIGURES["fig-callbacks"]
    assert show(study, figure.id).citation == citation(study, figure.id)
