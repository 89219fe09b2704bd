"""Lays the built book out for any static host: the newest edition at the top, every edition frozen under e/.

`make site` runs it: python -m tramplab.publish.site HTML SITE. All links are relative, so the folder can be put below
any address, or be opened as it is.

What is new is made in a folder of its own in the site, on the same disk. When it is whole it gets another name, and from then
on there are only renames, which the next run goes on with if this one is stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import functools
import html
import os
import posixpath
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..base import streams
from ..base.errors import TramplabError
from . import editions
from .cite import edition
from .cite.edition import Edition

DRAFT = ".unfinished-draft"  # in the site: what is not whole yet, or not needed any more
WHOLE = ".unfinished-whole"  # what is whole, and not all in its place yet
OURS = ".unfinished-*"  # both, and what earlier versions left when they were killed
_LINE = re.compile(rb'(<p class="tl-links tl-edition">)(.*?)(</p>)')


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
    site.mkdir(parents=True, exist_ok=True)
    with _alone(site):
        order = editions.names(site / "e")
        _refuse_strangers(built, site, order)
        draft = site / DRAFT
        try:
            draft.mkdir(mode=0o700)
            newest = _draw_up(draft, built, site, order, now)
            if newest:
                draft.rename(site / WHOLE)
        finally:
            if draft.exists():
                shutil.rmtree(draft)
        if not newest:
            return f"{now} is in {site} as it was; {order[-1]} stays the newest."
        _finish(site)
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


@contextlib.contextmanager
def _alone(site: Path) -> Iterator[None]:
    """For one process at a time, which first finishes or clears what a killed one left."""
    handle = os.open(site, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TramplabError(f"another process is laying out {site}: wait for its end.") from None
        if _is_folder(site / WHOLE):
            _finish(site)
        for left in site.glob(OURS):
            if _is_folder(left):
                shutil.rmtree(left)
            else:
                left.unlink()
        yield
    finally:
        os.close(handle)


def _is_folder(path: Path) -> bool:
    """Whether it is one itself: this makes no links, and follows none, wherever they lead."""
    return path.is_dir() and not path.is_symlink()


def _refuse_strangers(built: Path, site: Path, order: list[str]) -> None:
    """Refuse a folder in which the newest edition would replace files that no edition brought."""
    ours = {name for old in order for name in os.listdir(site / "e" / old)}
    strangers = sorted(set(os.listdir(built)) & set(os.listdir(site)) - ours)
    frozen = site / "e"
    if set(os.listdir(frozen)) - {*order, editions.ORDER, editions.LIST} if frozen.is_dir() else os.path.lexists(frozen):
        strangers.append("e")
    if strangers:
        raise TramplabError(f"{site} holds {strangers[0]}, which is no part of a published book: name another folder.")


def _draw_up(draft: Path, built: Path, site: Path, order: list[str], now: Edition) -> bool:
    """Make all that is to be put in its place: e/ and top/, and in stale/ the names of what goes from the top. Returns whether
    anything is: not where a later edition is the newest."""
    for name in ("e", "stale", "old"):
        (draft / name).mkdir()
    frozen, there = draft / "e" / now.name, site / "e" / now.name
    _copy(built, frozen, lambda page: _below_e(page, now))
    if now.name not in order:
        for name in set(os.listdir(site / "e" / order[-1])) - set(os.listdir(built)) if order else ():
            (draft / "stale" / name).touch()
    elif not _same(filecmp.dircmp(frozen, there, ignore=[], hide=[])):
        raise TramplabError(f"{there} holds other pages of {now}; a published edition never changes: tag a new version.")
    elif order[-1] != now.name:
        return False
    else:
        shutil.rmtree(frozen)
    order = list(dict.fromkeys([*order, now.name]))
    (draft / "e" / editions.ORDER).write_text("".join(f"{name}\n" for name in order), "utf-8")
    (draft / "e" / editions.LIST).write_text(editions.page(site / "e", order, now), "utf-8")
    _copy(built, draft / "top", lambda page: _at_the_top(page, now))
    (draft / "top" / ".nojekyll").write_text("", "utf-8")  # GitHub would leave out the folders that begin with _
    return True


def _finish(site: Path) -> None:
    """Rename what is whole into its place, one by one; what was there goes. Whatever rename is the last, it can be called again."""
    whole = site / WHOLE
    (site / "e").mkdir(exist_ok=True)
    for path in sorted((whole / "e").iterdir(), key=Path.is_file):  # an edition is there before it is listed
        os.replace(path, site / "e" / path.name)
    waiting = set(os.listdir(whole / "top"))
    for name in sorted(waiting | set(os.listdir(whole / "stale"))):
        if os.path.lexists(site / name):
            (site / name).rename(whole / "old" / name)
        if name in waiting:
            (whole / "top" / name).rename(site / name)
    whole.rename(site / DRAFT)
    shutil.rmtree(site / DRAFT)


def _at_the_top(page: str, now: Edition) -> str:
    frozen = _link(page, f"e/{now.name}/{page}", "this page, frozen")
    return f"newest · {frozen} · {_link(page, 'e/index.html', 'all editions')}"


def _below_e(page: str, now: Edition) -> str:
    here = f"e/{now.name}/{page}"
    newest = _link(here, page, "newest edition of this page")
    return f"frozen · {newest} · {_link(here, 'e/index.html', 'all editions')}"


def _link(page: str, target: str, label: str) -> str:
    return f'<a href="{html.escape(posixpath.relpath(target, posixpath.dirname(page) or "."))}">{label}</a>'


def _copy(built: Path, target: Path, addition: Callable[[str], str]) -> None:
    """Copy the book; addition: page -> what its edition line says besides."""
    target.mkdir()
    for path in sorted(built.rglob("*")):
        page = path.relative_to(built).as_posix()
        if path.is_dir():
            (target / page).mkdir()
        elif path.suffix == ".html":
            (target / page).write_bytes(_marked(path.read_bytes(), functools.partial(addition, page)))
        else:
            shutil.copy2(path, target / page)


def _marked(text: bytes, says: Callable[[], str]) -> bytes:
    """A page with more in its edition line, if it has one."""
    return _LINE.sub(lambda found: b"%b%b \xc2\xb7 %b%b" % (found[1], found[2], says().encode(), found[3]), text)


def _same(compared: filecmp.dircmp) -> bool:
    """Whether two folders hold the same bytes."""
    files = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)[0]
    there = compared.left_list == compared.right_list and len(files) == len(compared.common_files)
    return there and all(_same(below) for below in compared.subdirs.values())


def main(arguments: list[str]) -> int:
    """Lay out the book of the first argument in the folder of the second; returns the exit status, as streams.run() says."""

    def command() -> None:
        if len(arguments) != 2 or not all(arguments):
            raise TramplabError("name two folders: the built book and the site (make site SITE=...).")
        built, site = (Path(os.path.expanduser(name)) for name in arguments)
        try:
            done = lay_out(built, site)
        except OSError as e:
            where = e.filename2 or e.filename or site
            raise TramplabError(f"{e.strerror} at {where}; {_left(site)}; put that right, then `make site` again.") from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {_left(site)}.") from None
        print(f"== {done}")

    return streams.run(command)


def _left(site: Path) -> str:
    """What a run that was stopped has left."""
    return f"{site} has some of what is new, and the next run finishes it" if _is_folder(site / WHOLE) else f"{site} is as it was"


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
