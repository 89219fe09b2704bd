"""The claims: the file, the judges and what they rest on, and what a reader sees of them."""

import html
import itertools
import json
import os
import re
import subprocess
import sys

import pandas as pd
import pytest
from browser import CHAPTERS, Links

from tramplab.errors import TramplabError
from tramplab.paths import checkout, data_file
from tramplab.publish.cite import edition
from tramplab.publish.claims import claims, ledger, verdict
from tramplab.publish.claims.claims import DEPENDS, FAILS, HOLDS, NOT_TESTABLE
from tramplab.publish.claims.verdict import Verdict
from tramplab.studies.variants import backing_out, switching

COUNTS = {"v": 8, "s": 6, "d": 10, "r": 13, "p": 9, "k": 7}
IDS = [f"{letter}{n}" for letter, count in COUNTS.items() for n in range(1, count + 1)]
JUDGED = [claim_id for claim_id in IDS if verdict.judge_of(claim_id)]
#: The message-ids that are known; no other may appear.
MESSAGES = {
    "20191022175052.frjzlnjjfwwfov64@ast-mbp.dhcp.thefacebook.com",
    "20191022170430.6af3b360@gandalf.local.home",
    "20191022215841.2qsmhd6vxi4mwade@ast-mbp.dhcp.thefacebook.com",
    "20191022234921.n5nplxlyq25mksxg@ast-mbp.dhcp.thefacebook.com",
    "YICbK5JLqRXnjgEW@krava",
    "20210421211706.3589473e@oasis.local.home",
    "20221108220651.24492-1-revest@chromium.org",
    "20240306165904.108141-1-puranjay12@gmail.com",
    "Zenx_Q0UiwMbSAdP@FVFF77S0Q05N",
}
SMALL = """\
threads:
  S: {title: A thread, date: May 2021, people: [Ann, Bob], message: 1@x}
chapters: {one: The first chapter}
claims:
  - {id: x1, chapter: one, thread: S, said: It is <b>&., judged_by: Look.}
  - {id: x2, chapter: one, thread: [S], said: It was., judged_by: Look back., who: Bob, message: 2@x, expect: holds}
"""


@pytest.fixture
def small(monkeypatch):
    """A file of two claims and no judges; returns a function that replaces the file's text."""

    def write(text):
        parsed = claims.parse(text)
        monkeypatch.setattr(claims, "read", lambda: parsed)

    monkeypatch.setattr(verdict, "_JUDGES", {})
    monkeypatch.setattr(verdict, "_VERDICTS", {})
    write(SMALL)
    return write


