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
        gc.disable()  # what is imported is here to stay: an eighth of the time of a short command
        try:
            program = imported()
        finally:
            signal.signal(signal.SIGINT, usual)
            gc.freeze()
            gc.enable()
        return program()

    return run(command)


def _leave(*_: object) -> None:
    os.write(2, b"tramplab: interrupted.\n")
    os._exit(130)
