"""What a reader sees of claims: boxes, the ledger, both as text and JSON, and their places in the book."""

import dataclasses
import html
import json
import re

import pytest

from support.plugins.browser import TOC, Links
from support.publish.some_claims import IDS, JUDGED, changed, whole
from tramplab.base.errors import TramplabError
from tramplab.base.paths import checkout, data_file
from tramplab_book.publish.claims import claims, ledger, verdict
from tramplab_book.publish.claims.claims import DEPENDS, HOLDS
from tramplab_book.publish.claims.verdict import Verdict
from tramplab_book.studies.front import claimed


@pytest.mark.parametrize("claim_id", IDS)
def test_texts_fit_their_places(claim_id):
    shown = ledger.box(claim_id)
    assert max(len(line) for line in shown.text.splitlines() if not line.startswith("<")) <= 66
    for text in (shown.text, shown.citation, ledger.as_text(claim_id)):
        assert max(map(len, text.splitlines())) <= 72
    assert shown.citation.startswith(f"Claim {claim_id}, in our words: ")
    assert claims.get(claim_id).threads[0].title in " ".join(ledger.citation(claim_id, full=True).split())
    mail = claims.get(claim_id).mail
    assert mail is None or (f"<{mail.id}>" in shown.citation and mail.author in " ".join(shown.citation.split()))
    assert shown._repr_mimebundle_() == {"text/html": shown.html, "text/plain": shown.text}


def test_the_ledger_has_every_claim_once_under_its_id():
    page, text = whole(), ledger.as_text()
    for claim_id in IDS:
        assert page.count(f' id="{claim_id}"') == 1
        assert len(re.findall(rf"^{claim_id} ", text, re.M)) == 1
    assert set(IDS) <= Links(page).ids
    count = f"{len(JUDGED)} of {len(IDS)} claims judged"
    assert text.startswith(count) and f">{count}" in page
    assert page.count("Not yet judged.") == text.count("not yet judged") == len(IDS) - len(JUDGED)
    assert max(map(len, text.splitlines())) <= 72
    with pytest.raises(TramplabError, match="unknown chapter 'call-opps'; did you mean call-ops"):
        ledger.ledger("call-opps")


def test_every_claim_is_listed_once_under_the_kind_of_its_verdict():
    shown = ledger.verdicts()
    lines = re.findall(r"<li><span[^>]*>.</span> <strong>(.*?)</strong>: (.*?)</li>", shown.html)
    listed = {name: kind for kind, links in lines for name in re.findall(r'<a href="#(\w+)">\1</a>', links)}
    verdicts = {name: verdict.judge(name) for name in IDS}
    assert listed == {name: (v.kind if v else ledger.NOT_JUDGED).capitalize() for name, v in verdicts.items()}
    assert sum(links.count("<a ") for _, links in lines) == len(IDS)
    rows = shown.text.partition("\n\n")[2].splitlines()
    assert [row[:4].strip() for row in rows if row[0] != " "] == IDS and max(map(len, rows)) <= 66


def test_a_chapter_of_the_page_is_a_section_with_its_claims():
    """So that the page's contents list it; its text has all of every claim."""
    text = (checkout() / "book" / "claims.md").read_text("utf-8")
    titles = {claim.chapter: claim.chapter_title for claim in claims.read().values()}
    assert re.findall(r"^\(claims-([\w-]+)\)=\n## (.*)\n\n[^(]*\nledger\(\"([\w-]+)\"\)$", text, re.M) == [
        (chapter, title, chapter) for chapter, title in titles.items()
    ]
    for chapter in titles:
        said = " ".join(ledger.ledger(chapter).text.split())
        assert all(c.said in said and c.source in said for c in claims.read().values() if c.chapter == chapter)
        brief = " ".join(ledger.ledger(chapter).brief.split())
        for c in (one for one in claims.read().values() if one.chapter == chapter):
            assert c.said in brief and all(f"<{message}>" in brief for message in c.messages)
        for text in (ledger.ledger(chapter).text, ledger.ledger(chapter).brief):
            assert max(len(line) for line in text.splitlines() if line.lstrip()[:1] != "<") <= 66


