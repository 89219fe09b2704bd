"""The bibliography: made of what pages and data rest on, whole, and nothing else in it; read by the reader that the book uses."""

import re

import pytest
from pybtex.database import parse_string
from pybtex.richtext import Text

from tramplab.base.paths import checkout
from tramplab.ftrace import releases
from tramplab_book.publish import published
from tramplab_book.publish.claims import claims, references
from tramplab_book.publish.claims.references import COMMIT, MAIL, Reference
from tramplab_book.publish.findings import findings

BOOK = checkout() / "book"


@pytest.fixture(scope="module")
def text():
    return (BOOK / references.FILE).read_text("utf-8")


@pytest.fixture(scope="module")
def entries(text):
    return parse_string(text, "bibtex").entries


def test_it_is_up_to_date(text):
    assert references.updated(text, BOOK) == text, "run `make update`"


def test_everything_that_is_cited_is_in_it(entries):
    urls = {entry.fields.get("url", "") for entry in entries.values()}
    mails = {mail.id for claim in claims.read().values() for thread in claim.threads for mail in thread.mails}
    mails |= {row.message for row in published.read().values() if row.message} | {releases.source("direct-shares").message}
    pages = "".join(page.read_text("utf-8") for page in BOOK.glob("*.md"))
    linked = set(re.findall(r"https://lore\.kernel\.org/r/[^/\s>)]+/", pages))
    assert len(mails) > 40 and len(linked) > 60
    assert {*linked, *(f"https://lore.kernel.org/r/{mail}/" for mail in mails)} <= urls
    hashes = set(re.findall(r"(?<=commit )[0-9a-f]{12}\b", pages)) | {"53cd885bc5c3", "316cba62dfb7", "00963a2e75a8"}
    assert len(hashes) > 20 and {f"https://git.kernel.org/torvalds/c/{one}" for one in hashes} <= urls


def test_every_entry_says_where_it_is_cited_and_can_be_found(entries):
    names = {page.stem for page in BOOK.glob("*.md")} | {"claims.yml", "releases.yml", "addresses.yml", "published.csv"}
    names |= {f"findings/{one.argument}.yml" for one in findings.read().values() if one.prior}
    for key, entry in entries.items():
        if key.startswith(("mail-", "commit-")):
            assert set(entry.fields["note"].removeprefix("In ").split(", ")) <= names
            assert references.Reference(*key.split("-", 1)).key == key and entry.fields["title"]
            assert re.sub(r"[^0-9A-Za-z.@-]", ".", entry.fields["url"]).rstrip(".").endswith(key.split("-", 1)[1])
    assert sum(key.startswith("mail-") for key in entries) > 90 and sum(key.startswith("commit-") for key in entries) > 70


def test_fields_are_plain_text_to_the_reader(entries):
    """Which takes them for LaTeX: percent signs and underscores stay what they are, braces become parentheses."""
    for key, entry in entries.items():
        for name in ("title", "howpublished", "note"):
            if name in entry.fields:
                assert "\\" not in str(Text.from_latex(entry.fields[name])), (key, name)
    made = references.entry(Reference(COMMIT, "0123456789ab", title="50 % of {a,b}_c & #1", where=("x",)))
    fields = next(iter(parse_string(made, "bibtex").entries.values())).fields
    assert str(Text.from_latex(fields["title"])) == "50 % of (a,b)_c & #1"


def test_what_a_page_names():
    text = """Commits 0123456789ab and abcdefabcdef, as [`a@b`](https://lore.kernel.org/r/x-0123456789ab-1@y/) and 123456789012 say.

[^n]: Ada Lovelace, 4 August 2023, [`m@n`](https://lore.kernel.org/r/m@n/)
"""
    found = list(references.of_page(text))
    assert Reference(MAIL, "m@n", "Ada Lovelace", "4 Aug 2023") in found
    assert {r.id for r in found if r.kind == COMMIT} == {"0123456789ab", "abcdefabcdef"}
    assert {r.id for r in found if r.kind == MAIL} == {"m@n", "x-0123456789ab-1@y"}


def test_what_is_known_of_one_is_put_together():
    one, other = Reference(MAIL, "a@b", title="T", where=("x",)), Reference(MAIL, "a@b", "Ada", "1 Jan 2020", "U", ("y", "x"))
    assert one | other == Reference(MAIL, "a@b", "Ada", "1 Jan 2020", "T", ("x", "y"))
    assert "author = {{Ada}}" in references.entry(one | other) and "author" not in references.entry(one)
    assert "note = {In x, y}" in references.entry(one | other)


def test_what_is_written_by_hand_stays(text):
    added = "@misc{mine,\n  title = {Mine}\n}\n\n" + text
    assert references.updated(added, BOOK) == added
