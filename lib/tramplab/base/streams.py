"""How a command ends, and its streams: what it writes arrives whole or it has failed, and what it says on the way stops nothing.

Python's own standard output loses what a full disk does not take where it is unbuffered, is not there where the file descriptor
is closed, and fails once more as the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from .errors import TramplabError, Unwritten

#: Replacement modes for closed fds 0-2: reads of 0 and writes to 1 must fail, writes to 2 are discarded.
_CLOSED = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)


class _Left(Exception):
    """Raised when nobody reads standard output any more, as behind `| head -1`; what was wanted has been written."""


class _Written(io.FileIO):
    """Standard output. It fails once, and takes and forgets all that comes after that."""

    _over = False

    def write(self, data: Any) -> int:
        if self._over:
            return len(data)
        try:
            if (count := super().write(data)) is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return count
        except BrokenPipeError:
            self._over = True
            raise _Left from None
        except OSError as e:
            self._over = True
            raise Unwritten(f"cannot write to standard output: {e.strerror}.") from None


class _Said(io.FileIO):
    """Standard error. What cannot be said there is not said."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            super().write(data)
        return len(data)


def run(command: Callable[[], int | None], interrupted: str = "interrupted.") -> int:
    """Run a command; returns its exit status: its own, that of the error that it ended with (1 for what could not be written, 2 for
    what the user can put right), or 130 when interrupted. interrupted: what is said then, unless the interrupt brings its own."""
    with _streams():
        status = _ended(command, interrupted)
        return _ended(lambda: sys.stdout.flush(), interrupted) or status


def _ended(command: Callable[[], int | None], interrupted: str) -> int:
    try:
        return command() or 0
    except SystemExit as e:  # of --help
        return int(e.code or 0)
    except TramplabError as e:
        print(f"tramplab: {e}", file=sys.stderr)
        return e.status
    except _Left:
        return 0
    except KeyboardInterrupt as interrupt:
        print(f"tramplab: {str(interrupt) or interrupted}", file=sys.stderr)
        return 130


@contextlib.contextmanager
def _streams() -> Iterator[None]:
    """For a `with`: both streams as a command needs them. A stream that is not the process's own was put there on purpose, and
    stays."""
    before = sys.stdout, sys.stderr
    for number, access in enumerate(_CLOSED):
        try:
            os.fstat(number)
        except OSError:  # the next file that is opened would be taken for it
            null = os.open(os.devnull, access)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Written(1, "w", closefd=False), sys.stdout, "replace")  # what has no sign there is a question mark
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Said(2, "w", closefd=False), sys.stderr, "backslashreplace")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _text(raw: io.FileIO, like: TextIO | None, errors: str) -> io.TextIOWrapper:
    encoding = like.encoding if like else "utf-8"
    line_buffering = raw.isatty() or isinstance(raw, _Said)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=line_buffering)


@contextlib.contextmanager
def unwound() -> Iterator[None]:
    """For a `with`: the first of the signals that would end the process at once has it leave the block, which ends what it started
    and removes its files; what comes meanwhile is not heard."""
    usual = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]

    def leave(first: int, _: object) -> None:
        for number in usual:
            signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + first)

    for number in usual:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in usual:
            signal.signal(number, signal.SIG_DFL)
