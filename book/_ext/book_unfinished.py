"""The book that is there stays until the new one is whole.

A build writes into _build/unfinished. What is whole takes the place of _build/html, or _build/text, in one step, so that a
build that is stopped at any moment, also by kill -9, leaves there what was there. Nothing else in _build is touched.
"""

import ctypes
import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

NAME = "unfinished"
SOCKETS = "sockets"  # beside what is built: a link to the temporary folder of its kernels'
ASIDE = ".aside"  # the old book, for the moment between two renames
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux
RENAME_SWAP = 2  # of macOS


class Busy(Exception):
    """Another build is running in the same folder."""


@contextmanager
def folder(build: Path):
    """An empty folder in `build`, for this build alone; it goes at the end, and what a killed build left goes at the start.

    Raises Busy while another build has it. The lock is given back by the system when the processes of a build are gone.
    """
    build.mkdir(parents=True, exist_ok=True)
    with open(build / f".{NAME}.lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy from None
        repair(build)
        clear(build / NAME)
        (build / NAME).mkdir()
        try:
            yield build / NAME
        finally:
            clear(build / NAME)


def repair(build: Path):
    """Finish what a build that was killed between two renames began."""
    for aside in build.glob(f"*{ASIDE}"):
        old = aside.with_suffix("")
        if old.exists():
            clear(aside)
        else:
            aside.rename(old)


def clear(unfinished: Path):
    """Remove the folder, and the system's temporary folder that a link in it names."""
    sockets = unfinished / "_build" / SOCKETS
    if sockets.is_symlink():
        shutil.rmtree(sockets.readlink(), ignore_errors=True)
    if unfinished.exists():
        shutil.rmtree(unfinished)


def put(new: Path, old: Path):
    """Put the folder `new` in the place of `old`, which need not be there."""
    if not old.exists():
        new.rename(old)
    elif not exchange(new, old):
        aside = old.with_name(old.name + ASIDE)
        old.rename(aside)
        new.rename(old)
        clear(aside)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the file system cannot."""
    library, names = ctypes.CDLL(None), (os.fsencode(one), os.fsencode(other))
    if hasattr(library, "renameat2"):  # Linux
        return library.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0
    if hasattr(library, "renamex_np"):  # macOS
        return library.renamex_np(*names, RENAME_SWAP) == 0
    return False
