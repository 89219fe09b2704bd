"""Findings: every guard is so, a guard notices each named number that moves, and no citation loses its scope."""

import functools
import re

import numpy as np
import pytest

from support.publish import worded
from tramplab import TramplabError
from tramplab.cli import main
from tramplab_book import studies
from tramplab_book.publish.cite import cite
from tramplab_book.publish.claims import claims, verdict
from tramplab_book.publish.figures.figure import Figure
from tramplab_book.publish.figures.show import show
from tramplab_book.publish.findings import findings, guard, rendered
from tramplab_book.studies import stated

FINDINGS = findings.read()
#: What has digits and is no measurement: ISAs, releases, commits, names of registers and programs.
NAMES = re.compile(r"x86-64|arm64|riscv64|v\d+\.\d+|\b[0-9a-f]{12}\b|\b[KM]1\b|\bX60\b|A72|Zen \d|16k|\b[axt]\d\b|\bC\b")


@functools.cache
def numbers_of(name):
    """The numbers of a finding's study."""
    return stated.numbers_of(FINDINGS[name])


@pytest.mark.parametrize("name", FINDINGS)
def test_every_guard_is_so(name):
    """A failing one says which finding, both sides and their values: somebody rewrites the sentence."""
    assert not stated.stated(FINDINGS[name]).problem, name


@pytest.mark.parametrize("name", findings.titles())
def test_a_title_is_so_and_has_no_number_of_its_own(name):
    title, study = findings.titles()[name], studies.with_figure(name)
    numbers = study.numbers(study.rows())
    assert not guard.failures(title.holds, numbers)
    worded.noticed(title.says, title.holds, numbers)
    assert not re.search(r"\d", NAMES.sub("", re.sub(r"\{[^{}]+\}", "", title.says))) and title.says[-1] not in ".?"
    assert len(title.filled(numbers)) <= 72 and len(re.findall(r"\{", title.says)) <= 2
    assert show(study, name).text.replace("\n", " ").startswith(title.filled(numbers))


def test_every_figure_is_headed_with_what_it_shows():
    """But for those of the machine that builds the book, of which nothing can be said before."""
    assert {f.id for study in studies.every().values() for f in study.FIGURES if not f.own} == set(findings.titles())


def test_a_title_that_is_not_so_any_more_gives_way_to_the_question(monkeypatch):
    study = studies.with_figure("fig-anatomy-arm64")
    rows = study.rows()
    other = {**study.numbers(rows), "arm64-kretprobe-exception": 1}
    monkeypatch.setattr(study, "numbers", lambda _: other)
    assert show(study, "fig-anatomy-arm64", rows).text.startswith("Which functions does a hooked call go through on arm64?")


@pytest.mark.parametrize("name", FINDINGS)
def test_a_guard_notices_each_named_number_that_moves_and_each_compared_pair_that_is_swapped(name):
    finding = FINDINGS[name]
    worded.noticed(f"{finding.says} {finding.because}", finding.holds, numbers_of(name))


@pytest.mark.parametrize("name", [*FINDINGS, *findings.titles()])
def test_a_number_has_its_isa_beside_it_and_a_share_a_comparison(name):
    """Most, half, twice, only: what no guard says could be changed into another word, and an ISA into another ISA."""
    one = FINDINGS.get(name) or findings.titles()[name]
    because = getattr(one, "because", "")
    found = [*worded.not_beside(one.says, one.holds), *worded.not_beside(because, one.holds, one.says)]
    found += [word for text in (one.says, because) for word in worded.unguarded(text, one.holds)]
    assert not found, found


@pytest.mark.parametrize(
    ("old", "new"),
    [("costs twice a", "costs half a"), ("instructions on arm64", "instructions on riscv64"), ("{arm64-direct", "{riscv64-direct")],
)
def test_a_changed_word_is_noticed(old, new):
    """What passed before each text was held."""
    finding = FINDINGS["fprobe-is-twice"]
    changed = finding.says.replace(old, new)
    assert changed != finding.says
    assert worded.not_beside(changed, finding.holds) or worded.unguarded(changed, finding.holds)


@pytest.mark.parametrize("name", FINDINGS)
def test_a_text_has_no_number_of_its_own_and_says_where_it_is_hypothetical(name):
    finding = FINDINGS[name]
    for text in (finding.says, finding.because):
        assert not re.search(r"\d", NAMES.sub("", re.sub(r"\{[^{}]+\}", "", text))), text
        assert "..." not in text and "…" not in text and text[-1] in ".?"
    if finding.hypothetical:
        assert re.search(r"hypothetical|proposed|no kernel", f"{finding.says} {finding.scope}")
    assert stated.study_of(finding) is studies.with_figure(finding.figure)


def test_claims_and_pages_name_findings_that_are_theirs():
    for name, finding in FINDINGS.items():
        for claim in map(claims.get, finding.claims):
            assert claim.judge == stated.study_of(finding).__name__, name
            found = verdict.judge(claim.id)
            assert found.kind == claim.expect and found.because.startswith(stated.stated(finding).says)
    named = [one for finding in FINDINGS.values() for one in finding.claims]
    assert len(named) == len(set(named))
    for page in {finding.page for finding in FINDINGS.values()}:
        assert [f.id for f in findings.of_page(page) if f.page != page] == []


# -- shown and cited


