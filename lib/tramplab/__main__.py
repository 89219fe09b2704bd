"""`tramplab` and `python -m tramplab`: the command line, which Ctrl-C ends quietly even before it is there."""

import os
import signal
import sys


def main() -> int:
    """Import the command line and run it; returns the exit status."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else whoever started this wants something else
        signal.signal(signal.SIGINT, _leave)  # an import that is interrupted fails in whatever way the module likes
    from .cli import main as run

    signal.signal(signal.SIGINT, usual)
    sys.stdout.reconfigure(errors="replace")  # what the terminal has no sign for is a question mark, not a crash
    return run()


def _leave(*_) -> None:
    os.write(2, b"tramplab: interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
