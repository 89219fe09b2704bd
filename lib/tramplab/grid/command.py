"""`tramplab grid`: the counts of every cell as CSV."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

from ..base.errors import TramplabError
from ..base.paths import destination
from ..base.processes import jobs, options
from ..base.processes.progress import Progress
from ..ftrace.releases import LATEST
from ..isa import ISAS
from ..lab import hooks
from . import cached, cells, rows
from .cells import Unit
from .rows import Answer

#: The fate of finished units when workers die or cannot be started.
KEPT = "what was finished is kept"


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser("grid", help="counts of every hook, argument count and number of callbacks, as CSV")
    p.add_argument("--isa", metavar="A,B", help=f"of {', '.join(ISAS)} (default: all)")
    p.add_argument("--hook", metavar="H,I", help=f"of {', '.join(hooks.HOOKS)} (default: all that the release has)")
    p.add_argument("--release", default=LATEST, metavar="R", help=f"kernel release (default {LATEST})")
    p.add_argument("--args", default="0-8", metavar="N-M", help="arguments of the traced function, 0 to 12 (default 0-8)")
    p.add_argument("--callbacks", default="1-64", metavar="N-M", help="callbacks on the function (default 1-64)")
    options.add(p)
    p.add_argument("--out", metavar="FILE", help="write to FILE instead of standard output; an error leaves it as it was")
    p.add_argument("--quiet", action="store_true", help="no progress on standard error")
    p.set_defaults(command=grid)


def grid(args: argparse.Namespace) -> None:
    """Run it. What is finished is kept until the table is delivered, so the same command goes on after an interrupt."""
    units = cells.units(
        cells.names(args.isa) if args.isa is not None else tuple(ISAS),
        cells.names(args.hook) if args.hook is not None else None,
        args.release,
        cells.numbers(args.args, "--args", 0, cells.MOST_ARGS),
        cells.numbers(args.callbacks, "--callbacks", 1, hooks.MAX_CALLBACKS),
    )
    where = options.chosen(args)
    write = destination(args.out)
    now = cached.state()
    store = cached.Cached(now)
    rows = _all(units, store, where, None if args.quiet else sys.stderr)
    if cached.state() != now:
        raise TramplabError("the sources were changed while the grid was running; run it again.")
    write(as_csv(units, rows))
    sys.stdout.flush()
    store.forget(units)
    cut = [rows[u][1].refused for u in units if rows[u][1].refused]
    if cut:
        print(f"tramplab: {len(cut)} of {len(units)} runs of rows end early; the first: {cut[0]}", file=sys.stderr)


def as_csv(units: list[Unit], found: dict[Unit, tuple[list[str], Answer]]) -> str:
    """The table, with the units in this order; raises TramplabError if there is not a single row."""
    header = next((columns for columns, answer in found.values() if answer.rows), None)
    if header is None:
        raise TramplabError(found[units[0]][1].refused)
    lines = [header, *(row for u in units for row in found[u][1].rows)]
    return "".join(",".join(map(str, line)) + "\n" for line in lines)


def _all(units: list[Unit], store: cached.Cached, where: int | str, stream: TextIO | None) -> dict[Unit, tuple[list[str], Answer]]:
    """The columns and rows of every unit: those that are kept, and the others from workers."""
    loaded = ((u, store.load(u)) for u in units)
    finished = {u: unit_rows for u, unit_rows in loaded if unit_rows}
    total = sum(len(u.callbacks) for u in units)
    todo = sorted((u for u in units if u not in finished), key=lambda u: -len(u.callbacks))  # at the end the short ones fill up
    unit_rows = sum(len(u.callbacks) for u in finished)
    try:
        with (
            Progress(total, unit_rows, "rows", stream) as progress,
            jobs.shared(rows.of, todo, where, options.remedy(KEPT, where)) as answers,
        ):
            for unit, (columns, answer) in answers:
                store.save(unit, columns, answer)
                finished[unit] = columns, answer
                progress.add(len(unit.callbacks))
    except KeyboardInterrupt:
        done = sum(len(u.callbacks) for u in units if store.has(u))
        raise KeyboardInterrupt(
            f"interrupted; {done} of {total} rows are kept, and the same command goes on from there."
        ) from None
    return finished