def changed(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    return SMALL.replace(old, new)


# -- the file


def test_every_claim_is_there_under_its_id():
    assert list(claims.read()) == IDS and len(IDS) == 53
    assert claims.addresses() == [f"book/claims.html#{claim_id}" for claim_id in IDS]


@pytest.mark.parametrize("claim_id", IDS)
def test_a_claim_can_be_understood_by_itself(claim_id):
    claim = claims.get(claim_id)
    for text in (claim.said, claim.judged_by):
        assert text.endswith(".") and len(text) > 15 and text.count(". ") <= 2
    assert claim.threads and all(thread.people for thread in claim.threads)
    assert set(claim.messages) <= MESSAGES


def test_every_known_message_is_given():
    assert {m for claim in claims.read().values() for m in claim.messages} == MESSAGES


def test_claims_of_one_chapter_stand_together():
    chapters = [claim.chapter for claim in claims.read().values()]
    assert [chapter for chapter, _ in itertools.groupby(chapters)] == list(dict.fromkeys(chapters))
    assert len(set(chapters)) == 5


def test_a_small_file_is_read():
    first, second = claims.parse(SMALL).values()
    assert (first.said, first.source, first.messages) == (
        "It is <b>&.",
        "A thread, May 2021, with Ann and Bob",
        ("1@x",),
    )
    assert (second.source, second.messages, second.expect) == ("A thread, May 2021, said by Bob", ("2@x",), HOLDS)
    assert (first.chapter_title, first.expect, first.on) == ("The first chapter", "", "")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("id: x2", "id: x1", "the id x1 is given twice"),
        ("id: x1", "id: One", "a letter and a number, such as v1, not 'One'"),
        (
            "id: x1, chapter: one, thread: S",
            "id: x1, chaptr: one, thread: S",
            "unknown key 'chaptr'; did you mean chapter",
        ),
        (
            "id: x1, chapter: one, thread: S",
            "id: x1, chapter: ome, thread: S",
            "x1: unknown chapter .* did you mean one",
        ),
        ("id: x1, chapter: one, thread: S", "id: x1, chapter: one, thread: T", "x1: unknown thread 'T'. Known: S."),
        ("expect: holds", "expect: hold", "x2: unknown verdict 'hold'; did you mean holds"),
        ("expect: holds", "expect: depends", "x2: expect: depends needs depends_on:"),
        ("expect: holds", "expect: holds, depends_on: the ISA", "x2: expect: depends needs depends_on:, and no other"),
        ("expect: holds", "expect: not testable here", "x2: expect: not testable here needs why:"),
        ("said: It was., ", "", "claim number 2 has no said."),
        ("said: It was.", "said: ''", "said is empty"),
        ("said: It was.", "said: on", "said is read as True; put it in quotes."),
        ("date: May 2021, ", "", "thread S has no date."),
        ("people: [Ann, Bob]", "people: Ann", "people is a list"),
        ("title: A thread, ", "title: A thread, url: here, ", "thread S: unknown key 'url'"),
        ("chapters: {one: The first chapter}\n", "", "the file has no chapters."),
        ("chapters: {one: The first chapter}", "chapters: [one]", "chapters must be a mapping"),
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


def test_every_run_says_what_is_expected():
    assert verdict.problems() == []


def test_a_claim_names_the_module_that_judges_it():
    """In every module of the studies, whether or not anything here has imported it."""
    folder = checkout() / "lib" / "tramplab" / "studies"
    found = {
        name: f"tramplab.studies.{path.parent.name}.{path.stem}"
        for path in folder.glob("*/*.py")
        for name in re.findall(r'^@judges\("(\w+)"\)$', path.read_text("utf-8"), re.M)
    }
    assert found == {c.id: c.judge for c in claims.read().values() if c.judge}


@pytest.mark.parametrize("ask", ["ledger.box('s5').text", "ledger.as_text('s5')", "str(verdict.judge('s5'))"])
def test_whoever_asks_gets_the_verdict(ask):
    """Nothing but what is asked has been imported."""
    code = f"from tramplab.publish.claims import ledger, verdict; print({ask})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.decode()
    assert "depends on the ISA" in said and ledger.NOT_JUDGED not in said


def test_importing_the_ledger_imports_no_study():
    imported = "[m for m in sys.modules if m.startswith('tramplab.studies')]"
    code = f"import sys; from tramplab.publish.claims import ledger; print({imported})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_what_nothing_judges_has_no_expectation():
    assert {c.id for c in claims.read().values() if c.expect not in ("", NOT_TESTABLE)} == set(JUDGED)


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_verdict_gives_its_numbers(claim_id):
    v = verdict.judge(claim_id)
    assert v is verdict.judge(claim_id), "a claim is judged once"
    assert v.because.endswith(".") and v.numbers
    assert all(isinstance(value, (int, float, str)) for value in v.numbers.values())
    shown = {n for value in v.numbers.values() for n in re.findall(r"\d+", str(value))}
    assert shown <= set(re.findall(r"\d+", v.because)), "what is decisive is in the sentence"


@pytest.mark.parametrize("claim_id", JUDGED)
@pytest.mark.parametrize("kind", [HOLDS, FAILS, DEPENDS])
def test_a_flipped_expectation_is_a_problem_and_is_shown(monkeypatch, claim_id, kind):
    """Also one that differs only in what it depends on."""
    old = claims.get(claim_id)
    on = "the weather" if kind == DEPENDS else ""
    if (kind, on) == (old.expect, old.on):
        kind = FAILS
    wrong = claims.Claim(**{**old.__dict__, "expect": kind, "on": on})
    flipped = {**claims.read(), claim_id: wrong}
    monkeypatch.setattr(claims, "read", lambda: flipped)
    (problem,) = verdict.problems()
    said = str(verdict.judge(claim_id))
    assert problem == f"the run says of {claim_id}: {said}; expected was: {verdict.in_words(kind, on)}."
    shown = ledger.box(claim_id)
    for text in (shown.text, shown.citation, ledger.as_text(claim_id)):
        assert f"Not as expected: {problem}" in " ".join(text.split())
    for page in (shown, ledger.ledger()):
        assert f'"tl-problem"><strong>Not as expected:</strong> {html.escape(problem)}</p>' in page.html
    assert json.loads(ledger.as_json(claim_id))["problem"] == problem


@pytest.mark.usefixtures("small")
def test_expectation_and_judge_need_each_other():
    assert verdict.problems() == ["x2 is expected to be 'holds', but nothing judges it."]
    verdict.judges("x1")(lambda: Verdict(HOLDS, "Seen."))
    verdict.judges("x2")(lambda: Verdict(HOLDS, "Seen."))
    assert verdict.problems() == ["the run says of x1: holds; but claims.yml has no expect: for it."]


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("tramplab.studies.nowhere", "x2: there is no module tramplab.studies.nowhere, which judge: names."),
        ("nowhere.at_all", "x2: there is no module nowhere.at_all, which judge: names."),
        ("tramplab.errors", r'x2: tramplab.errors has no function with @judges\("x2"\).'),
    ],
)
def test_a_module_that_does_not_judge_is_named(small, module, complaint):
    small(changed("expect: holds", f"expect: holds, judge: {module}"))
    with pytest.raises(TramplabError, match=f"claims.yml: {complaint}"):
        ledger.box("x2")


