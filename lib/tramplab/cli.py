"""The command line. One line and exit status 2 for whatever a user can put right, 1 for what cannot be written."""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import textwrap
from typing import Any

from msgspec.structs import asdict

from . import isa as isas
from .anatomy import boxes, graph_text
from .base import streams
from .base.arguments import typed
from .base.errors import TramplabError
from .base.parser import Parser
from .base.revision import of_package
from .base.width import WIDTH
from .boot import command as booting
from .estimate import cores, judged
from .estimate.measure import measure
from .ftrace import releases
from .ftrace.releases import LATEST
from .grid import command as grid
from .kbuild import command as kbuild
from .kbuild import patch
from .lab import hooks
from .lab.measure import FUNCTIONS, run
from .native import command as native
from .races import command as races
from .sparsity import command as registers
from .vmlinux import command as kernel
from .vmlinux.run import races as kernel_races

#: The package of the book, and the commands that it adds.
BOOK, BOOKS = "tramplab_book", ("run", "claims", "findings", "letter", "cite", "update")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 for what could not be written, 2 for what the user can put right, 130 when
    interrupted, or the command's own."""

    def command() -> int | None:
        args = _parser().parse_args(arguments)
        return args.command(args)

    return streams.run(command)


@functools.cache
def _parser() -> argparse.ArgumentParser:
    """Made once: a page has many commands run."""
    parser = Parser(
        prog="tramplab",
        description="Emulated experiments on Linux function tracing: exact counts, estimated cycles, native times.",
    )
    parser.add_argument("--version", action=_Version, help="the edition, and the commit that this is")
    sub = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")

    p = sub.add_parser("list", help="ISAs, releases, hooks, functions, and the studies of the book")
    p.set_defaults(command=_list)

    p = sub.add_parser("trace", help="annotated disassembly of one hooked call, or the functions that it goes through")
    _hook_arguments(p)
    p.add_argument("--calls", action="store_true", help="the functions alone, as the function_graph tracer shows them")
    p.set_defaults(command=_trace)

    p = sub.add_parser("measure", help="counts of one hooked call, by component")
    _hook_arguments(p)
    p.add_argument("--core", metavar="NAME", help="also estimate cycles on a usable model of a core (see tramplab cores)")
    p.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    p.set_defaults(command=_measure)

    grid.add(sub)
    native.add(sub)
    kernel.add(sub)
    booting.add(sub)
    kbuild.add(sub)
    patch.add(sub)
    races.add(sub, kernel_races.subjects_in)
    registers.add(sub)

    p = sub.add_parser("cores", help="the models of cores: their estimates against times measured on such cores")
    p.add_argument("--json", action="store_true", help="every case as JSON")
    p.set_defaults(command=_cores)

    _add_books(sub)
    return parser


def _add_books(sub: argparse._SubParsersAction) -> None:
    """The book's commands, or what says that its package is not installed."""
    if commands := _of_book("commands"):
        commands.add(sub)
        return
    for name in BOOKS:
        p = sub.add_parser(name, help="of the book, whose package tramplab-book is not installed", prefix_chars="\0")
        p.add_argument("rest", nargs="*")
        p.set_defaults(command=_absent)


def _of_book(name: str) -> Any:
    """A module of the book's package; None where that is not installed."""
    return importlib.import_module(f"{BOOK}.{name}") if importlib.util.find_spec(BOOK) else None


class _Version(argparse.Action):
    """Prints which edition and commit this is, and ends the command."""

    def __init__(self, **how: object) -> None:
        super().__init__(**how, nargs=0)  # type: ignore[arg-type]

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        now = of_package()
        commit = f"commit {now.commit}{' with changes' * now.dirty}" if now.commit else f"the commit is unknown: {now.why}"
        print(f"tramplab {importlib.metadata.version('tramplab')}, {commit}")
        parser.exit()


def _absent(args: argparse.Namespace) -> None:
    raise TramplabError(f"{args.name} is a command of the book: install its package, tramplab-book, beside this one.")


def _hook_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("isa", metavar="ISA", help="x86_64, arm64 or riscv64")
    p.add_argument("hook", metavar="HOOK", help=", ".join(hooks.HOOKS))
    p.add_argument("--release", default=LATEST, metavar="R", help=f"kernel release (default {LATEST})")
    p.add_argument(
        "--args", default="1", metavar="N", help="integer arguments of the traced function, 0 to 12 (default 1)"
    )
    p.add_argument("--callbacks", default="1", metavar="K", help="ops to attach (default 1)")


#: Placement of a direct call's code -> the words for it.
_PLACED = {
    "near": "near: the patch site calls its code",
    "far": "far: its code is out of the patch site's reach, ftrace_caller finds it",
}


def _chosen(args: argparse.Namespace) -> dict:
    return {
        "isa": args.isa,
        "hook": args.hook,
        "release": args.release,
        "args": typed(args.args, "--args"),
        "callbacks": typed(args.callbacks, "--callbacks"),
    }


