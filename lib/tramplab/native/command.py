"""`tramplab native`: the hooks' times on this machine, as a table of at most 72 columns."""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..base.arguments import typed
from ..base.errors import TramplabError
from ..base.paths import check_target
from ..base.width import WIDTH
from ..estimate import cores, judged
from ..estimate.cores import Core
from ..estimate.measure import hook_estimate
from ..ftrace.releases import LATEST
from ..lab import hooks
from .agreement import NEEDED
from .cached import HOOKS, SHAPES, own_file, renew
from .result import Result
from .states import EMPTY
from .timing import ROUNDS, time_hooks, time_shapes
from .windows import LONGEST, MOST

_COLUMNS = (
    ("min", "ns_min"),
    ("over", "ns_over"),
    ("cycles", "cycles_over"),
    ("/direct", "ratio_direct"),
)
#: The widths of the columns of judged_text().
_WIDTHS = ("<14", ">7", ">9", ">7", ">7", ">8")
_SHOWN = ("cpu", "kernel", "virtualised", "governor", "smt", "load", "pinned to", "GHz", "release", "date", "commit")


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser("native", help="the hooks' times on this machine's CPU")
    named = ", ".join((*hooks.HOOKS, *EMPTY))
    p.add_argument(
        "hook", metavar="HOOK", nargs="*", help=f"{named}; NAME:K for K callbacks (default: all but breakpoints and empty-)"
    )
    p.add_argument("--release", metavar="R", help=f"kernel release (default {LATEST})")
    p.add_argument(
        "--args", metavar="N", help="integer arguments of the traced function, 0 to 6 (default 1; with --shapes 2)"
    )
    p.add_argument("--rounds", metavar="N", help=f"batches per hook in a window (default {ROUNDS})")
    p.add_argument("--windows", metavar="N", help=f"windows at most, until {NEEDED} agree (default {MOST}, for {LONGEST:.0f} s)")
    p.add_argument("--shapes", action="store_true", help="trampolines of forty shapes instead of the hooks")
    p.add_argument("--judge", action="store_true", help="also compare the models of cores with these times")
    p.add_argument("--keep", action="store_true", help="time hooks and shapes for the next build of the book, too")
    p.add_argument(
        "--save", metavar="FILE", nargs="?", const=True, help="also write the result to FILE, as JSON (default: in data/native)"
    )
    p.add_argument("--json", action="store_true", help="JSON instead of a table")
    p.set_defaults(command=native)


def native(args: argparse.Namespace) -> None:
    """Run it; what ran is printed and saved even where a hook failed, which is the error at the end."""
    given = {name: getattr(args, name) for name in ("rounds", "windows", "args", "release") if getattr(args, name) is not None}
    how: dict[str, Any] = {name: value if name == "release" else typed(value, f"--{name}") for name, value in given.items()}
    if args.judge and args.shapes:
        raise TramplabError("--judge judges by hooks: leave --shapes out.")
    if args.shapes and args.hook:
        raise TramplabError("--shapes times its own trampolines: leave the hooks out.")
    if args.keep and (args.shapes or args.hook):
        raise TramplabError("--keep times all hooks and all shapes, as a build of the book does: leave hooks and --shapes out.")
    if args.shapes and "release" in how:
        raise TramplabError(f"--shapes times its own trampolines, on {LATEST}: leave --release out.")
    if args.keep and how:
        raise TramplabError(f"--keep times as a build of the book does: leave {' and '.join(f'--{name}' for name in how)} out.")
    release = how.get("release", LATEST)
    if args.save is True and (args.keep or (args.hook and release == LATEST)):
        raise TramplabError(f"--save without FILE is for all hooks of {LATEST}, or for --shapes: name the file to be written.")
    saved_to = own_file(SHAPES if args.shapes else HOOKS, release) if args.save is True else None
    target = saved_to or (None if args.save is None else Path(args.save))
    if target:
        check_target(target)
    if args.keep:
        result = renew()
    elif args.shapes:
        result = time_shapes(**how)
    else:
        result = time_hooks(args.hook or None, **how)
    result.provenance["command"] = "tramplab " + " ".join(sys.argv[1:])
    if target:
        result.save(target)
    sys.stdout.write(result.as_json() if args.json else as_text(result))
    if args.judge and not args.json:
        sys.stdout.write("\n" + judged_text(result))
    if result.failures:
        raise TramplabError(" ".join(result.failures))


