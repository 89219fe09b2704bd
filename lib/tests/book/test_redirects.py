"""Permalinks in a built book: short links, what moved, and the checks that none is lost."""

import dataclasses
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml

from support import ROOT
from support.book.small_books import small_book
from support.plugins.browser import DESKTOP, Links, reader, serve, visit
from tramplab.base.errors import TramplabError
from tramplab_book.publish.cite import edition, permalinks
from tramplab_book.publish.cite.edition import Edition
from tramplab_book.publish.editions import read_edition

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_cite
import book_notebooks
import book_permalinks
import book_text
import redirects
from book_permalinks import moved_from, places

# -- what the list means


def test_what_moved_twice_is_followed_to_the_end():
    links = permalinks.parse("book/a.html#one -> book/b.html#one\nbook/b.html#two -> book/c.html#two\n")
    assert places(links) == {"one": "book/b.html#one", "two": "book/c.html#two"}
    links = permalinks.parse("book/a.html#one -> book/b.html#two\nbook/b.html#two -> book/c.html#two\n")
    assert places(links) == {"one": "book/c.html#two", "two": "book/c.html#two"}
    assert moved_from(links) == {"book/a": {"one": "c.html#two"}, "book/b": {"two": "c.html#two"}}


def test_what_was_in_between_is_followed_too():
    links = permalinks.parse("a.html#one -> b.html#two -> c.html#two\nd.html#six -> b.html#two\n")
    assert places(links) == {"one": "c.html#two", "six": "c.html#two"}
    assert moved_from(links) == {"a": {"one": "c.html#two"}, "b": {"two": "c.html#two"}, "d": {"six": "c.html#two"}}


def test_a_circle_is_refused():
    with pytest.raises(TramplabError, match=r"book/a.html#one leads in a circle"):
        places(permalinks.parse("book/a.html#one -> book/b.html#two\nbook/b.html#two -> book/a.html#one\n"))


def test_links_are_relative():
    assert redirects.relative("book/a.html#one", "p/one.html") == "../book/a.html#one"
    assert redirects.relative("book/a.html#one", "book/b.html") == "a.html#one"
    assert redirects.relative("book/a.html#one", "book/a.html") == "#one"
    assert redirects.relative("a.html#one", "b.html") == "a.html#one"


@pytest.mark.parametrize("commit", ["", "1" * 12 + "-dirty"])
def test_a_book_that_can_never_be_published_gives_no_address(commit, tmp_path, monkeypatch):
    now = Edition("Tramplab: t", ("A",), "0.1", "2026", commit, "unknown", "https://example.org/x")
    monkeypatch.setattr(edition, "current", lambda: now)
    title = SimpleNamespace(astext=lambda: "New")
    app = SimpleNamespace(outdir=tmp_path, env=SimpleNamespace(titles={"book/new": title}, found_docs={"book/new"}))
    links = permalinks.parse("book/new.html#new\n")
    monkeypatch.setattr(book_permalinks, "listed", lambda app: links)
    book_permalinks.write_redirects(app, links)
    head, introduction = book_text.head(app, "book/new"), book_notebooks.introduction(app, "book/new")
    assert "://" not in (tmp_path / "p" / "new.html").read_text("utf-8") + head + introduction
    assert all(f"edition 0.1, commit {commit or 'unknown'}" in text for text in (head, introduction))
    assert "git checkout" not in introduction and book_notebooks.INSTALL in introduction


# -- a small book from which things have moved

LIST = """\
book/index.html#small
book/index.html#former -> book/new.html#here
book/index.html#twice -> book/old.html#only
book/gone.html#first -> book/new.html#here
book/gone.html#second -> book/index.html#small
book/old.html#only -> book/new.html#new
book/gone.html#third -> book/index.html#third -> book/new.html#here
book/new.html#new
book/new.html#here
"""
NEW = "(new)=\n# New\n\n" + "Text.\n\n" * 60 + "(here)=\n## Here\n\n" + "Text.\n\n" * 60


def moved_book(folder, listed=LIST, index="", new=NEW, commit=False):
    """Build it as `make book` does, of a commit or where nobody knows one; whether it was built, and what was said."""
    command, environment = small_book(folder, index)
    page = folder / "book" / "index.md"
    page.write_text(page.read_text("utf-8").replace("# Small", "(small)=\n# Small"), "utf-8")
    (folder / "book" / "new.md").write_text(new, "utf-8")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": "book/new"}]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / permalinks.FILE).write_text(listed, "utf-8")
    shutil.copy(ROOT / "data" / "releases.yml", folder / "data" / "releases.yml")  # which the package reads when imported
    (folder / "CITATION.cff").write_text((ROOT / "CITATION.cff").read_text("utf-8"), "utf-8")
    environment |= {"TRAMPLAB_DATA": str(folder / "data"), "TRAMPLAB_URL": "https://example.org/x"}
    if commit:
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for arguments in (["init", "--quiet"], ["add", "CITATION.cff"], ["commit", "--quiet", "-m", "one"]):
            subprocess.run([*git, *arguments], cwd=folder, check=True)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved")
    built, said = moved_book(folder, commit=True)
    assert built, said
    return folder / "_build" / "html"


@pytest.fixture(scope="module")
def addresses(small):
    """The book opened as files, and served below another address."""
    address, end = serve(small.parent)
    yield {"file": small.as_uri(), "http": f"{address}/html"}
    end()


@pytest.mark.parametrize("transport", ["file", "http"])
@pytest.mark.parametrize("javascript", [True, False], ids=["scripts", "no scripts"])
def test_short_links_lead_on(browser, addresses, transport, javascript):
    wanted = {"here": "book/new.html#here", "twice": "book/new.html#new"}
    with reader(browser, javascript) as arrives:
        assert {n: arrives(addresses[transport], f"p/{n}.html", at) for n, at in wanted.items()} == wanted