def test_a_judge_of_no_claim_is_a_problem(small):
    small(changed(", expect: holds", ""))

    @verdict.judges("x3")
    def stray():
        return Verdict(HOLDS, "Seen.")

    assert verdict.problems() == ["stray() judges x3, which is no claim."]
    with pytest.raises(TramplabError, match=r"two functions judge x3: stray, <lambda>\."):
        verdict.judges("x3")(lambda: None)


def test_what_cannot_be_tested_needs_no_judge(small):
    small(changed("expect: holds", "expect: not testable here, why: It takes a machine."))
    assert verdict.problems() == []
    assert str(verdict.judge("x2")) == "not testable here: It takes a machine"
    assert "1 of 2 claims judged (not testable here 1)." in ledger.as_text()
    assert "Not testable here: It takes a machine.</strong>" in ledger.ledger().html


def test_a_verdict_is_of_a_known_kind():
    with pytest.raises(TramplabError, match="unknown verdict 'hold'; did you mean holds"):
        Verdict("hold", "Seen.")
    for kind, on in ((DEPENDS, ""), (HOLDS, "the ISA")):
        with pytest.raises(TramplabError, match="on= belongs to the verdicts 'depends'"):
            Verdict(kind, "Seen.", on=on)


def test_nothing_is_decided_without_a_case():
    with pytest.raises(TramplabError, match="no case to judge"):
        verdict.across(pd.DataFrame({"isa": [], "truth": []}), {"isa": "the ISA"})
    with pytest.raises(TramplabError, match="no column truth"):
        verdict.across(pd.DataFrame({"isa": ["arm64"]}), {"isa": "the ISA"})
    cases = pd.DataFrame({"isa": ["a", "b"], "truth": [False, False]})
    assert verdict.across(cases, {"isa": "the ISA"}) == (FAILS, "")


# -- verdicts follow from rows


BOTH = "depends on the ISA and the release"


def tampered(sequence: str, ops: str | int, column: str, value: object, isa: str | None = None) -> pd.DataFrame:
    """The rows with one column changed wherever just these ops are attached, or in one step."""
    frame = switching.rows()
    there = frame["step" if isinstance(ops, int) else "ops"] == ops
    where = (frame["sequence"] == sequence) & there & ((frame["isa"] == isa) | (isa is None))
    assert where.any() and (frame.loc[where, column] != value).any()
    frame.loc[where, column] = value
    return frame


