"""`tramplab` and `python -m tramplab`: the command line, which Ctrl-C ends quietly even before it is there."""

import io
import os
import signal
import sys


def main() -> int:
    """Import the command line and run it; returns the exit status, 2 also where it cannot be imported for want of data."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else whoever started this wants something else
        signal.signal(signal.SIGINT, _leave)  # an import that is interrupted fails in whatever way the module likes
    from .errors import TramplabError

    try:
        from .cli import main as run
    except TramplabError as e:  # its data is not there
        print(f"tramplab: {e}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, usual)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # what the terminal has no sign for is a question mark, not a crash
    return run()


def _leave(*_: object) -> None:
    os.write(2, b"tramplab: interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