MOVES = {
    "book/index.html#former": "book/new.html#here",
    "book/index.html#twice": "book/new.html#new",
    "book/index.html#small": "book/index.html#small",
    "book/gone.html#first": "book/new.html#here",
    "book/gone.html#second": "book/index.html#small",
    "book/gone.html": "book/gone.html",  # two ways: the reader chooses
    "book/old.html#only": "book/new.html#new",
    "book/gone.html#third": "book/new.html#here",
    "book/index.html#third": "book/new.html#here",
}


@pytest.mark.parametrize("transport", ["file", "http"])
def test_moved_addresses_lead_on(browser, addresses, transport):
    with reader(browser, javascript=True) as arrives:
        assert {old: arrives(addresses[transport], old, new) for old, new in MOVES.items()} == MOVES


def test_a_moved_anchor_leads_on_from_the_open_page(browser, addresses):
    def look(tab):
        tab.evaluate("location.hash = '#former'")
        tab.wait_for_url("**/new.html#here")

    visit(browser, addresses["file"], "book/index", look=look)


def test_moved_addresses_work_without_scripts(browser, addresses):
    """One way: the page leads on. Several, or a page that is still there: the old anchor is shown with its link, and only then."""

    def look(tab):
        tab.goto(f"{addresses['file']}/book/index.html")
        assert tab.locator(".tl-moved").count() == 1 and not tab.locator(".tl-moved").is_visible()
        for old, new in wanted.items():
            tab.goto(f"{addresses['file']}/{old}")
            item = tab.query_selector(":target")
            assert old.startswith("book/gone") or tab.locator(".tl-moved li:visible").count() == 1
            box = item.bounding_box()
            assert box["y"] >= 0 and box["y"] < DESKTOP[1]
            item.query_selector("a").click()
            tab.wait_for_url(f"{addresses['file']}/{new}")

    with reader(browser, javascript=False) as arrives:
        assert arrives(addresses["file"], "book/old.html#only", "book/new.html#new") == "book/new.html#new"
    ways = [f"book/{old}" for old in ("index.html#former", "index.html#third", "gone.html#first", "gone.html#second")]
    wanted = {old: MOVES[old] for old in ways}
    visit(browser, addresses["file"], "book/new", javascript=False, look=look)


def test_pages_from_which_nothing_moved_say_nothing(small):
    assert "tl-moved" in (small / "book" / "index.html").read_text("utf-8")
    assert "tl-moved" not in (small / "book" / "new.html").read_text("utf-8")


def test_short_links_name_the_frozen_page(small):
    page, name = (small / "p" / "former.html").read_text("utf-8"), read_edition(small).name
    assert re.fullmatch("[0-9a-f]{7}", name)
    assert f'<link rel="canonical" href="https://example.org/x/e/{name}/book/new.html#here">' in page
    assert Links(page).links[-1] == "../book/new.html#here"


def test_every_way_to_lose_a_permalink_fails_the_build(tmp_path):
    listed = LIST + "book/lost.html#lost\nbook/new.html#cut\nbook/new.html#stays -> book/index.html#small\n"
    listed = listed.replace("\nbook/new.html#here\n", "\n")
    new = NEW + "## Bare\n\n(stays)=\n## Stays\n\n### Deep\n\n#### Deeper\n"
    claim = '<div class="tl-claim holds" id="v1">A claim.</div>\n'
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / permalinks.FILE).write_text("book/before.html#here -> book/new.html#here\n", "utf-8")
    for arguments in ("init", "add data", "-c user.name=t -c user.email=t@example.org commit -m before"):
        subprocess.run(["git", *arguments.split()], cwd=tmp_path, check=True, capture_output=True)
    built, said = moved_book(tmp_path, listed, index=claim, new=new)
    assert not built
    said = " ".join(said.split())
    for complaint in (
        "permalinks.txt lists book/lost.html#lost, but there is no page book/lost.",
        "permalinks.txt lists book/new.html#cut, but the page book/new has no anchor cut.",
        "permalinks.txt has lost book/before.html#here: put back the line `book/before.html#here -> book/new.html#here` of commit",
        "permalinks.txt does not list book/index.html#v1: run `make update`",
        "permalinks.txt says that stays moved, but it is still here",
        "the section 'Bare' has no label: write (some-name)= above it",
        "the section 'Deep' has no label",
    ):
        assert complaint in said
    assert "'Deeper'" not in said and said.count("WARNING") == 7
    assert "citations have no link: what is built is not what commit" in said


# -- what a build says of citations


@pytest.mark.parametrize(
    ("commit", "why", "says"),
    [
        ("", "no git is on the PATH; install it", ["citations have no commit and no link: no git is on the PATH; install it"]),
        ("1" * 12 + "-dirty", "", [f"citations have no link: what is built is not what commit {'1' * 12} has"]),
        ("1" * 12, "", []),
    ],
)
def test_a_build_says_once_why_citations_have_no_link(commit, why, says, monkeypatch):
    said: list[str] = []
    now = dataclasses.replace(edition.current(), commit=commit, base_url="https://example.org")
    monkeypatch.setattr(edition, "current", lambda: now)
    monkeypatch.setattr(edition, "why_unknown", lambda: why)
    monkeypatch.setattr(book_cite.book_permalinks, "listed", lambda app: {"here": None})
    monkeypatch.setattr(book_cite.logger, "info", lambda message, *words: said.append(message % words))
    book_cite.say_where(None)
    assert said == says
