"""The edition that a checkout is: what citations and `make site` make of its commit, of CITATION.cff, and of where links begin."""

import re
import shutil
from pathlib import Path

import pytest

from support.base.repositories import committed
from tramplab import cli
from tramplab.base.paths import checkout
from tramplab_book.publish import site
from tramplab_book.publish.cite import edition


def a_book(folder: Path) -> Path:
    """What makes a folder a checkout of the book for those who cite it."""
    (folder / "data").mkdir(parents=True)
    for name in ("CITATION.cff", "data/releases.yml", "data/permalinks.txt", "data/claims.yml"):
        shutil.copy(checkout() / name, folder / name)
    for name in ("book", "data/findings"):
        (folder / name).symlink_to(checkout() / name)
    return folder


@pytest.fixture
def anew():
    edition.current.cache_clear()
    yield
    edition.current.cache_clear()


def test_an_unknown_commit_is_said_and_nothing_is_linked_or_published(tmp_path, monkeypatch, anew, capsys):
    folder = a_book(tmp_path / "checkout")
    monkeypatch.setenv("HOME", str(tmp_path))  # without a reader's own settings
    why = f"{folder} is no git repository of its own; work in a clone"
    monkeypatch.setenv("TRAMPLAB_DATA", str(folder / "data"))
    monkeypatch.setenv("TRAMPLAB_URL", "https://example.org")
    for arguments in (["glossary"], ["glossary", "--bibtex"]):
        assert cli.main(["cite", *arguments]) == 0
        said = capsys.readouterr()
        assert "commit unknown" in " ".join(said.out.split()) and "://" not in said.out
        assert said.err == f"tramplab: the commit is unknown, so there is no link: {why}.\n"
    assert site.main([str(tmp_path / "html"), str(tmp_path / "site")]) == 2
    refused = "a frozen edition must name a commit, and this one is unknown"
    assert capsys.readouterr().err == f"tramplab: {refused}: {why}; then `make book`.\n"
    assert not (tmp_path / "site").exists()


def test_what_differs_from_its_commit_has_no_link_either(tmp_path, monkeypatch, anew, capsys):
    """It is never published: `make site` refuses it."""
    folder = committed(a_book(tmp_path / "checkout"))
    monkeypatch.setenv("TRAMPLAB_DATA", str(folder / "data"))
    monkeypatch.setenv("TRAMPLAB_URL", "https://example.org")
    assert cli.main(["cite", "glossary"]) == 0
    said = capsys.readouterr()
    assert re.search(r"^Link: https://example\.org/e/[0-9a-f]{7}/p/glossary\.html$", said.out, re.M) and said.err == ""
    with open(folder / "CITATION.cff", "a", encoding="utf-8") as f:
        f.write("# changed\n")
    edition.current.cache_clear()
    for arguments in (["glossary"], ["glossary", "--bibtex"]):
        assert cli.main(["cite", *arguments]) == 0
        assert "-dirty" in (out := capsys.readouterr().out) and "://" not in out
    assert site.main([str(tmp_path / "html"), str(tmp_path / "site")]) == 2
    assert "commit your changes" in capsys.readouterr().err


def test_a_bad_address_or_citation_file_is_one_sentence(tmp_path, monkeypatch, anew, capsys):
    folder = a_book(tmp_path / "checkout")
    monkeypatch.setenv("TRAMPLAB_DATA", str(folder / "data"))
    monkeypatch.delenv("TRAMPLAB_URL", raising=False)
    good = (folder / "CITATION.cff").read_bytes()
    for bad, said in (
        (b"\xff", "UTF-8"),
        (b"url: [\n", "YAML"),
        (b"x", "the file"),
        (good.replace(b"\nurl:", b"\nurl: 5 #"), "url"),
        (good.replace(b"- name:", b"- x #"), "authors"),
    ):
        (folder / "CITATION.cff").write_bytes(bad)
        edition.current.cache_clear()
        assert cli.main(["cite", "glossary"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("tramplab: CITATION.cff") and said in err and err.count("\n") == 1
    (folder / "CITATION.cff").write_bytes(good)
    (folder / "CITATION.cff").write_bytes(good.replace(b"\nurl:", b"\nurl: 'https://x/\"><b>' #"))
    edition.current.cache_clear()
    assert cli.main(["cite", "glossary"]) == 2
    assert "is no address that a page can link to" in capsys.readouterr().err


@pytest.mark.parametrize("base", ["https://[::1]:8000/x", "https://x.org/~me/@a/b+c%20d/", "file:///srv/book"])
def test_an_address_that_links_may_begin_with(base, monkeypatch, anew):
    monkeypatch.setenv("TRAMPLAB_URL", base)
    assert edition.current().base_url == base.rstrip("/")


@pytest.mark.parametrize(
    "base",
    [
        *("http://[x", "http://x:99999", "https://", "file://host/x", "/srv/x", "JavaScript:alert(1)//https://x", "ftp://x.org"),
        *('https://x.org/"onclick="x', "https://x.org/<b>", "https://x.org/\nb", "https://me:secret@x.org", "https://x.org/?a=b"),
    ],
)
def test_what_links_must_not_begin_with_is_one_sentence(base, monkeypatch, anew, capsys):
    """Every Cite box is a link that begins with it."""
    monkeypatch.setenv("TRAMPLAB_URL", base)
    assert cli.main(["cite", "glossary"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("tramplab: ") and "is no address that a page can link to: write it like https://" in said.err
    assert said.err.endswith("see url in CITATION.cff, which TRAMPLAB_URL may replace.\n")
