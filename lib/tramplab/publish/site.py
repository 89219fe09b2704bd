"""Lays the built book out for any static host: the newest edition at the top, every edition frozen under e/.

`make site` runs it: python -m tramplab.publish.site HTML SITE. All links are relative, so the folder can be put below
any address, or be opened as it is.
"""

from __future__ import annotations

import filecmp
import functools
import html
import json
import os
import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ..errors import TramplabError
from .cite import edition
from .cite.edition import Edition

FILE = "edition.json"  # in the built book and in every frozen copy: which edition it is
ORDER = "editions.txt"  # in e/: the editions in the order in which they were published
_LINE = re.compile(r'(<p class="tl-links tl-edition">)(.*?)(</p>)')


def line(text: str) -> str:
    """The line of a page that says its edition, as HTML; lay_out() adds the links to the others."""
    return f'<p class="tl-links tl-edition">{text}</p>\n'


def write_edition(folder: Path, now: Edition) -> None:
    """Record in a built book what it is."""
    (folder / FILE).write_text(json.dumps(asdict(now), indent=1) + "\n", "utf-8")


def read_edition(folder: Path) -> Edition:
    """What a built or published book is; raises TramplabError if it does not say."""
    try:
        fields = json.loads((folder / FILE).read_text("utf-8"))
        return Edition(**{**fields, "authors": tuple(fields["authors"])})
    except (OSError, ValueError, KeyError, TypeError):
        raise TramplabError(f"{folder} holds no built book: run `make book` first.") from None


def lay_out(built: Path, site: Path) -> str:
    """Publish a built book into a folder, empty or published before; returns a sentence about what was done.

    An edition that is there already is never changed: TramplabError if it would differ. So it is if the book was built
    from another commit than the present one, or from none. What the folder holds besides (.git, CNAME) is left alone.
    """
    now = _frozen(built)
    order = _order(site)
    newest = now.name not in order or order[-1] == now.name
    site.mkdir(parents=True, exist_ok=True)
    _refuse_strangers(built, site, order)
    work = Path(tempfile.mkdtemp(dir=site, prefix=".unfinished-"))
    try:
        _freeze(built, work / "frozen", site / "e" / now.name, now)
        order = list(dict.fromkeys([*order, now.name]))
        _replace(work, site / "e" / ORDER, "".join(f"{name}\n" for name in order))
        _replace(work, site / "e" / "index.html", _list(site / "e", order))
        if not newest:
            return f"{now} is in {site} as it was; {order[-1]} stays the newest."
        _copy(built, work / "newest", lambda page: _at_the_top(page, now))
        (work / "newest" / ".nojekyll").write_text("", "utf-8")  # GitHub would leave out the folders that begin with _
        _swap(work, site, stale=set(os.listdir(site / "e" / order[-2])) if len(order) > 1 else set())
        return f"{now} is in {site}, as the newest and under e/{now.name}/."
    finally:
        shutil.rmtree(work)


def _frozen(built: Path) -> Edition:
    """The edition to publish: that of the checkout, if the book was built from it and it has a commit."""
    now = edition.current()
    if why := edition.why_unknown():
        raise TramplabError(f"a frozen edition must name a commit, and this one is unknown: {why}; then `make book`.")
    if not now.clean:
        raise TramplabError(
            "a frozen edition must name a commit: commit your changes, then `make book` and `make site`."
        )
    was = read_edition(built)
    if was != now:
        there, here = (f"{one} of {one.base_url}/e/{one.name}/" for one in (was, now))
        raise TramplabError(f"{built} was built as {there}, the checkout is {here}: run `make book` again.")
    return now


def _order(site: Path) -> list[str]:
    path = site / "e" / ORDER
    return path.read_text("utf-8").split() if path.is_file() else []


def _refuse_strangers(built: Path, site: Path, order: list[str]) -> None:
    """Refuse a folder in which the newest edition would replace files that no edition brought."""
    ours = {name for old in order for name in os.listdir(site / "e" / old)}
    strangers = sorted(set(os.listdir(built)) & set(os.listdir(site)) - ours)
    if (site / "e").exists() and not all(
        one.name in (ORDER, "index.html") or (one / FILE).is_file() for one in (site / "e").iterdir()
    ):
        strangers.append("e")
    if strangers:
        raise TramplabError(f"{site} holds {strangers[0]}, which is no part of a published book: name another folder.")


def _freeze(built: Path, draft: Path, target: Path, now: Edition) -> None:
    """Put the frozen copy in its place, whole; the same one may be there already."""
    _copy(built, draft, lambda page: _below_e(page, now))
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        draft.rename(target)
    elif not _same(filecmp.dircmp(draft, target, ignore=[], hide=[])):
        raise TramplabError(
            f"{target} holds other pages of {now}; a published edition never changes: tag a new version."
        )


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
    shutil.copytree(built, target)
    for path in sorted(target.rglob("*.html")):
        text, page = path.read_text("utf-8"), path.relative_to(target).as_posix()
        marked = _marked(text, functools.partial(addition, page))
        if marked != text:
            path.write_text(marked, "utf-8")


def _marked(text: str, says: Callable[[], str]) -> str:
    """A page with more in its edition line, if it has one."""
    return _LINE.sub(lambda found: f"{found[1]}{found[2]} · {says()}{found[3]}", text)


def _same(compared: filecmp.dircmp) -> bool:
    """Whether two folders hold the same bytes."""
    files = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)[0]
    there = compared.left_list == compared.right_list and len(files) == len(compared.common_files)
    return there and all(_same(below) for below in compared.subdirs.values())


def _list(folder: Path, order: list[str]) -> str:
    """The page e/index.html, newest first."""
    editions = [(name, read_edition(folder / name)) for name in reversed(order)]
    title = html.escape(editions[0][1].title)
    items = "".join(
        f'<li><a href="{html.escape(name)}/index.html">{html.escape(str(one))}</a></li>\n' for name, one in editions
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Editions of {title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        f"</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>Every published edition, the newest first. None is ever changed.\n"
        f'<a href="../index.html">The newest</a> is also at the top of this site.</p>\n<ul>\n{items}</ul>\n'
        "</main>\n</body>\n</html>\n"
    )


def _replace(work: Path, path: Path, text: str) -> None:
    (work / "file").write_text(text, "utf-8")
    os.replace(work / "file", path)


def _swap(work: Path, site: Path, stale: set[str]) -> None:
    """Rename the newest edition's files and folders into place, one by one; those of the last one go."""
    (work / "old").mkdir()
    new = set(os.listdir(work / "newest"))
    for name in sorted(new | stale):
        if (site / name).exists():
            (site / name).rename(work / "old" / name)
        if name in new:
            (work / "newest" / name).rename(site / name)


def main(arguments: list[str]) -> int:
    """Lay out the book of the first argument in the folder of the second; 2 for what the user can put right."""
    try:
        if len(arguments) != 2:
            raise TramplabError("name two folders: the built book and the site (make site SITE=...).")
        print(f"== {lay_out(*map(Path, arguments))}")
        return 0
    except TramplabError as e:
        print(f"tramplab: {e}", file=sys.stderr)
    except OSError as e:
        print(f"tramplab: cannot write the site: {e}.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
