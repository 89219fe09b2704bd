"""`python -m tramplab.boot [NAME...]`: boot the plain Debian kernels that have been fetched, and write data/booted/NAME.json
again; or with --trial what one trial reads there, and leave the rest of the file as it is. With --replay, what comes of races
there, in data/booted/replays.json."""

import argparse
import sys
from collections.abc import Callable

from ..base.errors import unknown
from ..base.parser import Parser
from ..base.paths import checkout, rewrite
from ..base.starting import start
from ..vmlinux.debian.fetch import there
from ..vmlinux.debian.list import plain
from ..vmlinux.saved.saved import text
from . import replays_saved, saved, trials


def main(arguments: list[str] | None = None) -> int:
    """Write the files; returns the exit status, as start() says."""
    return start(lambda: _command(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m tramplab.boot", description="Boot Debian's plain kernels under QEMU into data/booted/.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="in data/kernels/packages.yml (default: all that are fetched)")
    parser.add_argument("--trial", metavar="NAME", help=f"for this trial alone: {', '.join(trials.TRIALS)}")
    parser.add_argument("--replay", action="store_true", help="replay races there, on all that are fetched")
    return parser


def _command(args: argparse.Namespace) -> Callable[[], int]:
    checkout()
    if args.replay:
        return replays_saved.main
    packages = {p.name: p for p in plain()}
    for name in args.names:
        if name not in packages:
            raise unknown("kernel", name, packages)

    trial = trials.get(args.trial) if args.trial else None

    def command() -> int:
        for name in args.names or packages:
            package = packages[name]
            if there(package):
                made = saved.with_trial(package, trial) if trial else saved.make(package)
                print(rewrite(saved.path(package), text(made)), flush=True)
            else:
                print(f"{name}: not fetched, its file stays as it is", flush=True)
        return 0

    return command


if __name__ == "__main__":
    sys.exit(main())
