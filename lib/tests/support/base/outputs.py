"""Standard streams of this process that lead somewhere else, for commands that are run in it."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def standard_output(path: str) -> Iterator[Callable[[], str]]:
    """For a `with`: the process's own standard output is this file; gives what tells what was said on standard error."""
    files = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile())
        kept = os.dup(1), os.dup(2)
        out = os.open(path, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(said.fileno(), 2)
        os.close(out)
        sys.stdout = sys.__stdout__ = stack.enter_context(open(1, "w", encoding="utf-8", closefd=False))
        sys.stderr = sys.__stderr__ = stack.enter_context(open(2, "w", encoding="utf-8", closefd=False))
        told = [""]
        try:
            yield lambda: told[0]
        finally:
            sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = files
            for number, old in enumerate(kept, 1):
                os.dup2(old, number)
                os.close(old)
            said.seek(0)
            told[0] = said.read().decode()


def full() -> contextlib.AbstractContextManager[Callable[[], str]]:
    """Standard output on a full disk."""
    return standard_output("/dev/full")
