"""The folder in which things are kept from run to run.

A file's name has a digest of all that it was made from, or of its content, so it never goes stale; it appears in one rename, and is
always found whole. Where a disk has spoilt files, `rm -r` of the folder has them made again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import TramplabError

_BUILDING = ".building-"
_OLD = 3600  # seconds; no build takes as long
_UNMAPPED = 65534  # the user that a container shows where it has none
_own: set[Path] = set()  # folders that this process has found to be its user's


def folder() -> Path:
    """Where files are kept: $TRAMPLAB_CACHE, or tramplab/ in the user's cache folder; made if it is not there."""
    base = os.environ.get("TRAMPLAB_CACHE")
    try:
        where = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tramplab"
    except RuntimeError:
        raise TramplabError("this user has no home to keep files in: set TRAMPLAB_CACHE to a folder that can be written.") from None
    with _writing(where):
        where = where.absolute()  # compilers run in folders of their own
        if not where.is_dir():
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
        if where not in _own:
            _refuse_foreign(where)
            _own.add(where)
    return where


def _refuse_foreign(where: Path) -> None:
    """Raise TramplabError where another user, root excepted, may put files into a folder, or another folder or link in its place:
    libraries are loaded from it."""
    real = where.resolve()
    for path in dict.fromkeys((real, *real.parents, where, *where.parents)):
        seen = path.lstat()
        mode, yours = stat.S_IMODE(seen.st_mode), {os.geteuid(), 0}
        link = stat.S_ISLNK(seen.st_mode)
        if path != real:
            yours.add(_UNMAPPED)  # in a container that is who root is outside
        open_to = "" if link or not mode & 0o022 or (mode & stat.S_ISVTX and path != real) else f" (mode {mode:o})"
        if seen.st_uid not in yours or open_to:
            whose = open_to or f" (owner {seen.st_uid})"
            why = f"as other users may write to {path}{whose}"
            raise TramplabError(f"will not load libraries from {where}, {why}: set TRAMPLAB_CACHE to a folder that is yours alone.")


def place(name: str) -> Path:
    """The path of the file that is kept under a name, whether it is there or not; a name may have a folder before it."""
    return folder() / name


def publish(make: Callable[[Path], Path], name: str) -> Path:
    """The kept file by its path, for what opens files itself; if it is absent, make(folder) -> file builds it in a folder of its
    own."""
    path = place(name)
    if not path.is_file():
        _put(make, name)
    return path


def read(name: str) -> bytes | None:
    """The content under a name; None if there is none."""
    path = place(name)
    with _writing(path.parent):
        return path.read_bytes() if path.is_file() else None


def made(make: Callable[[Path], Path], name: str) -> bytes:
    """The content under a name; if it is absent, make(folder) -> file builds it as for publish()."""
    with _writing(place(name).parent):
        return publish(make, name).read_bytes()


def keep(name: str, content: str) -> None:
    """Keep a text under a name, whole or not at all; raises TramplabError where that is not possible."""

    def write(where: Path) -> Path:
        (where / "text").write_text(content, "utf-8")
        return where / "text"

    _put(write, name)


def remove_old(prefix: str, seconds: int, now: float, but: str = "") -> None:
    """Remove folders with this prefix that are older than `seconds`. A timestamp in the future counts as old (clock skew)."""
    root = folder()
    for left in (root / name for name in os.listdir(root) if name.startswith(prefix)):  # a cache has thousands of files
        with contextlib.suppress(OSError):  # another process is done with it
            if left.name != but and abs(now - left.lstat().st_mtime) > seconds:
                shutil.rmtree(left, ignore_errors=True)


def _put(make: Callable[[Path], Path], name: str) -> None:
    """Make a file, and put it in its place."""
    path, root = place(name), folder()
    building = root / f"{_BUILDING}{uuid.uuid4().hex}"  # known before it is there, so that a Ctrl-C finds it
    try:
        with _writing(path.parent):
            building.mkdir(mode=0o700)
            remove_old(_BUILDING, _OLD, building.stat().st_mtime)  # of builds that were killed; by the clock of where they lie
            file = make(building)
            path.parent.mkdir(exist_ok=True)
            os.replace(file, path)
    finally:
        shutil.rmtree(building, ignore_errors=True)


@contextlib.contextmanager
def _writing(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise TramplabError(
            f"cannot keep files in {where} ({e.strerror or e}): set TRAMPLAB_CACHE to a folder that can be written."
        ) from None