def as_text(result: Result) -> str:
    """The table, with what the nearest usable model says and how far off that is, whether the windows agree, the circumstances
    and the warnings; a time that does not agree has a `?`."""
    names = [f"{r['hook']}{'' if r['agreed'] else ' ?'}" for r in result.rows]
    wide, core = max(map(len, names)), _nearest(result)
    estimates = _estimates(result, core) if core else {}
    titles = [*(title for title, _ in _COLUMNS), *(("model", "off") if core else ())]
    lines = ["ns per call; what is over the unhooked call also in cycles", " " * wide + _line(titles)]
    for name, r in zip(names, result.rows, strict=True):
        lines.append(f"{name:<{wide}}" + _line([*(_cell(r[key]) for _, key in _COLUMNS), *_model(r, estimates, core)]))
    isa = result.provenance["isa"]
    model = f"model: what that of {core.name} estimates in cycles; off: how far that is from the cycles." if core else ""
    lines += ["", *textwrap.wrap(model or f"No model of a core of {isa} is usable (see `tramplab cores`).", WIDTH)]
    facts = ", ".join(f"{k}: {result.provenance[k]}" for k in _SHOWN if k in result.provenance)
    for paragraph in (result.verdict(), facts):
        lines += ["", *textwrap.wrap(paragraph, WIDTH, break_on_hyphens=False)]
    return "\n".join([*lines, *filter(None, [result.cautions(WIDTH)])]) + "\n"


def judged_text(result: Result) -> str:
    """The verdict of these times on each model of a core of the ISA, by the rule of `tramplab cores`. Cases that set parameters of
    a model do not judge it."""
    isa = str(result.provenance["isa"])
    models = [core for core in cores.cores().values() if core.isa == isa]
    found = []
    for core in models:
        setting, estimates = {case for names in core.judged_by.values() for case in names}, _estimates(result, core)
        timed = {str(r["hook"]): float(str(r["cycles_over"])) for r in result.rows if r["agreed"]}
        found += [
            judged.Case(core.name, "here", hook, timed[hook], estimate, hook in setting)
            for hook, estimate in estimates.items()
            if timed.get(hook, 0) > 0
        ]
    table = judged.summary(found)
    cells = [[*table[0]][1:], *([*line.values()][1:] for line in table if line["isa"] == isa)]
    lines = ["".join(f"{cell:{size}}" for cell, size in zip(line, _WIDTHS, strict=True)) for line in cells]
    return "\n".join([*lines, "", textwrap.fill(judged.RULE, WIDTH, break_on_hyphens=False)]) + "\n"


def _nearest(result: Result) -> Core | None:
    facts = result.provenance
    return judged.nearest(str(facts["cpu"]), str(facts.get("vendor", "")), str(facts["isa"]))


def _estimates(result: Result, core: Core) -> dict[str, float]:
    """Cycles by a model for each hook that the lab has."""
    facts, estimates = result.provenance, {}
    for hook in [str(r["hook"]) for r in result.rows[1:] if "saves" not in r]:
        with contextlib.suppress(TramplabError):
            estimates[hook] = hook_estimate(core.isa, hook, str(facts["release"]), int(str(facts["arguments"])), core).mid
    return estimates


def _model(row: dict[str, object], estimates: dict[str, float], core: Core | None) -> list[str]:
    """The cells on the model, none without one."""
    if core is None:
        return []
    estimate, cycles = estimates.get(str(row["hook"])), float(str(row["cycles_over"]))
    return ["-", "-"] if estimate is None else [_cell(estimate), f"{estimate / cycles - 1:+.0%}" if cycles > 0 else "-"]


def _line(cells: Iterable[str]) -> str:
    return "".join(f"{cell:>8}" for cell in cells)


def _cell(value: object) -> str:
    """A number of at most seven characters, or a dash for none."""
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"
