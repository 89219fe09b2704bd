"""`make site`: the newest edition at the top, every edition frozen, and none ever changed."""

import dataclasses
import fcntl
import hashlib
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from support import ROOT
from support.browser import PAGES, PHONE, Links, pages_with_chart, visit
from tramplab.base.errors import TramplabError
from tramplab.publish import editions, site
from tramplab.publish.cite import edition
from tramplab.publish.cite.edition import Edition

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
    with pytest.raises(TramplabError, match="holds no built book: run `make book` first"):
        site.lay_out(tmp_path / "nowhere", tmp_path / "site")
    (built / "edition.json").write_text("[" * 100_000, "utf-8")
    with pytest.raises(TramplabError, match="holds no built book: run `make book` first"):
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


@pytest.mark.parametrize("target", ["nowhere", "e"], ids=["dangling", "looped"])
def test_a_link_that_leads_nowhere_in_place_of_the_editions_is_not_replaced_either(build, tmp_path, target):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "e").symlink_to(target)
    with pytest.raises(TramplabError, match="site holds e, which is no part of a published book"):
        site.lay_out(build(ONE, {"book/a.html": page("one")}), tmp_path / "site")
    assert os.listdir(tmp_path / "site") == ["e"]


class Killed(BaseException):
    """The end of a process, which cleans nothing up."""


CHANGES = [(os, "replace"), (shutil, "copy2"), (shutil, "rmtree")]
CHANGES += [(Path, name) for name in ("mkdir", "rename", "touch", "write_bytes", "write_text")]


def killed_after(steps: int, run) -> bool:
    """Whether what is run is stopped by a kill after so many steps that change something on the disk."""
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
    """Whenever it is killed: nothing of an edition is lost, no file is half there, and the next run completes or clears it, also
    one that publishes an older edition again."""
    first, second = {"book/a.html": page("one"), "zoo.html": page("zoo")}, {"book/a.html": page("two"), "new.html": page("new")}
    site.lay_out(build(ONE, first), tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    site.lay_out(build(TWO, second), tmp_path / "two")
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    seen, steps = set(), 0
    while True:
        out = tmp_path / str(steps)
        shutil.copytree(tmp_path / "one", out)
        built = build(TWO, second)
        killed = killed_after(steps, lambda: site.lay_out(built, out))  # noqa: B023
        again = tmp_path / f"{steps} again"
        shutil.copytree(out, again)
        site.lay_out(built, again)
        assert contents(again) == two
        site.lay_out(build(ONE, first), out)
        assert contents(out) in (one, two)
        assert not list(out.glob(site.OURS)) and not list(again.glob(site.OURS))
        seen.add(contents(out) == two)
        if not killed:
            break
        steps += 1
    assert seen == {False, True} and steps > 20


def test_what_an_earlier_version_left_is_cleared(build, tmp_path):
    left = tmp_path / "site" / ".unfinished-a1b2" / "frozen"
    left.mkdir(parents=True)
    site.lay_out(build(ONE, {"book/a.html": page("one")}), tmp_path / "site")
    assert not list((tmp_path / "site").glob(".unfinished*"))


@pytest.mark.parametrize("name", [site.DRAFT, site.WHOLE, ".unfinished-a1b2"])
@pytest.mark.parametrize("leads", ["nowhere", "to itself", "to a folder", "to a file", "it is a file"])
def test_a_link_or_a_file_of_such_a_name_is_cleared_and_nothing_else(build, tmp_path, name, leads):
    """This makes neither. Where a link leads to is somebody's."""
    built, out, theirs = build(ONE, {"book/a.html": page("one")}), tmp_path / "site", tmp_path / "theirs"
    site.lay_out(built, tmp_path / "right")
    out.mkdir()
    (theirs / "e").mkdir(parents=True)
    (theirs / "file").write_text("theirs", "utf-8")
    targets = {"nowhere": tmp_path / "x", "to itself": Path(name), "to a folder": theirs, "to a file": theirs / "file"}
    if leads in targets:
        (out / name).symlink_to(targets[leads])
    else:
        (out / name).write_text("x", "utf-8")
    site.lay_out(built, out)
    assert contents(out) == contents(tmp_path / "right") and not list(out.glob(site.OURS))
    assert contents(theirs) == {"file": hashlib.sha256(b"theirs").hexdigest()} and (theirs / "e").is_dir()


def test_one_process_at_a_time_lays_out_a_folder(build, tmp_path):
    built, out = build(ONE, {"book/a.html": page("one")}), tmp_path / "site"
    site.lay_out(built, out)
    before = contents(out)
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(TramplabError, match=r"another process is laying out .*/site: wait for its end\."):
            site.lay_out(built, out)
    finally:
        os.close(handle)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("listed", "complaint"),
    [
        (None, "does not list 0.2, 1111111: give it the names of the folders beside it, a line each, the oldest first"),
        (b"0.2\n", "does not list 1111111: give it the names"),
        (b"1111111\n0.2\n0.2\n", "lists what is not there, or twice: give it the names"),
        (b"\xff\x00", "does not list 0.2, 1111111: give it the names"),
    ],
)
def test_no_edition_is_lost_with_the_list(build, tmp_path, listed, complaint):
    for now in (ONE, TWO):
        built = build(now, {"book/a.html": page(now.name)})
        site.lay_out(built, tmp_path / "site")
    path = tmp_path / "site" / "e" / editions.ORDER
    right = path.read_bytes()
    path.unlink()
    if listed is not None:
        path.write_bytes(listed)
    before = contents(tmp_path / "site")
    with pytest.raises(TramplabError, match=f"^{re.escape(str(path))} {complaint}"):
        site.lay_out(built, tmp_path / "site")
    assert contents(tmp_path / "site") == before
    path.write_bytes(right)
    site.lay_out(built, tmp_path / "site")


