"""`python -m tramplab.vmlinux recount [NAME...]`: count the fetched images again and write data/kernels/NAME.json.

An image is one job, for processes of this machine or for a cluster's workers, which need it in their caches, too.
"""

from __future__ import annotations

import argparse

from ...base import streams
from ...base.parser import Parser
from ...base.paths import data_file, rewrite
from ...base.processes import jobs, options
from ..debian.fetch import there
from ..debian.list import FILE, chosen
from .saved import measured

#: Memory that a process needs for one, with a margin: 220 to 300 MB for the images of v6.1.
_MEGABYTES = 500
_MADE = "the files that were named are made"


def main(arguments: list[str] | None = None) -> int:
    """Write the files again; return the exit status, as streams.run() says."""

    def command() -> None:
        args = _parser().parse_args(arguments)
        where, wanted = options.chosen(args, _MEGABYTES), chosen(args.names, one=False)
        for package in wanted:
            if not there(package):
                print(f"{package.name}: not fetched, its file stays as it is", flush=True)
        with jobs.shared(measured, [p for p in wanted if there(p)], where, options.remedy(_MADE, where)) as results:
            for package, new in results:
                print(rewrite(data_file(FILE).parent / f"{package.name}.json", new), flush=True)

    return streams.run(command, f"interrupted; {_MADE}.")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m tramplab.vmlinux recount", description="Count the fetched Debian kernels into data/kernels/.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of data/{FILE} (default: all that have been fetched)")
    options.add(parser, "as many as processors and memory allow")
    return parser
