"""`tramplab explore`: every interleaving of a patching scheme, or of all of them, in one line or as the shortest bad schedule."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from ..base.arguments import typed, typed_seconds
from ..base.errors import TramplabError, unknown
from ..base.width import WIDTH
from . import schedule
from .barriers import barriers, numbers_of
from .explore import MOST_STATES, NOT_DECIDED, SECONDS, THREADS, UNSAFE, Result, allowed, explore
from .model.fetches import MODELS
from .model.moments import DATA, ORDERED
from .scenarios import sweep
from .scenarios.every import as_json
from .schemes.schemes import LIVES, SCHEMES, Scheme, scheme
from .search.search import LARGEST
from .subject import Subject

#: The exit status where nothing was decided.
UNDECIDED = 3
#: (path, name) -> the schemes by which the sites of a kernel image change, or the one of this name, each with its subject there.
Images = Callable[[Path, str | None], list[tuple[Scheme, Subject]]]


def add(sub: argparse._SubParsersAction, images: Images) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser("explore", help="every interleaving of threads with a patching scheme's steps")
    p.add_argument("scheme", metavar="SCHEME", nargs="?", help=f"{', '.join(SCHEMES)} (default: all)")
    p.add_argument("--threads", default=str(THREADS), metavar="N", help=f"threads that call the function (default {THREADS})")
    p.add_argument(
        "--without", action="append", default=[], metavar="STEP", help="remove a barrier: one of those listed below a verdict"
    )
    p.add_argument("--image", metavar="FILE", help="explore a kernel image's own text; without SCHEME, all schemes that fit it")
    p.add_argument("--fetch", metavar="MODEL", help=f"what a CPU may fetch: {', '.join(MODELS)} (default: the scheme's own)")
    p.add_argument("--data", default=ORDERED, metavar="MODEL", help=f"how stores are seen: {', '.join(DATA)} (default {ORDERED})")
    p.add_argument("--life", metavar="NAME", help=f"which ops come and go: {', '.join(LIVES)} (default: the scheme's own)")
    p.add_argument("--max-states", default=str(MOST_STATES), metavar="N", help=f"give up after so many (default {MOST_STATES})")
    p.add_argument("--time-limit", metavar="S", help=f"give up after so many seconds (default {SECONDS:g})")
    p.add_argument("--every-step", action="store_true", help="print every step of the schedule")
    p.add_argument("--json", action="store_true", help="JSON instead of text")
    sweep.add(p)
    p.set_defaults(command=lambda args: run(args, images))


def run(args: argparse.Namespace, images: Images) -> int:
    """Run it; the exit status is UNDECIDED where a limit was reached, and what was covered is said."""
    if args.image is not None and args.all:
        raise TramplabError("--all is of the lab's kernels: leave --image away, or --all.")
    if args.without and not args.scheme:
        raise TramplabError("--without leaves a step of one scheme out: name the scheme.")
    if args.every_step and not args.all and (args.json or not args.scheme):
        raise TramplabError("--every-step is for the schedule of one scheme, as text: name the scheme, and leave --json away.")
    if args.fetch is not None and args.fetch not in MODELS:
        raise unknown("fetch model", args.fetch, MODELS)
    if args.data not in DATA:
        raise unknown("data model", args.data, DATA)
    if args.life is not None and (not args.scheme or args.image is not None or args.all):
        raise TramplabError("--life is for one scheme in the lab: name the scheme, and leave --image and --all away.")
    sweep.check(args)
    threads, most = allowed(typed(args.threads, "--threads")), typed(args.max_states, "--max-states", 1, LARGEST)
    if args.all:
        return UNDECIDED if any(r["verdict"] == NOT_DECIDED for r in sweep.sweep(args, threads, most)) else 0
    if args.scheme:
        scheme(args.scheme)  # which complains of an unknown one
    results = [(s, _explored(s, made, args, threads, most)) for s, made in _subjects(args, images)]
    if args.json:
        print(json.dumps([as_json(s, r, args.without) for s, r in results], indent=1))
    else:
        for s, r in results:
            print(said(s, r, args.without, bool(args.scheme), not args.every_step), end="")
    return UNDECIDED if any(r.verdict == NOT_DECIDED for _, r in results) else 0


def said(chosen: Scheme, result: Result, without: list[str], whole: bool, folded: bool = True) -> str:
    """A verdict in one line, and with `whole` what it is of, the schedule, and the barriers that can be left out."""
    head = f"{chosen.name:<22} {result.verdict:<12} {_measure(result)}"
    if not whole:
        return head + "\n"
    kernel = result.subject.kernel or f"{chosen.isa}, {chosen.release}"
    about = f"{chosen.does} ({kernel}), {result.threads} threads, fetch {result.fetch}"
    about += f", data {result.data}" * (result.data != ORDERED) + f", without {', '.join(without)}" * bool(without) + "."
    if chosen.hypothetical:
        about += f" No kernel has it: {chosen.hypothetical}."
    lines = [head, *textwrap.wrap(about, WIDTH), ""]
    if result.verdict == UNSAFE:
        lines += [schedule.text(result, folded)]
    elif result.limit:
        lines += textwrap.wrap(
            f"Not decided: the limit of {result.limit} was reached; nothing bad was found in what was visited. "
            "Raise --max-states or --time-limit, or take fewer --threads.",
            WIDTH,
        )
        lines.append("")
    wrapped = textwrap.TextWrapper(WIDTH, subsequent_indent=" " * 27)
    listed = [line for b in barriers(result.subject) for line in wrapped.wrap(f"  {b.name:<24} {b.why}")]
    return "\n".join([*lines, *(["Barriers, for --without:", *listed] if listed else [])]) + "\n"


def _subjects(args: argparse.Namespace, images: Images) -> Iterator[tuple[Scheme, Subject]]:
    """The subjects to explore, each made when its turn comes."""
    if args.image is not None:
        yield from images(Path(args.image), args.scheme)
    else:
        for chosen in [scheme(args.scheme)] if args.scheme else SCHEMES.values():
            lived = chosen.lived(args.life) if args.life is not None else chosen
            yield lived, lived.subject()


def _explored(chosen: Scheme, subject: Subject, args: argparse.Namespace, threads: int, most: int) -> Result:
    tick, end = _progress(chosen.name, args.quiet)
    try:
        return explore(
            subject,
            threads,
            args.fetch or chosen.fetch,
            numbers_of(subject, args.without),
            args.data,
            most=most,
            seconds=SECONDS if args.time_limit is None else typed_seconds(args.time_limit, "--time-limit"),
            tick=tick,
        )
    finally:
        end()


def _measure(result: Result) -> str:
    if result.violation:
        return f"{result.violation.which} after {len(result.schedule)} steps"
    return f"{result.states} states, {result.transitions} transitions, {result.seconds:.1f} s"


def _progress(name: str, quiet: bool) -> tuple[Callable[[int], None], Callable[[], None]]:
    """A line on a terminal that says how many states there are, and what clears it."""
    if quiet or not sys.stderr.isatty():
        return lambda states: None, lambda: None
    return (
        lambda states: print(f"\r{name}: {states} states", end="", file=sys.stderr, flush=True),
        lambda: print("\r\x1b[K", end="", file=sys.stderr, flush=True),
    )
