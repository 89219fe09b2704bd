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
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import TramplabError

#: The environment variable that names a file for the lines on what was damaged, instead of standard error: in a book's cell
#: anything on standard error is an error, and a file that was mended is none.
LINES = "TRAMPLAB_CACHE_LINES"
_MARK = ".sha256"
_BUILDING = ".building-"
_OLD = 3600  # seconds; no build takes as long
_LENGTH = len(b"\nsha256 \n") + 64
_whole: dict[Path, tuple[int, int, int]] = {}  # what this process has verified, as _seen() saw it


def folder() -> Path:
    """Where files are kept: $TRAMPLAB_CACHE, or tramplab/ in the user's cache folder; made if it is not there."""
    base = os.environ.get("TRAMPLAB_CACHE")
    where = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tramplab"
    with _writing(where):
        where.mkdir(parents=True, exist_ok=True)
    return where


def place(name: str) -> Path:
    """The path of the file that is kept under a name, whether it is there or not; a name may have a folder before it."""
    path = folder() / name
    return path.with_name(f"{path.stem}{_MARK}{path.suffix}")


def publish(make: Callable[[Path], Path], name: str) -> Path:
    """The kept file by its path, for what opens files itself; if it is absent or damaged, make(folder) -> file builds it in a
    folder of its own. Verified once by a process, as long as the file looks the same."""
    path = place(name)
    seen = _seen(path)
    if seen is None or (seen != _whole.get(path) and read(name) is None):
        _put(make, name)
    else:
        _whole[path] = seen
    return path


def read(name: str) -> bytes | None:
    """What is kept under a name; None if nothing is, or if it is damaged, of which a line is said."""
    path = place(name)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = data[:-_LENGTH]
    if data[-_LENGTH:] == _trailer(name, content):
        return content
    _say(f"tramplab: {path.name} in the cache was damaged and is made again")
    return None


def made(make: Callable[[Path], Path], name: str) -> bytes:
    """As publish(), for what wants the content."""
    content = read(name)
    return _put(make, name) if content is None else content


def keep(name: str, content: str) -> None:
    """Keep a text under a name, whole or not at all; raises TramplabError where that is not possible."""

    def write(where: Path) -> Path:
        with _writing(where.parent):
            (where / "text").write_text(content, "utf-8")
        return where / "text"

    _put(write, name)


def _put(make: Callable[[Path], Path], name: str) -> bytes:
    """Make a file, put it in its place with its checksum; returns its content."""
    path, here = place(name), folder()
    for left in here.glob(f"{_BUILDING}*"):  # of a build that was killed
        with contextlib.suppress(FileNotFoundError):  # another process is done with it
            if time.time() - left.stat().st_mtime > _OLD:
                shutil.rmtree(left, ignore_errors=True)
    building = here / f"{_BUILDING}{uuid.uuid4().hex}"  # known before it is there, so that a Ctrl-C finds it
    try:
        with _writing(here):
            building.mkdir(mode=0o700)
        file = make(building)
        with _writing(path.parent):
            content = file.read_bytes()
            with file.open("ab") as f:
                f.write(_trailer(name, content))
            path.parent.mkdir(exist_ok=True)
            os.replace(file, path)
        return content
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _trailer(name: str, content: bytes) -> bytes:
    return b"\nsha256 %b\n" % hashlib.sha256(name.encode() + b"\0" + content).hexdigest().encode()


def _seen(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from another one that took its place; None where there is none."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_mtime_ns, now.st_size, now.st_ino


def _say(line: str) -> None:
    lines = os.environ.get(LINES)
    with contextlib.suppress(OSError), open(lines, "a", encoding="utf-8") if lines else contextlib.nullcontext(sys.stderr) as f:
        print(line, file=f, flush=True)


@contextlib.contextmanager
def _writing(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise TramplabError(
            f"cannot keep files in {where} ({e.strerror}): set TRAMPLAB_CACHE to a folder that can be written."
        ) from None
