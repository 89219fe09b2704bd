"""`tramplab native`: the hooks' times on this machine, as a table of at most 72 columns."""

from __future__ import annotations

import sys
import textwrap

from ..errors import TramplabError, whole_number
from ..ftrace import hooks
from ..ftrace.kernel import LATEST
from .result import Result
from .timing import ROUNDS, measure, time_shapes

WIDTH = 72
_COLUMNS = (
    ("min", "ns_min", "8.2f"),
    ("q1", "ns_q1", "8.2f"),
    ("median", "ns_median", "8.2f"),
    ("q3", "ns_q3", "8.2f"),
    ("over", "ns_over", "8.2f"),
    ("/direct", "ratio_direct", "8.2f"),
)
_SHOWN = ("cpu", "kernel", "virtualised", "governor", "smt", "load", "pinned to", "GHz", "release", "date", "commit")


def add(sub) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser("native", help="the hooks' times on this machine's CPU")
    p.add_argument(
        "hook", metavar="HOOK", nargs="*", help=f"{', '.join(hooks.HOOKS)}; NAME:K for K callbacks (default: all)"
    )
    p.add_argument("--release", default=LATEST, metavar="R", help=f"kernel release (default {LATEST})")
    p.add_argument(
        "--args", metavar="N", help="integer arguments of the traced function, 0 to 6 (default 1; with --shapes 2)"
    )
    p.add_argument("--rounds", default=str(ROUNDS), metavar="N", help=f"batches per hook (default {ROUNDS})")
    p.add_argument("--shapes", action="store_true", help="trampolines of forty shapes instead of the hooks")
    p.add_argument("--save", metavar="FILE", help="also write the result to FILE, as JSON")
    p.add_argument("--json", action="store_true", help="JSON instead of a table")
    p.set_defaults(command=native)


def native(args) -> None:
    """Run it; what ran is printed and saved even where a hook failed, which is the error at the end."""
    rounds, count = (
        whole_number(args.rounds, "--rounds"),
        whole_number(args.args or ("2" if args.shapes else "1"), "--args"),
    )
    if args.shapes and args.hook:
        raise TramplabError("--shapes times its own trampolines: leave the hooks out.")
    result = (
        time_shapes(rounds=rounds, args=count)
        if args.shapes
        else measure(args.hook or None, args.release, rounds=rounds, args=count)
    )
    result.provenance["command"] = "tramplab " + " ".join(sys.argv[1:])
    if args.save:
        result.save(args.save)
    sys.stdout.write(result.as_json() if args.json else as_text(result))
    if result.failures:
        raise TramplabError(" ".join(result.failures))


def as_text(result: Result) -> str:
    """The table, the circumstances and the warnings."""
    names = [str(r["hook"]) for r in result.rows]
    wide = max(len(n) for n in names)
    out = ["ns per call", f"{'':<{wide}}" + "".join(f"{title:>8}" for title, *_ in _COLUMNS)]
    for name, r in zip(names, result.rows, strict=True):
        out.append(f"{name:<{wide}}" + "".join(f"{'-':>8}" if r[k] is None else f"{r[k]:{f}}" for _, k, f in _COLUMNS))
    facts = ", ".join(f"{k}: {result.provenance[k]}" for k in _SHOWN if k in result.provenance)
    out += ["", *textwrap.wrap(facts, WIDTH), *filter(None, [result.cautions(WIDTH)])]
    return "\n".join(out) + "\n"
