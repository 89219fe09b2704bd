"""`tramplab build`: kernels built from a source, with patches and configurations, and kept."""

from __future__ import annotations

import argparse
import json
import sys

from msgspec import to_builtins

from ..base.errors import TramplabError, unknown
from ..base.streams import unwound
from . import build, fragments, source

_MINUTE = 60


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser(
        "build",
        help="build small kernels from a source, for the other commands",
        description="Build a kernel per ISA from its source, with tracing and little else, and keep its vmlinux and boot image. "
        "The same source, patches, configuration and compiler give the same bytes.",
    )
    options(p)
    p.add_argument("--patch", action="append", default=[], metavar="FILE", help="a diff or mailbox that is applied first (several)")
    p.add_argument("--json", action="store_true", help="JSON instead of lines")
    p.set_defaults(command=_build)


def options(p: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is built."""
    p.add_argument("source", metavar="SOURCE", help="a tree, an archive, or Debian's package, as linux-source-6.12")
    p.add_argument("--isa", metavar="I,J", help=f"only these, of {', '.join(build.ARCHES)}")
    p.add_argument(
        "--config", action="append", default=[], metavar="C", help=f"on top of the base: {', '.join(fragments.names())}, or a file"
    )
    p.add_argument("--clang", default="", metavar="N", help="the version of clang that compiles, as 19 (default: GCC)")


def wanted(args: argparse.Namespace) -> list[build.Wanted]:
    """The kernels that the arguments ask for; raises TramplabError for an ISA or a configuration that there is not."""
    names = args.isa.split(",") if args.isa else list(build.ARCHES)
    for name in names:
        if name not in build.ARCHES:
            raise unknown("ISA", name, build.ARCHES)
    if args.clang and not args.clang.isdecimal():
        raise TramplabError(f"--clang is a version as 19, not {args.clang!r}.")
    return [build.Wanted(isa, fragments.options(isa, args.config), args.clang) for isa in dict.fromkeys(names)]


def tick(one: build.Wanted, done: int, steps: int, seconds: float) -> None:
    """Say on a terminal how far a kernel is, and how long it still takes."""
    if sys.stderr.isatty():
        left = max(seconds / done * (steps - done), 0)
        print(f"\r\x1b[K{one.isa}: {done} of about {steps} steps, {_time(left)} left", end="", file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    """A duration.

    >>> _time(75), _time(12)
    ('1 min 15 s', '12 s')
    """
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _build(args: argparse.Namespace) -> int:
    path, patches = source.found(args.source), list(map(source.patch, args.patch))
    kernels = []
    with unwound():
        for (kernel,) in build.kernels(path, [patches], wanted(args), tick):
            kernels.append(kernel)
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            if not args.json:
                print(f"{kernel.isa} {kernel.release}, {kernel.compiler}, built in {_time(kernel.seconds)}")
                print(f"  {kernel.image}\n  {kernel.vmlinux}", flush=True)
                if kernel.without:
                    print(f"  without {', '.join(kernel.without)}")
    if args.json:
        print(json.dumps([{**to_builtins(k), "vmlinux": str(k.vmlinux), "image": str(k.image)} for k in kernels], indent=1))
    return 0
