"""The options of commands with many jobs: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

import argparse

from ..arguments import typed
from ..errors import TramplabError
from .capacity import at_once, processors

MAX_PROCESSES = 256


def add(p: argparse.ArgumentParser, default: str = "one per CPU") -> None:
    """Add --processes and --scheduler to a command; default: what it takes without them."""
    p.add_argument("--processes", metavar="N", help=f"worker processes (default: {default})")
    p.add_argument("--scheduler", metavar="ADDRESS", help="run on the workers of this Dask scheduler, e.g. tcp://127.0.0.1:8786")


def chosen(args: argparse.Namespace, megabytes: int = 0) -> int | str:
    """The argument of jobs.shared(): a number of processes or a scheduler's address. megabytes: the memory that a process needs,
    where that is much. Raises TramplabError for a number that will not do, with the reason."""
    if args.scheduler is not None:
        if args.processes is not None:
            raise TramplabError("--processes are of this machine and --scheduler has its own workers: leave one of the two away.")
        if not args.scheduler.strip():
            raise TramplabError("--scheduler is the address that `dask scheduler` prints when it starts, not ''.")
        return str(args.scheduler)
    if args.processes is None:
        return at_once(megabytes) if megabytes else processors()
    return typed(args.processes, "--processes", 1, MAX_PROCESSES)


def remedy(kept: str, where: int | str) -> str:
    """The advice for workers that die or cannot be started; kept: what becomes of the finished jobs."""
    fewer = ", with fewer --processes if memory is short" if isinstance(where, int) else ""
    return f"{kept}, so run the same command again{fewer}"
