"""In short: what a page says at its top is said by its figures, in three to five sentences that fit a mail."""

import dataclasses

import pytest

from support import ROOT
from tramplab import studies
from tramplab.cli import main
from tramplab.publish.cite import cite
from tramplab.publish.claims import claims
from tramplab.publish.figures.figure import find
from tramplab.studies import short
from tramplab.studies.front import claimed

PAGES = sorted(short.PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_it_once_below_its_heading_and_shows_its_figures(page):
    text = (ROOT / "book" / f"{page}.md").read_text("utf-8")
    call = f'in_short("{page}")'
    assert text.count(call) == 1 and text.index(f"({page})=") < text.index("\n# ") < text.index(call)
    assert text.index(call) < min(text.index(f"name: {figure}") for figure in short.PAGES[page] if f"name: {figure}" in text)
    assert [figure for figure in short.PAGES[page] if f"name: {figure}\n" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_it_has_an_answer(page):
    declared = {name: studies.with_figure(name) for name in short.PAGES[page]}
    assert [name for name, study in declared.items() if not study or not find(study, name).answer] == []
    said = short.sentences(page)
    assert 3 <= len(said) <= 5
    assert all(one.text.endswith((".", "?", "!")) for one in said)
    assert max(map(len, short.in_short(page).text.splitlines())) <= 66


@pytest.fixture
def answered(monkeypatch):
    """Every figure of the pages has the same answer, of two sentences."""

    def figure(study, name):
        return dataclasses.replace(find(study, name), answer=lambda frame: f"{name} <says> {len(frame)}. {name} <says> more.")

    monkeypatch.setattr(short, "find", figure)


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize("page", ["real-kernels", "counts-to-time"])
def test_sentences_lead_to_their_figures_and_are_the_pages_citation(page, capsys):
    shown = short.in_short(page)
    for figure in short.PAGES[page]:
        assert f"{figure} &lt;says&gt; " in shown.html and f'href="#{figure}"' in shown.html and f"({figure})" in shown.text
    assert shown.html.count("<li>") == sum(map(len, short.PAGES[page].values()))
    assert main(["cite", page]) == 0
    text = capsys.readouterr().out
    assert text == shown.citation and len(text.splitlines()) <= 12 and max(map(len, text.splitlines())) <= 72
    whole = " ".join(short.citation(page, full=True).split())
    assert all(f"{figure} <says>" in whole for figure in short.PAGES[page])
    limits = "cycles are estimates with their band"
    assert (limits in " ".join(text.split())) == (page == "counts-to-time")


def test_a_figure_without_an_answer_says_nothing(monkeypatch):
    monkeypatch.setitem(short.PAGES, "unwinding", {"fig-counting": (0,), "fig-that-is-gone": (0,)})
    assert short.sentences("unwinding") == [] and "<li>" not in short.in_short("unwinding").html
    assert short.citation("unwinding") == cite.place("unwinding")


def test_how_claims_came_out_is_counted_by_the_verdicts_on_file(monkeypatch):
    expected = [claims.HOLDS, claims.DEPENDS, claims.HOLDS, claims.FAILS, ""]
    one = claims.get("v1")
    small = {f"x{n}": dataclasses.replace(one, expect=expect) for n, expect in enumerate(expected)}
    monkeypatch.setattr(claims, "read", lambda: small)
    wanted = "2 hold, 1 do not hold, 1 hold on some conditions only and 1 are not judged yet"
    assert claimed.verdicts() == f"Of 5 claims made in the threads {wanted}."
