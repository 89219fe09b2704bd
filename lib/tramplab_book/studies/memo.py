"""Rows that are made once: a page, its boxes and the ledger ask for them again and again.

In a process they are kept in memory, pickled: what is unpickled shares nothing with what others were given, in a fifth of a
millisecond for a common frame. `each` does so for a function of arguments. While a book is built they are also kept in a folder
of that build (FOLDER), so that all its pages, which run in processes of their own, show the same rows, and none makes them again:
a page that wants what another one is making waits for it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar

from tramplab.base.errors import TramplabError
from tramplab.base.paths import write_whole

Rows = TypeVar("Rows")
#: The environment variable that names the folder; book/_ext/book_build.py sets it for the length of a build, and the tests for
#: that of a run, in which they build the book too.
FOLDER = "TRAMPLAB_ROWS"


def once(make: Callable[[], Rows]) -> Callable[[], Rows]:
    """The function, run at its first call only; every call gives a copy, of which the caller may change whatever it likes.

    >>> @once
    ... def rows():
    ...     print("running")
    ...     return [{"n": 1}]
    >>> changed = rows()
    running
    >>> changed[0]["n"] = 2
    >>> rows()
    [{'n': 1}]
    """
    return each(make)


def each(make: Callable[..., Rows]) -> Callable[..., Rows]:
    """The function as once() has it, but run once for each choice of arguments, which are told apart by how they are written, such
    as names and numbers.

    >>> @each
    ... def square(n):
    ...     print("running")
    ...     return n * n
    >>> square(3)
    running
    9
    >>> square(3), square(0)
    running
    (9, 0)
    """

    @functools.cache
    def kept(*args: Hashable) -> bytes:
        chosen = hashlib.sha256(repr(args).encode()).hexdigest()[:16] if args else ""
        name = ".".join(filter(None, (make.__module__, make.__qualname__, chosen)))
        return _kept(lambda: make(*args), f"{name}.pickle")

    @functools.wraps(make)
    def rows(*args: Hashable) -> Rows:
        return pickle.loads(kept(*args))

    return rows


def _kept(make: Callable[[], object], name: str) -> bytes:
    """What make() returns, pickled; from the build's folder if it is there already under its name."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return pickle.dumps(make())
    path = Path(folder) / name
    try:
        lock = os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT)
    except OSError as e:
        raise TramplabError(f"cannot keep rows in {folder} ({e.strerror}): set {FOLDER} to a folder that can be written.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            write_whole(path, pickle.dumps(make()))
        return path.read_bytes()
    finally:  # the lock is also given back by a process that dies
        os.close(lock)