def _list(args: argparse.Namespace) -> None:
    print("ISAs:      " + " ".join(isas.ISAS))
    print("Releases:  every mainline release from " + releases.known()[0] + " to " + releases.known()[-1])
    print("           shown in studies: " + " ".join(releases.shown()))
    good, bad = cores.tried()
    print("\n           ".join(["Cores:     " + " ".join(good), *map(str, bad.values())]))
    print("Hooks:")
    width = max(map(len, hooks.HOOKS)) + 1
    for h in hooks.HOOKS.values():
        print(f"  {h.name:<{width}}{'hypothetical, no kernel has it: ' * h.hypothetical}{h.title}")
        for isa in isas.ISAS:
            when = releases.history(isa, h.needs, h.unlike)
            if h.offered and releases.history(isa, h.offered) != when:
                when = f"{releases.history(isa, h.offered)}, in the lab {when}"
            if out_of_reach := hooks.unreached(h, isa):
                when += f"; {out_of_reach} hypothetical, no code lies that near"
            if h.hypothetical:
                when = "the lab does not make it" if when == releases.NEVER else f"the lab makes it {when}"
            print(f"  {'':<{width}}  {isa}: {when}")
            for fault in releases.faults(isa, h.use) if h.use else ():
                print(_under(f"{'':<{width + 6}}", f"{fault}"))
    print("Functions: " + "\n           ".join(" ".join(FUNCTIONS[n : n + 5]) for n in range(0, len(FUNCTIONS), 5)))
    if studies := _of_book("studies"):
        print("Studies:")
        for name, module in studies.every().items():
            print(f"  {name:<20}{module.TITLE}")


def _under(indent: str, said: str) -> str:
    """What is said of a line above it, in lines of that indent."""
    return textwrap.fill(said, 2 * WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _trace(args: argparse.Namespace) -> None:
    r = run(**_chosen(args))
    print(f"{args.hook} on {r.config}: {r.function.name} returned {r.value}")
    if placed := hooks.placement(hooks.get(args.hook), args.isa, args.release):
        print(_PLACED[placed])
    print(graph_text(boxes(r, r.component_of)) if args.calls else r.disassembly())


def _measure(args: argparse.Namespace) -> None:
    m = measure(**_chosen(args), core=args.core)
    if args.json:
        print(json.dumps(m))
        return
    print(f"{m['hook']} on {m['isa']} {m['release']}, {m['args']} arguments, {m['callbacks']} callbacks")
    print(f"{m['hook']}: {hooks.get(m['hook']).title}")
    if "placed" in m:
        print(_PLACED[m["placed"]])
    if "hypothetical" in m:
        print(f"hypothetical: no kernel of {m['isa']} {m['release']} has it")
    if "broken" in m:
        print(textwrap.fill(f"broken in {m['broken']}; counted here as it was meant to work", WIDTH, break_on_hyphens=False))
    fields = list(m["entry"])
    names = ("insns", "loads", "stores", "load B", "store B", "taken")
    print(f"{'':<12}" + "".join(f"{n:>10}" for n in names))
    for name, c in [*m["components"].items(), ("entry", m["entry"]), ("exit", m["exit"])]:
        print(f"{name:<12}" + "".join(f"{c[f]:>10}" for f in fields))
    print(
        f"frame {m['frame_bytes']} bytes, {m['frame_bytes_written']} of them written; deepest stack {m['stack_bytes']} bytes"
    )
    r = m["return_mispredicts"]
    print(
        f"mispredicted returns, {r['entries']} entries: {r['own']} in the call, {r['outer']} of its {r['callers']} callers'"
    )
    if "estimate" in m:
        _print_estimate(m["estimate"])


def _print_estimate(e: dict) -> None:
    """The band, and the parameters of the core that the estimate depends on."""
    print(f"estimate, {e['core']} model: {e['low']:.0f}-{e['high']:.0f} {e['unit']} over the unhooked call")
    if e["parameters"]:
        print(f"{'what it depends on':<24}{'value':>6}{'range':>8}{'cycles':>10}  known from")
    for p in e["parameters"]:
        ends = sorted((p["at_low"], p["at_high"]))
        span, effect = f"{p['low']}-{p['high']}", f"{ends[0]:.0f}-{ends[1]:.0f}"
        print(f"{p['name']:<24}{p['value']:>6}{span:>8}{effect:>10}  {p['kind']}")


def _cores(args: argparse.Namespace) -> None:
    cases = judged.cases()
    if args.json:
        print(json.dumps([asdict(case) for case in cases], indent=1))
        return
    sys.stdout.write(judged.aligned(judged.summary(cases)))
    print("\n" + textwrap.fill(judged.RULE, WIDTH, break_on_hyphens=False))