@pytest.mark.parametrize(
    ("judge", "change", "expected"),
    [
        (switching.all_get_registers, ("registers", "a r", "saved", 8), "fails"),
        (switching.all_get_registers, ("registers", "a r", "saved", 9, "arm64"), "depends on the ISA"),
        (switching.all_get_registers, ("registers", "a r s", "stores", 99), "fails"),
        (switching.all_get_registers, ("registers", "a r", "ran", "r"), "fails"),
        (switching.all_get_registers, ("registers", "a", "saved", 28, "arm64"), "depends on the ISA"),
        (switching.list_replaces_own_trampoline, ("plain", "a", "target", "ftrace_caller"), "fails"),
        (switching.list_replaces_own_trampoline, ("plain", "a b", "calls", "lab_callback"), "fails"),
        (switching.list_replaces_own_trampoline, ("plain", "a b", "target", "ftrace_trampoline[1]"), "fails"),
        (switching.list_replaces_own_trampoline, ("plain", "a", "target", "ftrace_trampoline[0]"), BOTH),
        (switching.list_replaces_own_trampoline, ("plain", 3, "target", "ftrace_caller"), "fails"),
        (switching.list_replaces_own_trampoline, ("plain", 3, "calls", "ftrace_ops_list_func"), "fails"),
        (switching.direct_call_shares, ("direct", "d a", "ran", "d"), "fails"),
        (switching.direct_call_shares, ("direct", "d a", "ran", "d a"), "holds"),
        (switching.direct_call_shares, ("direct", "d a", "ran", "a d d"), "fails"),
        (switching.direct_call_shares, ("direct", "d a", "right", False, "riscv64"), "depends on the ISA"),
        (switching.direct_call_shares, ("direct", "d (a)", "ran", "a d"), "fails"),
        (switching.direct_call_shares, ("direct", "d", "ran", ""), "fails"),
    ],
)  # fmt: skip
def test_other_rows_give_another_verdict(judge, change, expected):
    assert str(judge(tampered(*change))) == expected


@pytest.mark.parametrize("column", ["site", "literal", "text", "idle"])
def test_a_removal_that_leaves_something_behind_is_seen(column):
    frame = backing_out.rows()
    exact = frame.assign(literal=True)
    assert str(backing_out.backs_out_exactly(exact)) == "holds"
    spoilt = exact.assign(**{column: exact["isa"] != "x86_64"})
    assert str(backing_out.backs_out_exactly(spoilt)) == "depends on the ISA"
    assert str(backing_out.backs_out_exactly(exact.assign(**{column: False}))) == "fails"


def test_the_reasons_are_those_of_the_rows():
    """A sentence with a number from a tampered row has that number."""
    assert "from 8 to 77 on x86-64" in switching.all_get_registers(tampered("registers", "a r", "saved", 77)).because
    changed = tampered("plain", "a b", "target", "ftrace_regs_caller", "x86_64")
    assert "ftrace_trampoline[0], ftrace_regs_caller," in switching.list_replaces_own_trampoline(changed).because
    shared = switching.direct_call_shares(tampered("direct", "d (a)", "ran", "a d"))
    assert "both stay registered: ops then direct call everywhere." in shared.because
    assert "901 and 250 on x86-64" in switching.direct_call_shares(tampered("direct", "d", "total", 901)).because
    silent = backing_out.backs_out_exactly(None, switching.rows().assign(calls="lab_callback")).because
    assert "goes to" not in silent and "826 restore the ops pointer" in silent


# -- what is shown


@pytest.mark.parametrize("claim_id", IDS)
def test_texts_fit_their_places(claim_id):
    shown = ledger.box(claim_id)
    assert max(map(len, shown.text.splitlines())) <= 66
    for text in (shown.citation, ledger.as_text(claim_id)):
        assert max(map(len, text.splitlines())) <= 72
    assert shown.citation.startswith(f"Claim {claim_id}, in our words: ")
    assert claims.get(claim_id).threads[0].title in " ".join(shown.citation.split())
    assert shown._repr_mimebundle_() == {"text/html": shown.html, "text/plain": shown.text}


