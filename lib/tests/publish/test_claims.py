"""The claims: the file, and what judges them."""

import html
import itertools
import json
import re
import subprocess
import sys

import pytest

from support.complaints import refused
from support.publish.some_claims import IDS, JUDGED, SMALL, changed, whole
from tramplab.base.errors import TramplabError
from tramplab_book.publish.claims import claims, ledger, verdict
from tramplab_book.publish.claims.claims import DEPENDS, FAILS, HOLDS, UNDECIDABLE
from tramplab_book.publish.claims.verdict import Verdict
from tramplab_book.publish.findings import findings

# -- the file


def test_every_claim_is_there_under_its_id():
    assert claims.addresses() == [f"book/claims.html#{claim_id}" for claim_id in IDS]


def test_a_claim_can_be_understood_by_itself():
    assert not refused(check_claim, IDS)


def check_claim(claim_id):
    claim = claims.get(claim_id)
    for text in (claim.said, claim.judged_by):
        assert text.endswith(".") and len(text) > 15 and text.count(". ") <= 2
    assert claim.threads and all(thread.people for thread in claim.threads)
    there = {mail.id: mail for thread in claim.threads for mail in thread.mails}
    for mail in (claim.mail, claim.also, claim.asked, claim.answered):
        assert mail is None or there[mail.id] is mail


def test_a_mail_is_of_one_thread_and_of_somebody_who_took_part():
    threads = {thread.title: thread for claim in claims.read().values() for thread in claim.threads}.values()
    mails = [mail.id for thread in threads for mail in thread.mails]
    assert len(mails) == len(set(mails)) > 14
    for thread in threads:
        assert {mail.author for mail in thread.mails} <= set(thread.people)
        assert all(mail.date.endswith(thread.date) for mail in thread.mails)


def test_who_said_what():
    """As the mails themselves have it; a claim with a judge names its mail."""
    by = {c.id: c.mail and c.mail.author for c in claims.read().values()}
    assert [by[f"v{n}"].split()[0] for n in range(1, 9)] == "Alexei Alexei Andy Andy Andy Steven Steven Andy".split()
    assert {by[f"s{n}"] for n in range(1, 9)} == {"Steven Rostedt"}
    also = {c.id: c.also.author for c in claims.read().values() if c.also}
    assert also.items() >= {"p2": "Alexei Starovoitov", "k5": "Masami Hiramatsu", "k7": "Peter Zijlstra"}.items()
    asked = {c.id: c.asked.author for c in claims.read().values() if c.asked}
    assert asked.items() >= {"s5": "Jiri Olsa", "s6": "Jiri Olsa"}.items()
    answered = {c.id: c.answered.author for c in claims.read().values() if c.answered}
    said = {"v5": "Peter Zijlstra", "v7": "Alexei Starovoitov", "d6": "Masami Hiramatsu", "d10": "Mark Rutland"}
    assert answered.items() >= said.items()
    assert {by["d6"], by["d10"]} == {"Alexei Starovoitov"}
    assert all(by[claim_id] for claim_id in JUDGED)


def test_claims_of_one_chapter_stand_together():
    chapters = [claim.chapter for claim in claims.read().values()]
    assert [chapter for chapter, _ in itertools.groupby(chapters)] == list(dict.fromkeys(chapters))


