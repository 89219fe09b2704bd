"""`tramplab` and `python -m tramplab`: the command line, which Ctrl-C ends quietly even before it is there."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def main() -> int:
    """Import the command line and run it; returns the exit status, 2 also where it cannot be imported for want of data."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else whoever started this wants something else
        signal.signal(signal.SIGINT, _leave)  # an import that is interrupted fails in whatever way the module likes
    from .streams import run

    return run(lambda: _command_line(usual)())


def _command_line(usual: Any) -> Callable[[], int]:
    """What runs a command. To import it fails where its data is not there."""
    from .cli import main as command

    signal.signal(signal.SIGINT, usual)
    return command


def _leave(*_: object) -> None:
    os.write(2, b"tramplab: interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
