"""`make site`: the newest edition at the top, every edition frozen, and none ever changed."""

import dataclasses
import hashlib
import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from support.base.outputs import standard_output
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


def test_the_same_again_changes_nothing(build, tmp_path):
    pages = {"book/a.html": page("one")}
    site.lay_out(build(ONE, pages), tmp_path / "site")
    before = contents(tmp_path / "site")
    site.lay_out(build(ONE, pages), tmp_path / "site")
    assert contents(tmp_path / "site") == before


@pytest.mark.parametrize(
    "change", [{"book/a.html": "other"}, {"book/b.html": "more"}, {"book/a.html": None}], ids=["other", "more", "less"]
)
def test_an_edition_never_changes(build, tmp_path, change):
    pages = {"book/a.html": page("one"), "book/z.html": page("z")}
    site.lay_out(build(ONE, pages), tmp_path / "site")
    before = contents(tmp_path / "site")
    changed = {name: text for name, text in {**pages, **change}.items() if text is not None}
    with pytest.raises(TramplabError, match=r"e/1111111 holds other pages of edition 0.1.* never changes"):
        site.lay_out(build(ONE, changed), tmp_path / "site")
    assert contents(tmp_path / "site") == before


def test_an_old_edition_is_not_made_the_newest_again(build, tmp_path):
    pages = {"book/a.html": page("one")}
    for now in (ONE, TWO):
        site.lay_out(build(now, pages), tmp_path / "site")
    before = contents(tmp_path / "site")
    assert site.lay_out(build(ONE, pages), tmp_path / "site").endswith("0.2 stays the newest.")
    assert contents(tmp_path / "site") == before


