"""`python -m tramplab.vmlinux.debian`: fetches the kernel images, and says of each what it is."""

from __future__ import annotations

import argparse
import sys

from ...base import streams
from ...base.parser import Parser
from .fetch import content, fetch
from .list import Package, chosen


def main(arguments: list[str] | None = None) -> int:
    """Fetch what is not there; returns the exit status: 0, 3 where the archive has other versions by now (all others are then
    there), or as streams.run() says."""

    def command() -> None:
        args = _parser().parse_args(arguments)
        fetch(chosen(args.names, args.one), _say, [args.archive] if args.archive else ())

    return streams.run(command, "interrupted; the images that were fetched are kept.")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m tramplab.vmlinux.debian", description="Fetch the Debian kernels whose counts the book publishes."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a package in data/kernels/packages.yml (default: all)")
    parser.add_argument("--one", action="store_true", help="one kernel of each ISA, the one that is marked in packages.yml")
    parser.add_argument("--archive", metavar="ADDRESS", help="of a copy of Debian's archive (default: those that apt uses)")
    return parser


def _say(package: Package) -> None:
    print(f"{package.name}: {package}, {len(content(package)) / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
