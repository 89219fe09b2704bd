"""`python -m tramplab.kbuild [SOURCE]`: build and try the patches of data/kbuild/tried.yml, and write data/built/patches.json."""

import sys
from collections.abc import Callable

from ..base.parser import Parser
from ..base.paths import checkout, rewrite
from ..base.starting import start
from ..base.streams import unwound
from . import command, saved, source


def main(arguments: list[str] | None = None) -> int:
    """Write the file; returns the exit status, as start() says."""
    parser = Parser(prog="python -m tramplab.kbuild", description="Build and try the patches of the book into data/built/.")
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="a tree, archive or package (default: that of the list)")
    return start(lambda: _command(parser.parse_args(arguments).source))


def _command(name: str | None) -> Callable[[], int]:
    path, place = source.found(name or saved.tried().source), checkout() / "data" / saved.FILE

    def command_() -> int:
        with unwound():
            print(rewrite(place, saved.make(path, command.tick)))
        return 0

    return command_


if __name__ == "__main__":
    sys.exit(main())