@pytest.mark.parametrize("name", FINDINGS)
def test_a_citation_keeps_its_scope_however_little_room_there_is(name):
    """Line by line, down to the lines that every citation has."""
    finding = FINDINGS[name]
    whole = stated.citation(name)
    scope = " ".join(finding.limits.split())
    for lines in range(cite.LINES, 0, -1):
        text = stated.citation(name, lines=lines)
        assert scope in " ".join(text.split()) and "..." not in text
        assert len(text.splitlines()) <= cite.LINES and max(map(len, text.splitlines())) <= 72
    assert stated.stated(finding).says in " ".join(whole.split())


def test_a_page_and_a_figure_are_cited_with_the_scope_of_each_finding(capsys):
    for name in ("patching-races", "fig-patching"):
        assert main(["cite", name]) == 0
        text = " ".join(capsys.readouterr().out.split())
        there = [f for f in FINDINGS.values() if stated.stated(f).says in text]
        assert there and all(f.scope.rstrip(".") in text for f in there)


def test_a_finding_that_is_not_so_any_more_is_shown_with_what_is_not(monkeypatch, capsys):
    finding = FINDINGS["guard-is-lost"]
    numbers = {**numbers_of(finding.id), "arm64-guarded-stays-3-added": 161}
    monkeypatch.setattr(stated, "numbers_of", lambda _: numbers)
    one = stated.stated(finding)
    assert one.problem == "arm64-guarded-stays-3-added < 0.35 * arm64-guarded-stays-1-added is not so: 161 and 56.35"
    for text in (rendered.below(one)[1], rendered.in_short_text([one]), rendered.as_text([one]), stated.citation(finding.id)):
        assert "Not so in this run: arm64-guarded-stays-3-added" in " ".join(text.split())
    assert main(["findings", finding.id]) == 1 and "Not so in this run" in capsys.readouterr().out


def test_a_claim_whose_finding_is_not_so_has_another_verdict_than_expected(monkeypatch):
    study = stated.study_of(findings.of_claim("v2"))
    other = {**numbers_of("restores-are-needed"), "clobbers": 88}
    monkeypatch.setattr(study, "numbers", lambda rows: other)
    monkeypatch.setattr(verdict, "_VERDICTS", {})
    found = verdict.judged("v2")
    assert found.verdict.kind == verdict.REFUTED and "clobbers == dropped is not so" in found.verdict.because
    assert "expected was: holds" in found.problem


def test_numbers_are_kept_and_made_once_for_the_same_sources(monkeypatch, empty):
    made = []

    class Counting:
        NAME = "counting_calls"

        def rows(self):
            return made.append(1)

        def numbers(self, rows):
            return {"arm64-added": np.int64(44), "release": "v7.2", "rank": 0.96}

    study, wanted = Counting(), {"arm64-added": 44, "release": "v7.2", "rank": 0.96}
    assert stated.numbers_in(study) == wanted == stated.numbers_in(study) and made == [1]
    monkeypatch.setattr(stated, "_kept_for", lambda: "numbers-of-other-sources")
    assert stated.numbers_in(study)["arm64-added"] == 44 and made == [1, 1]
    assert stated.numbers_in(Figure("fig-x", "No study?")) == {}


def test_a_page_says_in_short_what_its_figures_do_not_say_again():
    page = stated.in_short("trampoline-variants")
    figure = show(studies.with_figure("fig-single-callback"), "fig-single-callback")
    for finding in findings.of_page("trampoline-variants"):
        assert f'<li id="{finding.id}">' in page.html and stated.stated(finding).says in " ".join(page.text.split())
        assert f'id="{finding.id}"' not in figure.html
    other = stated.stated(findings.get("saving-less-saves-little"))
    assert f'id="{other.finding.id}"' in figure.html and f"{other.says} {other.because}" in " ".join(figure.text.split())


def test_a_notebook_shows_one_finding_with_scope_and_citation():
    found = stated.one("guard-is-lost")
    assert 'id="guard-is-lost"' in found.html and "Scope: arm64 since" in found.text
    assert found.citation == stated.citation("guard-is-lost")


def test_findings_as_json_have_guards_and_scope(capsys):
    assert main(["findings", "ways-out-ask-less", "--json"]) == 0
    text = capsys.readouterr().out
    assert '"seen_in": ["lab", "image"]' in text and '"holds": [' in text and '"problem": null' in text


# -- the language of guards


@pytest.mark.parametrize(
    ("text", "numbers", "failed"),
    [
        ("near < far", {"near": 1, "far": 2}, []),
        ("near < far", {"near": 2, "far": 2}, ["near < far is not so: 2 and 2"]),
        ("0 < near < far", {"near": -1, "far": 2}, ["0 < near is not so: 0 and -1"]),
        ("max(near, far) <= 0.5 * all and how == 'safe'", {"near": 1, "far": 2, "all": "4", "how": "safe"}, []),
        ("how == 'safe'", {"how": "torn"}, ["how == 'safe' is not so: torn and safe"]),
        ("min(near, far) >= 1.5", {"near": 1, "far": 2}, ["min(near, far) >= 1.5 is not so: 1 and 1.5"]),
        ("x86_64-direct+ops-added != 3", {"x86_64-direct+ops-added": 3}, ["x86_64-direct+ops-added != 3 is not so: 3 and 3"]),
    ],
)
def test_guards(text, numbers, failed):
    assert guard.failures([text], numbers) == failed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("near", "has no comparison in 'near'"),
        ("near < ", "has no comparison in"),
        ("naer < far", "did you mean near"),
        ("near < how", "compares a text with a number"),
        ("0.5 * how < near", "is 'safe' and no number"),
    ],
)
def test_a_guard_that_is_none_is_a_sentence(text, complaint):
    with pytest.raises(TramplabError, match=re.escape(complaint)):
        guard.failures([text], {"near": 1, "far": 2, "how": "safe"})
