"""Permalinks that a line of the list once had: none is lost, as git tells it."""

import subprocess

import pytest

from support import ROOT
from support.complaints import complaint
from tramplab.base.revision import History, history
from tramplab_book import commands
from tramplab_book.publish.cite import pages, permalinks
from tramplab_book.publish.claims import claims

NAME = f"data/{permalinks.FILE}"


def lost(text: str, *lines: str) -> list[str]:
    return [*permalinks.lost(permalinks.parse(text), History(dict.fromkeys(lines, "0123456789ab"))).values()]


def git(folder, *arguments):
    options = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", str(folder), *options, *arguments], check=True, capture_output=True)


def committed(folder, text, message="one"):
    (folder / "data").mkdir(exist_ok=True)
    (folder / NAME).write_text(text, "utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-m", message)


def test_none_that_was_ever_listed_is_gone():
    told = history(ROOT, NAME)
    text = (ROOT / NAME).read_text("utf-8")
    assert [*permalinks.lost(permalinks.parse(text), told).values()] == []
    if told.lacks:
        pytest.skip(f"permalinks are not held against all that was ever listed: {told.lacks}")
    every = text.splitlines()
    listed = [line for line in every if line in told.lines and not line.startswith("#")]
    assert len(listed) > 400
    for line in listed[::9]:
        without = "".join(f"{other}\n" for other in every if other != line)  # not its end, which another may have
        assert len(permalinks.lost(permalinks.parse(without), told)) == 1, line


def test_what_is_lost_is_told_with_what_to_put_back():
    """A line that is deleted, one whose old address is, and one of which the place in between is."""
    moved = "book/a.html#one -> book/b.html#one"
    told = "permalinks.txt has lost {}: put back the line `{}` of commit 0123456789ab, and behind it where that is now."
    assert lost("book/b.html#one\n", moved) == [told.format("book/a.html#one", moved)]
    assert lost("book/a.html#one -> book/c.html#one\n", moved) == [told.format("book/b.html#one", moved)]
    assert lost("", "book/a.html#one") == [told.format("book/a.html#one", "book/a.html#one")]
    assert lost("book/a.html#one -> book/b.html#one -> book/c.html#one\n", moved, "book/a.html#one") == []
    # the place is another's, but the short link of its own id is gone
    assert lost("book/a.html#one -> book/b.html#two\n", "book/b.html#two") == [told.format("book/b.html#two", "book/b.html#two")]
    assert lost("book/a.html#one\n", "# a comment", "something else", "book/a.html#one") == []


def test_a_history_has_the_lines_of_all_branches(tmp_path):
    """Also of one that is merged and whose lines the merge leaves out; a shallow clone and a folder without git say so."""
    assert history(tmp_path, NAME) == History({}, f"{tmp_path} is no git repository of its own; work in a clone")
    git(tmp_path, "init", "-b", "main")
    assert history(tmp_path, NAME).lines == {} and "git says of" in history(tmp_path, NAME).lacks
    committed(tmp_path, "one\n")
    git(tmp_path, "checkout", "-b", "side")
    committed(tmp_path, "one\ntwo\n")
    git(tmp_path, "checkout", "main")
    committed(tmp_path, "one\nthree\n")
    git(tmp_path, "merge", "-s", "ours", "side")
    committed(tmp_path, "four\n", "the last")
    told = history(tmp_path, NAME)
    assert sorted(told.lines) == ["four", "one", "three", "two"] and not told.lacks
    assert history(tmp_path / "data", permalinks.FILE).lacks, "a folder of somebody else's repository"
    git(tmp_path, "clone", "--depth", "1", tmp_path.as_uri(), str(tmp_path / "shallow"))
    told = history(tmp_path / "shallow", NAME)
    assert sorted(told.lines) == ["four"] and told.lacks.startswith("this is a shallow clone; `git fetch --unshallow`")


def test_an_update_refuses_what_is_lost_and_brings_back_what_is_there(tmp_path, monkeypatch, capsys):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "b.md").write_text("(one)=\n# One\n\n(two)=\n## Two\n", "utf-8")
    (tmp_path / "data").mkdir()
    for name in ("releases.yml", claims.FILE):
        (tmp_path / "data" / name).write_bytes((ROOT / "data" / name).read_bytes())
    monkeypatch.setenv("TRAMPLAB_DATA", str(tmp_path / "data"))
    moved = "book/a.html#one -> book/b.html#one\n"
    (tmp_path / NAME).write_text(moved, "utf-8")
    commands._update_permalinks()
    why = f"{tmp_path} is no git repository of its own; work in a clone"
    told = f"permalinks.txt: not held against all that it ever listed: {why}\npermalinks.txt: rewritten\n"
    assert capsys.readouterr().out == told
    whole = (tmp_path / NAME).read_text("utf-8")
    assert whole.startswith(f"{moved}book/b.html#two\n") and pages.addresses(tmp_path / "book")
    git(tmp_path, "init")
    committed(tmp_path, whole)
    (tmp_path / NAME).write_text(whole.replace("book/b.html#two\n", ""), "utf-8")
    commands._update_permalinks()
    assert set((tmp_path / NAME).read_text("utf-8").splitlines()) == set(whole.splitlines())
    without = whole.replace(moved, "")
    (tmp_path / NAME).write_text(without, "utf-8")
    said = complaint(commands._update_permalinks)
    assert said.startswith(f"permalinks.txt has lost book/a.html#one: put back the line `{moved.strip()}` of commit ")
    assert (tmp_path / NAME).read_text("utf-8") == without