@pytest.mark.parametrize("commit", ["", "1" * 12 + "-dirty"])
def test_a_frozen_edition_must_name_a_commit(build, tmp_path, commit):
    built = build(dataclasses.replace(ONE, commit=commit), {})
    with pytest.raises(TramplabError, match="a frozen edition must name a commit"):
        site.lay_out(built, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_book_of_another_commit_is_refused(build, tmp_path, monkeypatch):
    built = build(ONE, {})
    monkeypatch.setattr(edition, "current", lambda: TWO)
    with pytest.raises(
        TramplabError, match=r"was built as edition 0.1, .* the checkout is edition 0.2, .*: run `make book`"
    ):
        site.lay_out(built, tmp_path / "site")
    with pytest.raises(TramplabError, match=r"holds no book with a sound edition.json: run `make book` first"):
        site.lay_out(tmp_path / "nowhere", tmp_path / "site")
    (built / "edition.json").write_text("[" * 100_000, "utf-8")
    with pytest.raises(TramplabError, match=r"holds no book with a sound edition.json: run `make book` first"):
        site.lay_out(built, tmp_path / "site")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("theirs", ["book/x", "e/x"])
def test_files_of_others_are_not_replaced(build, tmp_path, theirs):
    path = tmp_path / "site" / theirs
    path.parent.mkdir(parents=True)
    path.write_text("theirs", "utf-8")
    with pytest.raises(TramplabError, match=f"site holds {path.parent.name}, which is no part of a published book"):
        site.lay_out(build(ONE, {"book/a.html": page("one")}), tmp_path / "site")
    assert list(contents(tmp_path / "site")) == [theirs]


class Killed(BaseException):
    """The end of a process."""


CHANGES = [(shutil, "copy2"), (shutil, "rmtree"), *((Path, name) for name in ("mkdir", "rename", "replace", "write_bytes"))]


def killed_after(steps: int, run) -> bool:
    """Whether what is run is stopped after so many steps that change something on the disk; what is left is not cleared."""
    left = iter(range(steps))

    def mortal(change):
        def step(*arguments, **options):
            if next(left, None) is None:
                raise Killed
            return change(*arguments, **options)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CHANGES:
            patch.setattr(owner, name, mortal(getattr(owner, name)))
        try:
            run()
        except Killed:
            return True
    return False


def test_what_a_killed_run_left_is_finished_by_the_next(build, tmp_path):
    """Whenever it is killed: no edition changes, none is half there, and the next run completes or clears it, also one that
    publishes an older edition again."""
    first, second = {"book/a.html": page("one"), "zoo.html": page("zoo")}, {"book/a.html": page("two"), "new.html": page("new")}
    site.lay_out(build(ONE, first), tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    site.lay_out(build(TWO, second), tmp_path / "two")
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    seen, killed, steps = set(), True, 0
    while killed:
        out, again = tmp_path / str(steps), tmp_path / f"{steps} again"
        shutil.copytree(tmp_path / "one", out)
        built = build(TWO, second)
        killed = killed_after(steps, lambda: site.lay_out(built, out))  # noqa: B023
        shutil.copytree(out, again)
        site.lay_out(built, again)
        site.lay_out(build(ONE, first), out)
        assert contents(again) == two and contents(out) in (one, two)
        assert not (out / site.DRAFT).exists() and not (again / site.DRAFT).exists()
        seen.add(contents(out) == two)
        steps += 1
    assert seen == {False, True} and steps > 20


def test_a_first_run_that_was_killed_is_finished_by_the_next(build, tmp_path):
    built, steps = build(ONE, {"book/a.html": page("one")}), 0
    while killed_after(steps, lambda: site.lay_out(built, tmp_path / str(steps))):  # noqa: B023
        site.lay_out(built, tmp_path / str(steps))
        steps += 1
    assert steps > 10 and all(contents(tmp_path / str(n)) == contents(tmp_path / "0") for n in range(1, steps + 1))


def test_no_edition_is_lost_with_the_list(build, tmp_path):
    for now in (ONE, TWO):
        built = build(now, {"book/a.html": page(now.name)})
        site.lay_out(built, tmp_path / "site")
    path = tmp_path / "site" / "e" / editions.ORDER
    path.write_text("gone\n0.2\n0.2\n", "utf-8")
    site.lay_out(built, tmp_path / "site")
    assert path.read_text("utf-8") == "0.2\n1111111\n"


def test_a_folder_in_the_built_book_is_refused(build, tmp_path, monkeypatch):
    built = build(ONE, {"book/a.html": page("one")})
    before = contents(built)
    monkeypatch.chdir(built)
    for inside in (built, built / "book" / "x", Path("site")):
        with pytest.raises(TramplabError, match="lies in the built book"):
            site.lay_out(built, inside)
    assert contents(built) == before


def test_mistakes_are_one_line_and_exit_status_2(build, tmp_path, capsys, monkeypatch):
    built = build(ONE, {"book/a.html": page("one"), "x.png": "x"})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert site.main([str(built), "~/site"]) == 0 and (tmp_path / "site" / "book" / "a.html").is_file()
    assert capsys.readouterr().out.startswith("== edition 0.1")
    file = tmp_path / "file"
    file.write_text("", "utf-8")
    (tmp_path / "file in e").mkdir()
    (tmp_path / "file in e" / "e").write_text("", "utf-8")
    (tmp_path / "site" / "e" / ONE.name / editions.FILE).write_text("{", "utf-8")
    for arguments in (
        [tmp_path, tmp_path / "site"], [built, tmp_path / "site"], [built, tmp_path / "file in e"], [built, file],
        [built, file / "x"], [built], [built, ""],
    ):  # fmt: skip
        assert site.main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("tramplab: ") and said.err.count("\n") == 1
    with standard_output("/dev/null") as said:
        assert site.main([]) == 2
    assert said().startswith("tramplab: name ") and said().count("\n") == 1


def test_a_full_disk_and_ctrl_c_are_one_line_and_leave_the_site(build, tmp_path, capsys, monkeypatch):
    out = tmp_path / "site"
    site.lay_out(build(ONE, {"book/a.html": page("one"), "x.png": "x"}), out)
    before, built = contents(out), build(TWO, {"book/a.html": page("two"), "x.png": "y"})
    full = OSError(28, "No space left on device", "x", None, out / "x.png")
    said_of_full = f"No space left on device at {out / 'x.png'}: "
    for failure, status, said in ((full, 2, said_of_full), (KeyboardInterrupt(), 130, "interrupted; ")):
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "copy2", lambda *_, failure=failure: (_ for _ in ()).throw(failure))
            assert site.main([str(built), str(out)]) == status
        assert capsys.readouterr().err.startswith(f"tramplab: {said}") and contents(out) == before
    assert site.main([str(built), str(out)]) == 0 and (out / "x.png").read_text("utf-8") == "y"


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
