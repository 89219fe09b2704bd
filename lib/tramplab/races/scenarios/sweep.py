"""`tramplab explore --all`: all scenarios, by several processes or by a cluster, as one table in an order of its own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from ...base.errors import TramplabError
from ...base.processes import jobs, options
from ...base.processes.progress import Progress
from ..explore import NOT_DECIDED, SAFE, UNSAFE
from ..model.moments import ORDERED
from ..schemes.schemes import SCHEMES, scheme
from .every import Scenario, explored, scenarios
from .saved import Saved


def add(p: argparse.ArgumentParser) -> None:
    """Add what only --all takes to the command's options."""
    p.add_argument(
        "--all", action="store_true", help="every scheme, or SCHEME, under every fetch model, complete and with one barrier removed"
    )
    p.add_argument("--save", metavar="FILE", help="with --all: append each result to FILE, and continue from the results in it")
    options.add(p)
    p.add_argument("--quiet", action="store_true", help="no progress on standard error")


def check(args: argparse.Namespace) -> None:
    """Raises TramplabError for options that do not go together."""
    only = [f"--{name}" for name in ("save", "processes", "scheduler") if getattr(args, name) is not None]
    if only and not args.all:
        raise TramplabError(f"{' and '.join(only)} {'go' if len(only) > 1 else 'goes'} with --all: add it, or leave that away.")
    if args.all and (args.without or args.fetch is not None or args.data != ORDERED):
        one = "--without" if args.without else "--fetch" if args.fetch is not None else "--data"
        raise TramplabError(f"--all leaves out each barrier in turn, under every fetch model, data ordered: leave {one} away.")
    if args.all and args.time_limit is not None:
        raise TramplabError("--all has no --time-limit, with which another machine would find something else: take --max-states.")
    if args.all and args.every_step:
        raise TramplabError("--all shows no schedules: leave --every-step away, and see `--save` or `--json` for them.")


def sweep(args: argparse.Namespace, threads: int, most: int) -> list[dict[str, Any]]:
    """Run it and print what was found; what is finished is in the file of --save at once."""
    where = options.chosen(args)
    wanted = scenarios([scheme(args.scheme).name] if args.scheme else SCHEMES, threads, most)
    saved = Saved(Path(args.save), threads, most) if args.save is not None else None
    found = _found(wanted, saved, where, None if args.quiet else sys.stderr)
    if saved:
        saved.sort()
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        print(f"{'scheme':<21} {'fetch':<8} {'without':<23} verdict")
        print("\n".join(map(_told, found)))
    return found


def _found(wanted: Sequence[Scenario], saved: Saved | None, where: int | str, stream: TextIO | None) -> list[dict[str, Any]]:
    """The results of all scenarios: those that are saved, and the others from workers."""
    found = {s: saved.load(s) for s in wanted if saved.has(s)} if saved else {}
    todo = [s for s in wanted if s not in found]
    remedy = options.remedy("what was finished is saved" if saved else "nothing is kept without --save", where)
    try:
        with (
            Progress(len(wanted), len(found), "scenarios", stream) as progress,
            jobs.shared(explored, todo, where, remedy) as results,
        ):
            for scenario, result in results:
                found[scenario] = result
                if saved:
                    saved.add(result)
                progress.add(1)
    except KeyboardInterrupt:
        kept = "are kept, and the same command goes on from there" if saved else "were explored; --save FILE would have kept them"
        raise KeyboardInterrupt(f"interrupted; {len(found)} of {len(wanted)} scenarios {kept}.") from None
    return [found[s] for s in wanted]


def _told(result: dict[str, Any]) -> str:
    """A result in one line of at most 72 columns."""
    verdict = {SAFE: "safe", NOT_DECIDED: "not decided"}.get(result["verdict"], "")
    if result["verdict"] == UNSAFE:
        verdict = f"{result['violation']['which']}, {len(result['schedule'])} steps"
    without = result["without"][0] if result["without"] else "-"
    return f"{result['scheme']:<21} {result['fetch']:<8} {without:<23} {verdict}"
