"""`tramplab registers`: what a register structure holds, and what each consumer concludes from it, by running both."""

from __future__ import annotations

import argparse
import json
import textwrap

from ..base.errors import unknown
from ..base.width import WIDTH
from ..ftrace.releases import LATEST
from ..lab.kernel import Kernel
from .consumers.consumers import CONSUMERS, consumer
from .consumers.matrix import NOT_ASKED, OUTCOMES, Cell, Matrix, matrices
from .consumers.report import concluded, held, structure, words, wrapped
from .structures.classify import KINDS
from .structures.views import View, views


def add(sub: argparse._SubParsersAction) -> None:
    """Add the command to the command line's subparsers."""
    p = sub.add_parser("registers", help="the content of a register structure, and the conclusions of its consumers")
    p.add_argument("isa", metavar="ISA", help="x86_64, arm64 or riscv64")
    p.add_argument("structure", metavar="STRUCTURE", nargs="?", help="its provider and how it is read (default: a summary of all)")
    p.add_argument("consumer", metavar="CONSUMER", nargs="?", help=f"{', '.join(CONSUMERS)} (default: all)")
    p.add_argument("--release", default=LATEST, metavar="R", help=f"kernel release (default {LATEST})")
    p.add_argument("--json", action="store_true", help="JSON instead of text")
    p.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    """Run it. Raises TramplabError, with near matches, for a structure or consumer that there is not."""
    if args.consumer:
        consumer(args.consumer)
    kernel = Kernel(args.isa, args.release)
    chosen = [_view(kernel, args.structure)] if args.structure else views(kernel)
    found = matrices(kernel, chosen)
    if args.json:
        print(json.dumps([as_json(m, args.consumer) for m in found], indent=1))
    elif not args.structure:
        print("\n\n".join(summary(m) for m in found))
    else:
        print(told(found[0], args.consumer))


def summary(found: Matrix) -> str:
    """One structure: how many fields hold what, and who is not right."""
    lines = [f"{found.view.name}: a {found.frame.struct} of {found.frame.size} bytes"]
    kinds = [slot.kind for slot in found.frame.slots.values()]
    lines.append("  fields: " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS if kind in kinds))
    for outcome in OUTCOMES:
        names = [c.consumer.name for c in found.cells if c.outcome == outcome]
        if names and outcome != NOT_ASKED:
            text = f"  {outcome}: {', '.join(names)}"
            lines += textwrap.wrap(text, WIDTH - 4, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def told(found: Matrix, name: str | None) -> str:
    """One structure, field by field; or what one consumer reads of it, says, and should say."""
    head = structure(found.frame.kernel, found.view.name, found.frame.struct, found.frame.size)
    if not name:
        return "\n".join([head, *(f"  {field:<18}{slot}" for field, slot in found.frame.slots.items())])
    cell = _cell(found, name)
    fields = zip(cell.fields, held(found, cell), strict=True)
    return f"{wrapped([head])}\n{concluded(name, cell.outcome, fields, words(cell.said), words(cell.should))}"


def as_json(found: Matrix, name: str | None) -> dict[str, object]:
    """One structure as data: what each field holds, and of each consumer, or one, what it concluded."""
    cells = [_cell(found, name)] if name else found.cells
    return {
        "kernel": found.frame.kernel,
        "structure": found.view.name,
        "struct": found.frame.struct,
        "size": found.frame.size,
        "fields": {field: {"holds": slot.kind, "rule": slot.rule} for field, slot in found.frame.slots.items()},
        "consumers": {
            c.consumer.name: {"outcome": c.outcome, "reads": list(c.fields), "says": list(c.said), "should": list(c.should)}
            for c in cells
        },
    }


def _view(kernel: Kernel, name: str) -> View:
    by_name = {view.name: view for view in views(kernel)}
    wanted = ", ".join(part.strip() for part in name.split(","))
    if wanted not in by_name:
        raise unknown(f"register structure of {kernel}", wanted, by_name)
    return by_name[wanted]


def _cell(found: Matrix, name: str) -> Cell:
    """The cell of one consumer; for a question that is asked of no structure in a summary, as for every word in turn, there is
    none."""
    by_name = {c.consumer.name: c for c in found.cells}
    if name not in by_name:
        raise unknown("consumer that concludes something", name, by_name)
    return by_name[name]
