"""The folder in which things are kept from run to run. Every file in it ends with a checksum, verified when it is read.

The checksum is a trailer and no file beside it, because both then appear in one rename: nobody meets new content with an old
checksum, and of two that make the same file at once the last one's is whole. What opens a file by its path does not mind:
ELF is read by the offsets in its header, by the kernel, the dynamic linker, qemu and readers of symbols alike. The name goes
into the sum, so the whole content of another file is damage too.

What is damaged is made again, and a line says so. `.sha256` in its name says that a file ends this way; what earlier versions
kept has no such name and is not looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import TramplabError
from .paths import told_apart

#: The environment variable that names a file for the lines on what was damaged, instead of standard error: in a book's cell
#: anything on standard error is an error, and a file that was repaired is none.
LINES = "TRAMPLAB_CACHE_LINES"
_MARK = ".sha256"
_BUILDING = ".building-"
_OLD = 3600  # seconds; no build takes as long
_LENGTH = len(b"\nsha256 \n") + 64
_UNMAPPED = 65534  # the user that a container shows where it has none
_own: set[Path] = set()  # folders that this process has found to be its user's
_whole: dict[Path, tuple[int, int, int]] = {}  # what this process has verified, as _seen() saw it


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
    path = folder() / name
    return path.with_name(f"{path.stem}{_MARK}{path.suffix}")


def publish(make: Callable[[Path], Path], name: str) -> Path:
    """The kept file by its path, for what opens files itself; if it is absent or damaged, make(folder) -> file builds it in a
    folder of its own. Verified once by a process, as long as the file looks the same."""
    path = place(name)
    seen = _seen(path)
    if seen and seen == _whole.get(path):
        return path
    if read(name) is None:
        _put(make, name)
    elif seen:
        _whole[path] = seen
    return path


def read(name: str) -> bytes | None:
    """The content under a name; None if there is none, or if it is damaged, which is logged."""
    return unsealed(place(name), name)


def made(make: Callable[[Path], Path], name: str) -> bytes:
    """As publish(), for what wants the content."""
    content = read(name)
    return _put(make, name) if content is None else content


def keep(name: str, content: str) -> None:
    """Keep a text under a name, whole or not at all; raises TramplabError where that is not possible."""

    def write(where: Path) -> Path:
        (where / "text").write_text(content, "utf-8")
        return where / "text"

    _put(write, name)


def digest(name: str, content: bytes) -> str:
    """The checksum of what is kept under a name: the same content under another name has another one."""
    return hashlib.sha256(name.encode() + b"\0" + content).hexdigest()


def sealed(name: str, content: bytes) -> bytes:
    """A content with its checksum behind it."""
    return content + _trailer(name, content)


def unsealed(path: Path, name: str) -> bytes | None:
    """The content of a file that was sealed under this name; None if there is none, or if it is damaged, which is logged."""
    try:
        if not os.path.lexists(path):
            return None
        data = path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:  # by now
        return None
    except OSError:
        data = b""
    content = data[:-_LENGTH]
    if data[-_LENGTH:] == _trailer(name, content):
        return content
    _damaged(path)
    return None


def remove(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def say(line: str) -> None:
    """Say a line on what is no error, where such lines go."""
    lines = os.environ.get(LINES)
    with contextlib.suppress(OSError), open(lines, "a", encoding="utf-8") if lines else contextlib.nullcontext(sys.stderr) as f:
        if f is not None:
            print(f"tramplab: {line}", file=f, flush=True)


def remove_old(prefix: str, seconds: int, now: float, but: str = "") -> None:
    """Remove folders with this prefix that are older than `seconds`. A timestamp in the future counts as old (clock skew)."""
    root = folder()
    for left in (root / name for name in os.listdir(root) if name.startswith(prefix)):  # a cache has thousands of files
        with contextlib.suppress(OSError):  # another process is done with it
            if left.name != but and abs(now - left.lstat().st_mtime) > seconds:
                shutil.rmtree(left, ignore_errors=True)


def _put(make: Callable[[Path], Path], name: str) -> bytes:
    """Make a file, put it in its place with its checksum; returns its content."""
    path, root = place(name), folder()
    building = root / f"{_BUILDING}{uuid.uuid4().hex}"  # known before it is there, so that a Ctrl-C finds it
    try:
        with _writing(path.parent):
            building.mkdir(mode=0o700)
            remove_old(_BUILDING, _OLD, building.stat().st_mtime)  # of builds that were killed; by the clock of where they lie
            file = make(building)
            content = file.read_bytes()
            with file.open("ab") as f:
                f.write(_trailer(name, content))
            _clear(path)
            os.replace(file, path)
        return content
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _clear(path: Path) -> None:
    """Make way for a file, which replaces another one but no folder, and see that it has a folder to lie in."""
    if path.is_dir():
        remove(path)
    if not path.parent.is_dir() and os.path.lexists(path.parent):
        _damaged(path.parent)
        remove(path.parent)
    path.parent.mkdir(exist_ok=True)


def _damaged(path: Path) -> None:
    say(f"{path.name} in the cache was damaged and is made again")


def _trailer(name: str, content: bytes) -> bytes:
    return b"\nsha256 %b\n" % digest(name, content).encode()


def _seen(path: Path) -> tuple[int, int, int] | None:
    """The stat data that tell a file from another one that replaced it; None where there is none."""
    try:
        return told_apart(path.stat())
    except OSError:
        return None


@contextlib.contextmanager
def _writing(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise TramplabError(
            f"cannot keep files in {where} ({e.strerror or e}): set TRAMPLAB_CACHE to a folder that can be written."
        ) from None
