"""`python -m bench`: all figures of the lab's speed; `python -m bench races`: those of exploring races alone."""

import sys
from collections.abc import Callable

from tramplab.base.errors import TramplabError
from tramplab.base.starting import start


def main(arguments: list[str]) -> int:
    """Measure what is named; returns the exit status, as start() says."""
    return start(lambda: _named(arguments))


def _named(arguments: list[str]) -> Callable[[], int | None]:
    if arguments == ["races"]:
        from . import races

        return races.main
    if arguments:
        raise TramplabError("name `races`, or nothing for everything.")
    from . import speed

    return speed.main


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
