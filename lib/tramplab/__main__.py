"""`tramplab` and `python -m tramplab`: the command line."""

import sys
from collections.abc import Callable

from .base.starting import start


def main() -> int:
    """Import the command line and run it; returns the exit status, as start() says."""
    return start(_command_line)


def _command_line() -> Callable[[], int]:
    from .cli import main as command

    return command


if __name__ == "__main__":
    sys.exit(main())