def test_an_edition_that_does_not_say_which_it_is_is_named(build, tmp_path):
    for now in (ONE, TWO):
        built = build(now, {"book/a.html": page(now.name)})
        site.lay_out(built, tmp_path / "site")
    path = tmp_path / "site" / "e" / ONE.name / editions.FILE
    for damage in (lambda: path.write_text("{", "utf-8"), path.unlink):
        damage()
        with pytest.raises(TramplabError, match=f"^{re.escape(str(path))} does not say which edition is there: put it back"):
            site.lay_out(built, tmp_path / "site")


def test_a_folder_in_the_built_book_is_refused(build, tmp_path, monkeypatch):
    built = build(ONE, {"book/a.html": page("one")})
    before = contents(built)
    monkeypatch.chdir(built)
    for inside in (built, built / "book" / "x", Path("site")):
        with pytest.raises(TramplabError, match="lies in the built book"):
            site.lay_out(built, inside)
    assert contents(built) == before


def test_mistakes_are_one_line_and_exit_status_2(build, tmp_path, capsys):
    built = build(ONE, {"book/a.html": page("one")})
    assert site.main([str(built), str(tmp_path / "site")]) == 0
    assert capsys.readouterr().out.startswith("== edition 0.1")
    file = tmp_path / "file"
    file.write_text("", "utf-8")
    for arguments in ([tmp_path, tmp_path / "site"], [built, file], [built, file / "x"], [built], [built, ""]):
        assert site.main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("tramplab: ") and said.err.count("\n") == 1


def test_a_full_disk_and_ctrl_c_are_one_line_and_leave_the_site(build, tmp_path, capsys, monkeypatch):
    out = tmp_path / "site"
    site.lay_out(build(ONE, {"book/a.html": page("one"), "x.png": "x"}), out)
    before, built = contents(out), build(TWO, {"book/a.html": page("two"), "x.png": "y"})
    full = "tramplab: No space left on device at {}; {} is as it was; put that right, then `make site` again.\n"
    half = f"{out} has some of what is new, and the next run finishes it"

    def laid_out(owner, name, failure):
        def fail(*_, **__):
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            status = site.main([str(built), str(out)])
        return status, capsys.readouterr().err

    here = out / site.DRAFT / "x.png"
    assert laid_out(shutil, "copy2", OSError(28, "No space left on device", "x", None, here)) == (2, full.format(here, out))
    assert laid_out(Path, "write_bytes", OSError(28, "No space left on device")) == (2, full.format(out, out))
    assert laid_out(Path, "write_bytes", KeyboardInterrupt()) == (130, f"tramplab: interrupted; {out} is as it was.\n")
    assert contents(out) == before
    assert laid_out(os, "replace", KeyboardInterrupt()) == (130, f"tramplab: interrupted; {half}.\n")
    assert site.main([str(built), str(out)]) == 0 and not list(out.glob(site.OURS))
    assert (out / "x.png").read_text("utf-8") == "y"


# -- as it is run


def test_it_runs_as_a_module(build, tmp_path, monkeypatch, capsys):
    """What the command calls is there before it is called."""
    built = build(ONE, {"book/a.html": page("one")})
    usual = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    monkeypatch.setattr(sys, "argv", ["site", str(built), "~/site"])
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        with warnings.catch_warnings(), pytest.raises(SystemExit) as end:
            warnings.simplefilter("ignore")  # that it has been imported before
            runpy.run_module("tramplab.publish.site", run_name="__main__")
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP), usual, strict=True):
            signal.signal(number, handler)
    assert end.value.code == 0 and capsys.readouterr().out.startswith("== edition 0.1")
    assert (tmp_path / "site" / "e" / ONE.name / "book" / "a.html").is_file()


TYPED = ["a b", "it's", 'q"`$HOME$$x', "-x", "../x/", "~/x", "b\\;ls", "#x", ""]
#: What make itself would do something with.
TYPED += ["$(shell touch {ran})", "${shell touch {ran}}", "$(error x)", "$(info x)", "$(PY)", "$@", "$(", "$$(shell touch {ran})"]


@pytest.mark.parametrize("given, folder", [*(("as argument", f) for f in TYPED), *(("by environment", f) for f in TYPED if f)])
def test_make_passes_the_folder_on_as_it_was_typed(given, folder, tmp_path):
    folder = folder.replace("{ran}", str(tmp_path / "ran"))
    command = ["make", "-s", "-o", ".venv/installed", "-o", "_build/html/index.html", "site", "PY=printf '<%s>'"]
    environment = {**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "0"}
    if given == "by environment":
        environment["SITE"] = folder
    else:
        command.append(f"SITE={folder}")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    assert done.stdout == f"<-m><tramplab.publish.site><_build/html><{folder}>", done.stderr
    assert not (tmp_path / "ran").exists()


# -- the whole book, laid out


@pytest.fixture(scope="module")
def laid_out(site, tmp_path_factory):
    """The built book as if it were of a commit, published below a folder."""
    from tramplab.publish import site as layout

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
        assert visit(browser, laid_out.as_uri(), folder + page, charts=folder != "").problems() == []
    assert "newest · " in lines[0] and "frozen · " in lines[1]
