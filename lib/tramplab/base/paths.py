"""Where data lies (in data/ of a checkout, in an installed package, or where $TRAMPLAB_DATA says), and writing files whole."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import TramplabError, Unwritten

#: The package; beside it, in a checkout, lies that of the book.
PACKAGE = Path(__file__).resolve().parent.parent
_CHECKOUT = PACKAGE.parent.parent


def data_file(name: str, package: Path = PACKAGE) -> Path:
    """The path of a file in data/, which a package that is installed elsewhere brings along; raises TramplabError where it is in
    neither."""
    base = os.environ.get("TRAMPLAB_DATA")
    folder = Path(base).absolute() if base else (package if _installed() else _CHECKOUT) / "data"
    if not (folder / name).is_file():
        raise TramplabError(
            f"no data file {folder / name}: work in a checkout of the book, or set TRAMPLAB_DATA to its data/ folder."
        )
    return folder / name


def _installed() -> bool:
    """Is the package installed, and in no checkout?"""
    return (PACKAGE / "data").is_dir()


def checkout() -> Path:
    """The folder that holds data/, book/ and CITATION.cff; raises TramplabError where there is none."""
    if not os.environ.get("TRAMPLAB_DATA") and _installed():
        raise TramplabError(f"{PACKAGE} lies in no checkout of the book: work in one, or set TRAMPLAB_DATA to its data/ folder.")
    return data_file("releases.yml").parent.parent


def sources(*parts: str, package: Path = PACKAGE) -> hashlib._Hash:
    """A SHA-256 of all files of these folders of a package, by name and content; more can be added to it."""
    h = hashlib.sha256()
    for path in sorted(p for part in parts for p in (package / part).rglob("[!.]*") if p.suffix not in (".pyc", "")):
        h.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return h


@contextlib.contextmanager
def temporary(prefix: str) -> Iterator[Path]:
    """For a `with`: a folder that goes away; raises TramplabError where none can be made, or the work in it finds no room."""
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
    except OSError as e:
        raise TramplabError(f"no work in a temporary folder ({e.strerror}): set TMPDIR to one that can be written.") from None


def check_target(path: Path) -> None:
    """Raises TramplabError for what write_whole() could not write, before the work is done; makes the folder it is to lie in."""
    target, _ = _target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as e:
        raise TramplabError(f"cannot write {path}: {e.strerror}.") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, under a temporary name and rename it: it is never half there. A link stays one, and a file that
    is there keeps its mode and its owner. Raises TramplabError for what is no file, Unwritten where writing fails."""
    target, before = _target(path)
    temporary = target.with_name(f".tramplab-{uuid.uuid4().hex}")
    try:
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(before.st_mode) if before else 0o666)
            with os.fdopen(handle, "wb") as f:
                f.write(content.encode() if isinstance(content, str) else content)
                if before:
                    with contextlib.suppress(PermissionError):  # only root may give another user's file back to them
                        os.fchown(handle, before.st_uid, before.st_gid)
                    os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as e:
        raise Unwritten(f"cannot write {path}: {e.strerror}.") from None


def destination(name: str | None) -> Callable[[str], object]:
    """The function that writes a command's text where the user wants it: into the file of this name, which check_target() checks
    now, or to standard output where there is none."""
    if name is None:
        return sys.stdout.write
    check_target(path := Path(name))
    return functools.partial(write_whole, path)


def rewrite(path: Path, text: str) -> str:
    """Write a text as write_whole() does; returns a line on whether it is another one than was there."""
    changed = not path.is_file() or path.read_bytes() != text.encode()
    write_whole(path, text)
    return f"{path.name}: {'rewritten' if changed else 'unchanged'}"


def _target(path: Path) -> tuple[Path, os.stat_result | None]:
    """The file that a path leads to, and what is there; raises TramplabError for what is no file, or may not be written."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise TramplabError(
                f"{path} is no ordinary file: name another one, or leave it away to write to standard output."
            )
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileNotFoundError:  # or a link to where nothing is
        about = None
    except OSError as e:
        raise TramplabError(f"cannot write {path}: {e.strerror}.") from None
    return Path(os.path.realpath(path)), about


def told_apart(seen: os.stat_result) -> tuple[int, int, int]:
    """The stat data that tell a file from another one that replaced it: when it was written, its size, and its number."""
    return seen.st_mtime_ns, seen.st_size, seen.st_ino