def test_the_ledger_has_every_claim_once_under_its_id():
    shown = ledger.ledger()
    for claim_id in IDS:
        assert shown.html.count(f' id="{claim_id}"') == 1
        assert len(re.findall(rf"^{claim_id} ", shown.text, re.M)) == 1
    assert set(IDS) <= Links(shown.html).ids
    count = f"{len(JUDGED)} of {len(IDS)} claims judged"
    assert shown.text.startswith(count) and f">{count}" in shown.html
    assert shown.html.count("Not yet judged.") == shown.text.count("not yet judged") == len(IDS) - len(JUDGED)
    assert max(map(len, shown.text.splitlines())) <= 66 and max(map(len, ledger.as_text().splitlines())) <= 72


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_box_links_to_the_ledger_the_mail_and_the_experiment(claim_id):
    shown, links = ledger.box(claim_id), Links(ledger.box(claim_id).html).links
    assert f"claims.html#{claim_id}" in links and "claims.html" in links
    assert {f"https://lore.kernel.org/r/{m}/" for m in claims.get(claim_id).messages} < set(links)
    module, line = re.search(r"studies/([\w/]+\.py), line (\d+)</a>", shown.html).groups()
    source = (checkout() / "lib" / "tramplab" / "studies" / module).read_text("utf-8").splitlines()
    assert source[int(line) - 1] == f'@judges("{claim_id}")'
    words = str(verdict.judge(claim_id))
    assert f"<strong>{words[0].upper()}{words[1:]}.</strong>" in shown.html and f"\nVerdict: {words}." in shown.citation


def test_text_of_claims_and_verdicts_is_escaped(small):
    small(changed("said: It was.", "said: <i>was</i>"))
    verdict.judges("x2")(lambda: Verdict(DEPENDS, "1 < 2 & 3", {"<n>": 1}, "<u>"))
    for text in (ledger.ledger().html, ledger.box("x1").html, ledger.box("x2").html):
        assert not re.search(r"<(b|i|u|n)>", text) and "&lt;" in text
    assert "Depends on &lt;u&gt;.</strong> 1 &lt; 2 &amp; 3" in ledger.box("x2").html
    assert "1 < 2 & 3" in ledger.box("x2").text


@pytest.mark.usefixtures("small")
def test_numbers_too_wide_for_columns_are_wrapped():
    verdict.judges("x2")(lambda: Verdict(HOLDS, "Seen.", {f"number {n} {'of many words ' * 4}": n for n in range(3)}))
    text = ledger.citation("x2")
    assert max(map(len, text.splitlines())) <= 72 and all(f"number {n} of" in " ".join(text.split()) for n in range(3))


def test_json_has_every_claim():
    everything = json.loads(ledger.as_json())
    assert [c["id"] for c in everything] == IDS
    assert {c["id"] for c in everything if c["verdict"]} == set(JUDGED)
    (five,) = [c for c in everything if c["id"] == "s5"]
    assert json.loads(ledger.as_json("s5")) == five
    assert five["verdict"]["kind"] == DEPENDS and five["verdict"]["on"] == "the ISA" and five["problem"] is None
    assert five["verdict"]["numbers"] == verdict.judge("s5").numbers


def test_another_process_says_the_same():
    edition.current.cache_clear()  # there may have been a commit since it was asked for
    code = "from tramplab.publish.claims import ledger as l; print(l.as_json(), l.ledger().html)"
    env = {**os.environ, "PYTHONHASHSEED": "1", "TRAMPLAB_ROWS": ""}  # it makes its own
    there = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout.decode()
    assert there == f"{ledger.as_json()} {ledger.ledger().html}\n" and len(there) > 50_000


# -- the book


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_judged_claim_has_its_box_in_its_chapter(claim_id):
    """On its first page, or on one of those that it goes on in."""
    chapter = f"book/{claims.get(claim_id).chapter}"
    (pages,) = ([c["file"], *(s["file"] for s in c.get("sections", ()))] for c in CHAPTERS if c["file"] == chapter)
    assert sum(f'box("{claim_id}")' in (checkout() / f"{page}.md").read_text("utf-8") for page in pages) == 1


def test_the_built_ledger_has_the_anchors(site):
    page = (site / "book" / "claims.html").read_text("utf-8")
    assert set(IDS) <= Links(page).ids
    assert f"{len(JUDGED)} of {len(IDS)} claims judged" in page and "Not as expected" not in page


def test_the_file_says_how_it_is_written():
    head = data_file(claims.FILE).read_text("utf-8").partition("\nthreads:")[0]
    assert all(line.startswith("#") for line in head.strip().splitlines())
    assert all(f"{key}" in head for key in ("threads", "chapters", "said", "judged_by", "expect", *claims.KINDS))