def test_a_small_file_is_read():
    first, second = claims.parse(SMALL).values()
    assert (first.said, first.source, first.messages) == (
        "It is <b>&.",
        "A thread, May 2021, with Ann and Bob",
        ("1@x",),  # a mail of its thread
    )
    assert (second.source, second.messages, second.expect) == ("A thread, May 2021, said by Bob", ("2@x",), HOLDS)
    assert (first.chapter_title, first.expect, first.on) == ("The first chapter", "", "")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("id: x2", "id: x1", "the id x1 is given twice"),
        ("id: x1", "id: One", "a letter and a number, such as v1, not 'One'"),
        (
            "id: x1, chapter: one, thread: T",
            "id: x1, chaptr: one, thread: T",
            "unknown key 'chaptr'; did you mean chapter",
        ),
        (
            "id: x1, chapter: one, thread: T",
            "id: x1, chapter: ome, thread: T",
            "x1: unknown chapter .* did you mean one",
        ),
        ("id: x1, chapter: one, thread: T", "id: x1, chapter: one, thread: U", "x1: unknown thread 'U'. Known: T."),
        ("expect: holds", "expect: hold", "x2, expect: unknown value 'hold'; did you mean holds"),
        ("expect: holds", "expect: depends", "x2: expect: depends needs depends_on:"),
        ("expect: holds", "expect: holds, depends_on: the ISA", "x2: expect: depends needs depends_on:, and no other"),
        ("expect: holds", "expect: no run can decide", "x2: expect: no run can decide needs why:"),
        (", scope: Of one.", "", "x2 has no scope, which is said wherever"),
        ("scope: Of one.", "scope: Of one., result: It was.", "x2: a result: has guards in holds:"),
        ("scope: Of one.", "scope: Of one., holds: [one < 2]", "x2: a result: has guards in holds:"),
        ("scope: Of one.", "scope: Of one., result: It was., holds: [one]", "x2: the guard 'one' has no comparison"),
        ("scope: Of one.", f"scope: {'one ' * 41}", "x2, scope: a scope has at most 40 words, not"),
        ("said: It was., ", "", "x2 has no said."),
        ("said: It was.", "said: ''", "said: expected `str` of length >= 1, not ''"),
        ("said: It was.", "said: on", "said: expected `str`, got `bool`; put it in quotes."),
        ("date: May 2021, ", "", "threads, T has no date."),
        ("people: [Ann, Bob]", "people: Ann", "people: expected `array`, got `str`."),
        ("message: 2@x", "message: 3@x", "x2: message: unknown mail of its thread '3@x'; did you mean"),
        ("message: 2@x", "asked: 2@x", "x2 has no message, the mail"),
        ("message: 2@x", "also: 2@x", "x2 has no message, the mail"),
        ("message: 2@x", "message: 2@x, also: 3@x", "x2: also: unknown mail of its thread '3@x'; did you mean"),
        ("judged_by: Look.}", "judged_by: Look., judge: tramplab.base.errors}", "x1 has no message, the mail"),
        ("author: Ann, date: 2 May 2021", "author: Ann, date: May 2021", "a day is written like 22 Oct 2019, not 'May 2021'."),
        ("id: 1@x", "id: <1@x>", "a message-id stands without < and >"),
        ("title: A thread, ", "title: A thread, url: here, ", "threads, T: unknown key 'url'"),
        ("chapters: {one: The first chapter}\n", "", "the file has no chapters."),
        ("chapters: {one: The first chapter}", "chapters: [one]", "chapters: expected `object`, got `array`."),
        ("claims:\n", "claims: [\n", "claims.yml is not YAML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(old, new, complaint):
    with pytest.raises(TramplabError, match=complaint) as refused:
        claims.parse(changed(old, new))
    assert str(refused.value).startswith("claims.yml") and "\n" not in str(refused.value)


def test_an_unknown_claim_is_named_with_its_neighbours():
    for function in (claims.get, verdict.judge, ledger.box, ledger.as_text, ledger.as_json):
        with pytest.raises(TramplabError, match="unknown claim 'k77'; did you mean k7"):
            function("k77")


# -- runs and expectations


def test_a_claim_that_names_a_study_has_a_finding():
    assert {c.id for c in claims.read().values() if c.judge} == {one for f in findings.read().values() for one in f.claims}


@pytest.mark.parametrize("ask", ["ledger.box('s5').text", "ledger.as_text('s5')", "verdict.judge('s5').because"])
def test_whoever_asks_gets_the_verdict(ask):
    """Nothing but what is asked has been imported."""
    code = f"from tramplab_book.publish.claims import ledger, verdict; print({ask})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.decode()
    assert "235 instructions instead of 46" in " ".join(said.split()) and ledger.NOT_JUDGED not in said


def test_importing_the_ledger_imports_no_study():
    imported = "[m for m in sys.modules if m.startswith('tramplab_book.studies')]"
    code = f"import sys; from tramplab_book.publish.claims import ledger; print({imported})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_what_nothing_judges_has_no_expectation():
    """Of what cannot be tested here, numbers may be shown all the same."""
    found = claims.read()
    tested = {c.id for c in found.values() if c.expect not in ("", UNDECIDABLE)}
    assert tested <= set(JUDGED) and {found[name].expect for name in set(JUDGED) - tested} <= {UNDECIDABLE}


def test_a_scope_is_sentences_without_measurements():
    """Releases, names and the number of a claim are no measurements."""
    assert not refused(check_scope, IDS)


def check_scope(claim_id):
    scope = claims.get(claim_id).scope
    assert scope.endswith(".") and 10 <= len(scope.split()) <= 40
    left = re.sub(r"\bv\d+\.\d+|\b(x86-64|arm64|riscv64|d8|x8|K1|M1|VisionFive 2)\b", "", scope)
    assert not re.search(r"\d", left)


@pytest.mark.parametrize(("kind", "on"), [(HOLDS, ""), (FAILS, ""), (DEPENDS, "the weather")])
def test_a_flipped_expectation_is_a_problem_and_is_shown(monkeypatch, kind, on):
    """Also where it differs only in what it depends on; of the claim of each expected verdict that comes first, and of no other."""
    first = {claims.get(name).expect: name for name in reversed(JUDGED)}.values()
    flipped = {claim_id: claims.get(claim_id) for claim_id in IDS if claim_id in first or claim_id not in JUDGED}
    wanted = {}
    for claim_id in sorted(first, key=IDS.index):
        old = claims.get(claim_id)
        other = FAILS if (kind, on) == (old.expect, old.on) else kind
        flipped[claim_id] = claims.Claim(**{**old.__dict__, "expect": other, "on": on})
        said = verdict.judge(claim_id)
        wanted[claim_id] = f"the run says of {claim_id}: {said}; expected was: {verdict.in_words(other, on)}."
    monkeypatch.setattr(claims, "read", lambda: flipped)
    assert verdict.problems() == list(wanted.values())
    page, everything = whole(), {entry["id"]: entry["problem"] for entry in json.loads(ledger.as_json())}
    assert everything == {claim_id: wanted.get(claim_id) for claim_id in flipped}
    for claim_id, problem in wanted.items():
        shown = ledger.box(claim_id)
        for text in (shown.text, shown.citation, ledger.as_text(claim_id)):
            assert f"Not as expected: {problem}" in " ".join(text.split())
        for text in (shown.html, page):
            assert f'"tl-problem"><strong>Not as expected:</strong> {html.escape(problem)}</p>' in text
        assert json.loads(ledger.as_json(claim_id))["problem"] == problem


@pytest.mark.usefixtures("small")
def test_expectation_and_verdict_need_each_other(monkeypatch):
    assert verdict.problems() == ["x2 is expected to be 'holds', but nothing judges it."]
    monkeypatch.setattr(verdict, "judge", lambda _: Verdict(HOLDS, "Seen."))
    assert verdict.problems() == ["the run says of x1: holds; but claims.yml has no expect: for it."]


@pytest.mark.parametrize("module", ["tramplab_book.studies.nowhere", "nowhere.at_all"])
def test_a_study_that_is_not_there_is_named(small, monkeypatch, module):
    small(changed("expect: holds", f"expect: holds, judge: {module}"))
    monkeypatch.setattr(findings, "of_claim", lambda _: findings.get("guard-is-lost"))
    with pytest.raises(TramplabError, match=f"claims.yml: x2: there is no module {module}, which judge: names."):
        ledger.box("x2")


def test_what_cannot_be_tested_needs_no_judge(small):
    small(changed("expect: holds", "expect: no run can decide, why: It takes a machine."))
    assert verdict.problems() == []
    assert str(verdict.judge("x2")) == "no run can decide: It takes a machine"
    assert "1 of 2 claims judged (no run can decide 1)." in ledger.as_text()
    assert "No run can decide: It takes a machine.</strong>" in whole()


def test_a_verdict_is_of_a_known_kind():
    with pytest.raises(TramplabError, match="unknown verdict 'hold'; did you mean holds"):
        Verdict("hold", "Seen.")
    for kind, on in ((DEPENDS, ""), (HOLDS, "the ISA")):
        with pytest.raises(TramplabError, match="on= belongs to the verdicts 'depends'"):
            Verdict(kind, "Seen.", on=on)
