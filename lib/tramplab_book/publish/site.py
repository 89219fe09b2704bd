"""Lays the built book out for any static host: the newest edition at the top, every edition frozen under e/.

`make site` runs it: python -m tramplab_book.publish.site HTML SITE. All links are relative, so the folder can be put below
any address, or be opened as it is.

An edition is made in a folder of its own in the site, on the same disk, and is renamed into e/ when it is whole. The list of
editions and the top follow from what is in e/, and each run makes them again: so the next one finishes what one that was stopped
has left, whichever edition it publishes.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path

from tramplab.base import streams
from tramplab.base.errors import TramplabError

from . import editions
from .cite import edition
from .cite.edition import Edition

DRAFT = ".unfinished"  # in the site: what is not whole yet, or not needed any more
# The line of a page that says its edition; what a frozen one says besides is the second part.
_LINE = re.compile(rb'(<p class="tl-links tl-edition">.*?)( \xc2\xb7 frozen \xc2\xb7 .*?)?(</p>)')


def line(text: str) -> str:
    """The line of a page that says its edition, as HTML; lay_out() adds the links to the others."""
    return f'<p class="tl-links tl-edition">{text}</p>\n'


def lay_out(built: Path, site: Path) -> str:
    """Publish a built book into a folder, empty or published before; returns a sentence about what was done.

    An edition that is there already is never changed: TramplabError if it would differ. So it is if the book was built
    from another commit than the present one, or from none. What the folder holds besides (.git, CNAME) is left alone.
    """
    now = _frozen(built)
    if built.resolve() in (site.resolve(), *site.resolve().parents):
        raise TramplabError(f"{site} lies in the built book, which the next one replaces: name another folder.")
    _refuse_strangers(built, site)
    draft, frozen = site / DRAFT, site / "e"
    if draft.exists():
        shutil.rmtree(draft)
    try:
        draft.mkdir(parents=True)
        _copy(built, draft / "frozen", now.name, f"e/{now.name}/")
        if not (frozen / now.name).exists():
            frozen.mkdir(exist_ok=True)
            (draft / "frozen").rename(frozen / now.name)
        elif _contents(draft / "frozen") != _contents(frozen / now.name):
            there = frozen / now.name
            raise TramplabError(f"{there} holds other pages of {now}; a published edition never changes: tag a new version.")
        order = editions.names(frozen)
        for name, text in ((editions.ORDER, "".join(f"{one}\n" for one in order)), (editions.LIST, editions.page(frozen, order))):
            (draft / name).write_text(text, "utf-8")
            (draft / name).replace(frozen / name)
        _put_on_top(site, order[-1])
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if order[-1] != now.name:
        return f"{now} is in {site} as it was; {order[-1]} stays the newest."
    return f"{now} is in {site}, as the newest and under e/{now.name}/."


def _frozen(built: Path) -> Edition:
    """The edition to publish: that of the checkout, if the book was built from it and it has a commit."""
    now = edition.current()
    if why := edition.why_unknown():
        raise TramplabError(f"a frozen edition must name a commit, and this one is unknown: {why}; then `make book`.")
    if not now.clean:
        raise TramplabError(
            "a frozen edition must name a commit: commit your changes, then `make book` and `make site`."
        )
    was = editions.read_edition(built)
    if was != now:
        there, here = (f"{one} of {one.base_url}/e/{one.name}/" for one in (was, now))
        raise TramplabError(f"{built} was built as {there}, the checkout is {here}: run `make book` again.")
    return now


def _published(site: Path) -> set[str]:
    """The names at the top of a site that editions have brought."""
    return {name for one in editions.names(site / "e") for name in os.listdir(site / "e" / one)}


def _refuse_strangers(built: Path, site: Path) -> None:
    """Refuse a folder in which the newest edition would replace files that no edition brought."""
    ours = _published(site)
    new = {*os.listdir(built)} | ({"e"} if not ours else set())
    there = {path.name for path in site.iterdir() if path.name != "e" or any(path.iterdir())} if site.exists() else set()
    if strangers := sorted(new & there - ours):
        raise TramplabError(f"{site} holds {strangers[0]}, which is no part of a published book: name another folder.")


def _put_on_top(site: Path, newest: str) -> None:
    """Put an edition at the top, in place of the one before."""
    top, old = site / DRAFT / "top", site / DRAFT / "old"
    _copy(site / "e" / newest, top, newest, "")
    (top / ".nojekyll").touch()  # GitHub would leave out the folders that begin with _
    old.mkdir()
    new = {*os.listdir(top)}
    for name in sorted(_published(site) | new):
        if os.path.lexists(site / name):
            (site / name).rename(old / name)
        if name in new:
            (top / name).rename(site / name)


def _copy(book: Path, target: Path, name: str, below: str) -> None:
    """Copy the book of an edition; its pages get links to the others. below: where they will be in the site, "" for the top."""
    target.mkdir()
    for path in sorted(book.rglob("*")):
        page = path.relative_to(book).as_posix()
        if path.is_dir():
            (target / page).mkdir()
        elif path.suffix == ".html":
            (target / page).write_bytes(_marked(path.read_bytes(), page, name, below))
        else:
            shutil.copy2(path, target / page)


def _marked(text: bytes, page: str, name: str, below: str) -> bytes:
    """A page that says in its edition line, if it has one, whether it is the newest or frozen."""
    state, other, label = "newest", f"e/{name}/{page}", "this page, frozen"
    if below:
        state, other, label = "frozen", page, "newest edition of this page"
    says, folder = f" · {state}", posixpath.dirname(below + page) or "."
    for target, text_of_link in ((other, label), ("e/index.html", "all editions")):
        says += f' · <a href="{html.escape(posixpath.relpath(target, folder))}">{text_of_link}</a>'
    return _LINE.sub(lambda found: found[1] + says.encode() + found[3], text)


def _contents(book: Path) -> dict[Path, bytes]:
    return {path.relative_to(book): path.read_bytes() for path in book.rglob("*") if path.is_file()}


def main(arguments: list[str]) -> int:
    """Lay out the book of the first argument in the folder of the second; returns the exit status, as streams.run() says."""

    def command() -> None:
        if len(arguments) != 2 or not all(arguments):
            raise TramplabError("name two folders: the built book and the site (make site SITE=...).")
        built, site = (Path(name).expanduser() for name in arguments)
        try:
            print(f"== {lay_out(built, site)}")
        except OSError as e:
            where = e.filename2 or e.filename or site
            raise TramplabError(f"{e.strerror} at {where}: put that right, then `make site` finishes what is begun.") from None

    return streams.run(command, "interrupted; the next `make site` finishes what is begun.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
