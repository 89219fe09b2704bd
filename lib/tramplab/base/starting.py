"""How a program starts: it is imported where what it fails with is told in a line, and where Ctrl-C ends it quietly."""

import gc
import os
import signal
from collections.abc import Callable


def one_thread() -> None:
    """Have numpy, where it is imported from now on, here and in processes that are started, do without threads for matrices.

    Else it starts one for each processor but one, and each waits for work for a tenth of a second without sleeping: a command's
    matrices are small, and that is a quarter of the time that it takes to start.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def few_collections(every: int = 3_000) -> None:
    """Have Python look for garbage more seldom than by itself, and not among what is there now. every: so many objects.

    A kernel is a hundred objects that refer to each other, and programs make hundreds of kernels: looked through as often as Python
    does, they take a twentieth of the time, and what has been imported as much again when a program starts. Looked through still
    more seldom they fill a gigabyte, unless a collection is asked for now and then.
    """
    gc.freeze()
    gc.set_threshold(every, 20, 20)


def start(imported: Callable[[], Callable[[], int | None]]) -> int:
    """Import a program and run it; returns the exit status, as streams.run() says: 2 also where it cannot be imported for want of
    data. imported: imports it, and gives what runs it."""
    one_thread()
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # what it starts imports nothing from the folder that the user is in
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else the parent process wants something else
        signal.signal(signal.SIGINT, _leave)  # an import that is interrupted fails in whatever way the module likes
    from .streams import run

    def command() -> int | None:
        gc.disable()
        try:
            program = imported()
        finally:
            signal.signal(signal.SIGINT, usual)
            gc.enable()
        few_collections()
        return program()

    return run(command)


def _leave(*_: object) -> None:
    os.write(2, b"tramplab: interrupted.\n")
    os._exit(130)
