"""`make site`: the newest edition at the top, every edition frozen, and none ever changed."""

import dataclasses
import hashlib
import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from support.plugins.browser import PAGES, PHONE, Links, pages_with_chart, visit
from tramplab.base.errors import TramplabError
from tramplab_book.publish import editions, site
from tramplab_book.publish.cite import edition
from tramplab_book.publish.cite.edition import Edition

ONE = Edition("Tramplab: t", ("A",), "0.1", "2026", "1" * 12, "1111111", "https://example.org/x")
TWO = dataclasses.replace(ONE, version="0.2", commit="2" * 12, name="0.2")


@pytest.fixture
def build(tmp_path, monkeypatch):
    """build(edition, {page: text}) makes a small built book of the checkout's edition and returns its folder."""

    def make(now: Edition, pages: dict[str, str]) -> Path:
        monkeypatch.setattr(edition, "current", lambda: now)
        folder = tmp_path / "html"
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in {"index.html": "to book/a.html", **pages}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        editions.write_edition(folder, now)
        return folder

    return make


def page(text: str) -> str:
    return f"<p>{text}</p>\n{site.line('Edition.')}"


def contents(folder: Path) -> dict[str, str]:
    """Relative path to a hash of the bytes, of all files below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_newest_is_at_the_top_and_editions_stay(build, tmp_path):
    out = tmp_path / "out" / "site"
    said = site.lay_out(
        build(ONE, {"book/a.html": page("one"), "book/old.html": page("old"), "only-one.txt": "x"}), out
    )
    assert said == f"edition 0.1, commit {'1' * 12} is in {out}, as the newest and under e/1111111/."
    first = contents(out / "e" / "1111111")
    (out / ".git").mkdir()
    (out / "CNAME").write_text("example.org", "utf-8")
    site.lay_out(build(TWO, {"book/a.html": page("two"), "book/b.html": page("b")}), out)
    assert contents(out / "e" / "1111111") == first
    assert "<p>two</p>" in (out / "book" / "a.html").read_text("utf-8")
    assert not (out / "book" / "old.html").exists() and not (out / "only-one.txt").exists()
    assert {"CNAME", ".git", ".nojekyll", "e", "book", "index.html", "edition.json"} == set(os.listdir(out))
    assert (out / "e" / editions.ORDER).read_text("utf-8") == "1111111\n0.2\n"
    assert Links((out / "e" / "index.html").read_text("utf-8")).links == [
        "../index.html",
        "0.2/index.html",
        "1111111/index.html",
    ]


def test_every_page_says_which_edition_it_is(build, tmp_path):
    out = tmp_path / "site"
    site.lay_out(build(ONE, {"book/a.html": page("one"), "search.html": "no line"}), out)
    top, frozen = ((folder / "book" / "a.html").read_text("utf-8") for folder in (out, out / "e" / ONE.name))
    assert "Edition. · newest · " in top and Links(top).links == ["../e/1111111/book/a.html", "../e/index.html"]
    assert "Edition. · frozen · " in frozen and Links(frozen).links == ["../../../book/a.html", "../../index.html"]
    assert top.startswith("<p>one</p>\n") and frozen.startswith("<p>one</p>\n")  # the text is as it was
    assert (out / "search.html").read_text("utf-8") == "no line"


def test_an_edition_never_changes(build, tmp_path):
    """The same again changes nothing, and another one is refused."""
    pages = {"book/a.html": page("one"), "book/z.html": page("z")}
    site.lay_out(build(ONE, pages), tmp_path / "site")
    before = contents(tmp_path / "site")
    site.lay_out(build(ONE, pages), tmp_path / "site")
    with pytest.raises(TramplabError, match=r"e/1111111 holds other pages of edition 0.1.* never changes"):
        site.lay_out(build(ONE, {**pages, "book/a.html": "other"}), tmp_path / "site")
    assert contents(tmp_path / "site") == before


def test_an_old_edition_is_not_made_the_newest_again(build, tmp_path):
    pages = {"book/a.html": page("one")}
    for now in (ONE, TWO):
        site.lay_out(build(now, pages), tmp_path / "site")
    before = contents(tmp_path / "site")
    assert site.lay_out(build(ONE, pages), tmp_path / "site").endswith("0.2 stays the newest.")
    assert contents(tmp_path / "site") == before


def test_a_book_of_another_commit_is_refused(build, tmp_path, monkeypatch):
    built = build(ONE, {})
    monkeypatch.setattr(edition, "current", lambda: TWO)
    with pytest.raises(
        TramplabError, match=r"was built as edition 0.1, .* the checkout is edition 0.2, .*: run `make book`"
    ):
        site.lay_out(built, tmp_path / "site")
    with pytest.raises(TramplabError, match=r"holds no book with a sound edition.json: run `make book` first"):
        site.lay_out(tmp_path / "nowhere", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_files_of_others_are_not_replaced(build, tmp_path):
    path = tmp_path / "site" / "book" / "x"
    path.parent.mkdir(parents=True)
    path.write_text("theirs", "utf-8")
    with pytest.raises(TramplabError, match="site holds book, which is no part of a published book"):
        site.lay_out(build(ONE, {"book/a.html": page("one")}), tmp_path / "site")
    assert list(contents(tmp_path / "site")) == ["book/x"]


def test_a_folder_in_the_built_book_is_refused(build, tmp_path):
    built = build(ONE, {"book/a.html": page("one")})
    before = contents(built)
    with pytest.raises(TramplabError, match="lies in the built book"):
        site.lay_out(built, built / "book" / "x")
    assert contents(built) == before


def test_mistakes_are_one_line_and_exit_status_2(build, tmp_path, capsys):
    built = build(ONE, {"book/a.html": page("one")})
    assert site.main([str(built), str(tmp_path / "site")]) == 0
    assert capsys.readouterr().out.startswith("== edition 0.1")
    (tmp_path / "file").touch()
    for arguments in ([], [built, ""], [tmp_path, tmp_path / "site"], [built, tmp_path / "file"]):
        assert site.main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("tramplab: ") and said.err.count("\n") == 1


# -- the whole book, laid out


@pytest.fixture(scope="module")
def laid_out(site, tmp_path_factory):
    """The built book as if it were of a commit, published below a folder."""
    from tramplab_book.publish import site as layout

    folder = tmp_path_factory.mktemp("publish")
    shutil.copytree(site, folder / "html")
    editions.write_edition(folder / "html", TWO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edition, "current", lambda: TWO)
        layout.lay_out(folder / "html", folder / "host" / "x")
    return folder / "host" / "x"


def test_links_of_the_site_lead_somewhere_and_stay_below_it(laid_out):
    broken, seen = [], 0
    for path in laid_out.rglob("*.html"):
        if "_static" in path.parts:  # the theme's templates
            continue
        for link in Links(path.read_text("utf-8")).links:
            address = unquote(urldefrag(link)[0].partition("?")[0])
            if not address or ":" in address:
                continue
            seen += 1
            target = Path(os.path.normpath(path.parent / address))
            if not target.is_file() or laid_out not in target.parents:
                broken.append(f"{path.relative_to(laid_out)}: {link}")
    assert broken == [] and seen > 100


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_its_edition_and_is_else_as_it_was_built(laid_out, site, page):
    built = (site / f"{page}.html").read_text("utf-8")
    for folder, state in (("", "newest · "), (f"e/{TWO.name}/", "frozen · ")):
        text = (laid_out / f"{folder}{page}.html").read_text("utf-8")
        (said,) = re.findall(rf" · {state}.*?all editions</a>", text)
        assert text.replace(said, "") == built


def test_a_page_with_charts_works_at_the_top_and_frozen(browser, laid_out):
    def look(tab):
        line = tab.query_selector(".tl-edition")
        assert line.is_visible()
        lines.append(line.inner_text())

    lines: list[str] = []
    page = pages_with_chart(laid_out)[0]
    for folder in ("", f"e/{TWO.name}/"):
        assert visit(browser, laid_out.as_uri(), folder + page, PHONE, javascript=False, look=look).problems() == []
        assert visit(browser, laid_out.as_uri(), folder + page).problems() == []
    assert "newest · " in lines[0] and "frozen · " in lines[1]
