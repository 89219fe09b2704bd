"""What a reader pastes into a mail: at most twelve lines that say what was found, what the numbers are, and how to see it again."""

import dataclasses
import re

import pytest

from support.complaints import refused
from support.publish.some_claims import IDS
from tramplab.cli import main
from tramplab_book import studies
from tramplab_book.commands import study_text
from tramplab_book.publish.cite import cite, edition, pages, permalinks
from tramplab_book.publish.claims import claims, ledger, verdict
from tramplab_book.publish.figures.citation import citation, titled
from tramplab_book.publish.figures.citation import stated as stated_of
from tramplab_book.publish.figures.show import show
from tramplab_book.publish.findings import findings
from tramplab_book.publish.table import text_table
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


def test_a_claims_citation_keeps_its_scope_however_little_room_there_is():
    assert not refused(check_scope, IDS)


def check_scope(claim):
    scope = ledger.citation(claim, full=True).split("\n\n")[-1].partition("Tramplab, edition")[0]
    for lines in range(cite.LINES, 0, -1):
        text = ledger.citation(claim, lines=lines)
        assert " ".join(scope.split()) in " ".join(text.split()) and "..." not in text and f"Claim {claim}, in our words:" in text


def test_what_a_page_shows_is_what_the_command_prints(monkeypatch):
    monkeypatch.delenv("TRAMPLAB_GEN", raising=False)
    study, figure = FIGURES["fig-callbacks"]
    assert show(study, figure.id).citation == citation(study, figure.id)