def test_a_claim_is_folded_under_its_words_and_verdict():
    page = whole()
    folded = re.findall(r'<details class="tl-claim tl-(\w+)" id="(\w+)"><?\n?<summary>(.*?)</summary>', page)
    assert [name for _, name, _ in folded] == IDS
    for kind, name, summary in folded:
        assert html.escape(claims.get(name).said) in summary and (kind == "unjudged") == (name not in JUDGED)
        words = str(verdict.judge(name))
        assert name not in JUDGED or f"<strong>{html.escape(words[0].upper() + words[1:])}.</strong>" in summary


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_box_links_to_the_ledger_the_mail_and_the_experiment(claim_id):
    shown, links = ledger.box(claim_id), Links(ledger.box(claim_id).html).links
    assert f"claims.html#{claim_id}" in links and "claims.html" in links
    assert {f"https://lore.kernel.org/r/{m}/" for m in claims.get(claim_id).messages} < set(links)
    module, line = re.search(r">studies/([\w/]+\.py), line (\d+)</a>", shown.html).groups()
    source = (checkout() / "lib" / "tramplab_book" / "studies" / module).read_text("utf-8").splitlines()
    assert source[int(line) - 1].startswith("def numbers(")
    words = str(verdict.judge(claim_id))
    assert f"<strong>{words[0].upper()}{words[1:]}.</strong>" in shown.html
    assert f"Verdict: {words}." in " ".join(shown.citation.split())


def test_text_of_claims_and_verdicts_is_escaped(small, monkeypatch):
    small(changed("said: It was.", "said: <i>was</i>"))
    monkeypatch.setattr(verdict, "judge", {"x1": None, "x2": Verdict(DEPENDS, "1 < 2 & 3", {"<n>": 1}, "<u>")}.get)
    for text in (whole(), ledger.box("x1").html, ledger.box("x2").html):
        assert not re.search(r"<(b|i|u|n)>", text) and "&lt;" in text
    assert "Depends on &lt;u&gt;.</strong> 1 &lt; 2 &amp; 3" in ledger.box("x2").html
    assert "1 < 2 & 3" in ledger.box("x2").text


@pytest.mark.usefixtures("small")
def test_numbers_too_wide_for_columns_are_wrapped(monkeypatch):
    found = Verdict(HOLDS, "Seen.", {f"number {n} {'of many words ' * 4}": n for n in range(3)})
    monkeypatch.setattr(verdict, "judge", {"x2": found}.get)
    text = ledger.citation("x2", full=True)
    assert max(map(len, text.splitlines())) <= 72 and all(f"number {n} of" in " ".join(text.split()) for n in range(3))


def test_json_has_every_claim():
    everything = json.loads(ledger.as_json())
    assert [c["id"] for c in everything] == IDS
    assert {c["id"] for c in everything if c["verdict"]} == set(JUDGED)
    (five,) = [c for c in everything if c["id"] == "s5"]
    assert json.loads(ledger.as_json("s5")) == five
    assert five["verdict"]["kind"] == HOLDS and five["verdict"]["on"] == "" and five["problem"] is None
    assert five["verdict"]["numbers"] == verdict.judge("s5").numbers


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_judged_claim_has_its_box_in_its_part_of_the_book(claim_id):
    """And on no other page. One whose part is not written yet stands where its figure is."""
    pages = [path.stem for path in (checkout() / "book").glob("*.md") if f'box("{claim_id}")' in path.read_text("utf-8")]
    parts = {name: part for part in TOC["parts"] for name in (c["file"] for c in part["chapters"])}
    (page,) = pages
    assert parts[f"book/{page}"] is parts.get(f"book/{claims.get(claim_id).chapter}", parts[f"book/{page}"])


def test_the_file_says_how_it_is_written():
    head = data_file(claims.FILE).read_text("utf-8").partition("\nthreads:")[0]
    assert all(line.startswith("#") for line in head.strip().splitlines())
    assert all(f"{key}" in head for key in ("threads", "chapters", "said", "judged_by", "expect", *claims.KINDS))


def test_how_claims_came_out_is_counted_by_the_verdicts_on_file(monkeypatch):
    expected = [HOLDS, DEPENDS, HOLDS, claims.FAILS, ""]
    one = claims.get("v1")
    small = {f"x{n}": dataclasses.replace(one, expect=expect) for n, expect in enumerate(expected)}
    monkeypatch.setattr(claims, "read", lambda: small)
    wanted = "2 hold, 1 do not hold, 1 hold on some conditions only and 1 are not judged yet"
    assert claimed.verdicts() == f"Of 5 claims made in the threads {wanted}."
