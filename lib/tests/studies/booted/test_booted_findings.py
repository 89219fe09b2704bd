"""What booted kernels say of the findings: their counts, the faults that they show, and the letters on these."""

import json
import re

import pytest

from support import ROOT
from tramplab.base.entries import mail_address
from tramplab.cli import main
from tramplab_book.publish.findings import findings, rendered
from tramplab_book.studies import stated
from tramplab_book.studies.booted import found, probe_costs


def test_few_counts_depend_on_what_was_measured_before():
    """Of probes after which nothing writes a record and no tracer of returns has a place, by no more than a hash or an address."""
    frame = probe_costs.rows()
    numbers = probe_costs.numbers(frame)
    assert numbers["counts-same"] > 0.85 * numbers["counts"] and numbers["order-most-percent"] < 3
    apart = frame[frame["probe"].isin(("ops", "ops:10", "direct", "kprobe", "kprobe-bpf", "kprobe-inside-optimised", "kretprobe"))]
    assert len(apart) > 50 and (apart["added"].fillna(0) == apart["turned"].fillna(0)).all()


def test_what_a_module_attaches_on_arm64_is_the_images_to_the_instruction():
    """Neither a JIT nor alternatives are in it, and an fprobe has one handler in both. But a module has several fprobes in an
    array, of which some share a bucket in which a return looks them up (see the tests of the hooks of images)."""
    pairs = probe_costs.compared(probe_costs.rows())
    of = pairs["probe"].str.match(r"(ops|fprobe|kprobe|kretprobe|direct\+ops)(?!.*(bpf|multi|session))")
    exact = pairs[of & (pairs["isa"] == "arm64")]
    several = exact["probe"].isin(("fprobe-exit:2", "fprobe-exit:10"))
    assert len(exact[~several]) > 30 and (exact[~several]["apart"] == 0).all(), exact[exact["apart"] != 0]
    assert exact[several]["apart"].between(1, 60).all()


def test_newest_kernels_have_at_least_45_kinds():
    frame = probe_costs.rows()
    assert min(frame[frame["release"] == "v7.2"].groupby("isa")["added"].count()) >= 45


def test_findings_that_a_boot_decides_say_what_it_did():
    """Every finding that is about what a call costs is listed with its booted pair, or says why there is none."""
    for one in findings.read().values():
        if one.kind == "count" and not one.hypothetical and one.argument != "direct":
            assert one.booted or one.not_booted, one.id


@pytest.mark.parametrize("name", [one.id for one in findings.read().values() if one.booted])
def test_booted_kernels_agree(name):
    assert not stated.stated(findings.get(name)).problem


def test_a_booted_kernel_that_contradicts_is_a_problem(monkeypatch):
    numbers = found.numbers(found.rows()) | {"arm64-v7-2-guard": found.NOT_SEEN}
    monkeypatch.setattr(stated, "numbers_in", lambda study, real=stated.numbers_in: numbers if study is found else real(study))
    assert "arm64-v7-2-guard == 'seen' is not so" in stated.stated(findings.get("guard-is-lost")).problem


def test_the_figure_has_a_row_for_each_fault_that_leads_to_its_section():
    """Seen on a kernel where one of its readings shows it."""
    every = found.rows()
    drawn = found.drawn(every)
    faults = {one.id: one for one in findings.read().values() if one.prior}
    assert set(faults) == set(found.NAMES) and list(dict.fromkeys(drawn["finding"])) == list(found.NAMES.values())
    assert dict(zip(drawn["id"], drawn["section"], strict=True)) == {name: one.section for name, one in faults.items()}
    kernels = len(every.drop_duplicates(["isa", "release"]))
    assert len(drawn) == len(faults) * kernels and drawn["verdict"].isin(list(found.MEANINGS)).all()
    cut = every[(every["isa"] == "x86_64") & every["finding"].isin(["old segment at return", "which cuts a stack trace"])]
    one = drawn[(drawn["isa"] == "x86_64") & (drawn["finding"] == "old segment")].set_index("release")["verdict"]
    assert one["v7.2"] == found.SEEN and one["v6.12"] == found.NOT_SEEN and one["v6.1"] == found.ABSENT
    only = cut.assign(verdict=cut["verdict"].where(cut["finding"] != "old segment at return", found.NOT_SEEN))
    assert set(found.drawn(only[only["release"] == "v7.2"])["verdict"]) == {found.SEEN}


def test_letters_fit_a_mail():
    some = [one for one in findings.read().values() if one.letter]
    assert len(some) >= 4
    for one in some:
        lines = findings.letter(one, stated.booted_numbers()).splitlines()
        assert len(lines) <= findings.MOST_LINES and max(map(len, lines)) <= 72, one.id
        assert "{" not in "".join(lines)


def test_a_letter_is_printed_listed_and_checked(capsys):
    assert main(["letter", "guard-lost-overflows"]) == 0
    subject, empty, first = capsys.readouterr().out.splitlines()[:3]
    assert subject.startswith("Subject: ftrace: ") and not empty and first
    assert main(["letter"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == stated.with_letter()
    assert main(["letter", "--check"]) == 0 and capsys.readouterr().out.count("all guards hold") == len(stated.with_letter())


def test_a_letter_that_should_not_be_sent_says_why(capsys):
    assert main(["letter", "graph-hides-callers"]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("tramplab: There is no text for the list") and err.count("\n") == 1


def test_a_letter_whose_guards_fail_is_seen(monkeypatch, capsys):
    numbers = found.numbers(found.rows()) | {"arm64-v7-2-recursion": found.NOT_SEEN}
    monkeypatch.setattr(stated, "numbers_in", lambda study, real=stated.numbers_in: numbers if study is found else real(study))
    assert main(["letter", "guard-lost-overflows", "--check"]) == 1
    assert "arm64-v7-2-recursion == 'seen' is not so" in capsys.readouterr().out


def test_what_was_said_before_leads_to_who_said_it():
    """On the page, in a citation, and in words that say what is known."""
    known = {one.id for one in findings.read().values() if one.known}
    assert known == {"graph-hides-callers", "callee-hides-caller", "apart-on-booted-kernels"}
    for name in known:
        html = stated.posted(name).html
        assert "Known, not fixed in v7.2." in html and findings.get(name).prior[0].message in html
        assert f"Prior: {findings.get(name).prior[0].who}" in " ".join(stated.citation(name).split())
    assert "Searched on" in stated.posted("guard-lost-overflows").text


FAULTS = {one.id: one for one in findings.read().values() if one.prior}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_says_which_kernels_have_it(name):
    """In its section of the page, in text and in JSON; each mail is a link, and what is not fixed was seen in v7.2 or v7.3."""
    one, shown, several = FAULTS[name], stated.posted(name), [stated.stated(FAULTS[name])]
    page = (ROOT / "book/findings.md").read_text("utf-8")
    assert f'posted("{name}")' in page.partition(f"({one.section})=")[2].partition("\n(findings-")[0]
    for lines in (shown.text, rendered.as_text(several)):
        told = " ".join(lines.split())
        assert f"Since: {one.extent.since}" in told and f"Not on: {one.extent.spared}" in told
    assert json.loads(rendered.as_json(several))[0]["extent"]["until"] == one.extent.until
    links = [f'href="{prior.address or mail_address(prior.message)}"' for prior in one.prior if prior.who]
    assert all(link in shown.html for link in links) and shown.html.count("href=") == len(links)
    seen = any(re.search(r"v7-[23]-\S+ == 'seen'|seen-\S+ >= 3", guard) for guard in one.guards)
    assert one.extent.until.startswith("not fixed") == seen
