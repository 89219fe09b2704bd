"""The command line. One line and exit status 2 for whatever a user can put right, 1 for what cannot be written."""

from __future__ import annotations

import argparse
import functools
import json
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from . import isa as isas
from . import studies
from .anatomy import boxes, graph_text
from .base import cache, documents, state, streams
from .base.arguments import typed
from .base.errors import TramplabError, unknown
from .base.parser import Parser
from .base.paths import check_target, checkout, data_file, destination, rewrite
from .base.revision import history
from .base.width import WIDTH
from .boot import command as booting
from .estimate import cores, judged
from .estimate.measure import measure
from .ftrace import releases
from .ftrace.releases import LATEST
from .grid import command as grid
from .lab import hooks
from .lab.measure import FUNCTIONS, run
from .native import command as native
from .publish.cite import cite, edition, pages, permalinks
from .publish.claims import claims, ledger, references
from .publish.estimates import beneath
from .publish.figures.citation import CHOICES, citation
from .publish.figures.figure import Study, find, golden
from .publish.figures.show import rows_json
from .publish.findings import findings, rendered
from .publish.table import text_table
from .races import command as races
from .sparsity import command as registers
from .studies import placed, stated
from .vmlinux import command as kernel
from .vmlinux.run import races as kernel_races

if TYPE_CHECKING:
    import pandas as pd  # which takes a third of the time in which a command starts

FORMATS = ("text", "csv", "json")
#: Folders of the cache with what `update` wrote, each for one state of the sources; how long one that nobody uses is kept, seconds.
_UPDATED, _OLD = "updated-", 7 * 24 * 3600


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
    sub = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")

    p = sub.add_parser("list", help="ISAs, releases, hooks, functions, studies")
    p.set_defaults(command=_list)

    p = sub.add_parser("run", help="run a study and print its rows")
    p.add_argument("study")
    p.add_argument("--format", default="text", help="text (default), csv or json")
    p.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output; an error leaves it as it was")
    p.set_defaults(command=_run)

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
    races.add(sub, kernel_races.subjects_in)
    registers.add(sub)

    p = sub.add_parser("cores", help="the models of cores: their estimates against times measured on such cores")
    p.add_argument("--json", action="store_true", help="every case as JSON")
    p.set_defaults(command=_cores)

    p = sub.add_parser("claims", help="the claims made in the threads, and the verdicts of the runs")
    p.add_argument("id", metavar="ID", nargs="?", help="one claim, e.g. s5 (default: all)")
    p.add_argument("--json", action="store_true", help="JSON instead of text")
    p.set_defaults(command=_claims)

    p = sub.add_parser("findings", help="what the runs show, in sentences whose guards are evaluated now")
    p.add_argument("id", metavar="ID", nargs="?", help="one finding (default: all)")
    p.add_argument("--json", action="store_true", help="JSON instead of text")
    p.set_defaults(command=_findings)

    p = sub.add_parser("letter", help="what could be sent to a mailing list of a finding: its subject and its text")
    p.add_argument("id", metavar="ID", nargs="?", help="one finding (default: list those that have a letter)")
    p.add_argument("--check", action="store_true", help="evaluate its guards instead; 1 where one is not so")
    p.set_defaults(command=_letter)

    p = sub.add_parser("cite", help="a block for a mail that cites a chapter, section, figure, finding or claim")
    p.add_argument("id", metavar="ID", help="what stands behind the # of its address")
    p.add_argument("--bibtex", action="store_true", help="its BibTeX entry instead")
    p.add_argument("--full", action="store_true", help="everything, instead of the 12 lines for a mail")
    for what in CHOICES:
        p.add_argument(f"--{what}", metavar=what[0].upper(), help=f"of a figure: only the rows of this {what}")
    p.set_defaults(command=_cite)

    p = sub.add_parser("update", help="rewrite the golden tables in data/, add new permalinks")
    p.add_argument("study", metavar="STUDY", nargs="*", help="only the tables of these studies (default: all)")
    p.set_defaults(command=_update)
    return parser


def _hook_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("isa", metavar="ISA", help="x86_64, arm64 or riscv64")
    p.add_argument("hook", metavar="HOOK", help=", ".join(hooks.HOOKS))
    p.add_argument("--release", default=LATEST, metavar="R", help=f"kernel release (default {LATEST})")
    p.add_argument(
        "--args", default="1", metavar="N", help="integer arguments of the traced function, 0 to 12 (default 1)"
    )
    p.add_argument("--callbacks", default="1", metavar="K", help="ops to attach (default 1)")


#: What is said of where a direct call's code lies.
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
    print("Studies:")
    for name, module in studies.every().items():
        print(f"  {name:<20}{module.TITLE}")


def _under(indent: str, said: str) -> str:
    """What is said of a line above it, in lines of that indent."""
    return textwrap.fill(said, 2 * WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _run(args: argparse.Namespace) -> None:
    if args.format not in FORMATS:
        raise unknown("format", args.format, FORMATS)
    study = studies.get(args.study)
    write = destination(args.output)
    frame = study.rows()
    if args.format == "csv":
        text = frame.to_csv(index=False, lineterminator="\n")
    elif args.format == "json":
        text = rows_json(frame, study.NAME, study.TITLE)
    else:
        text = study_text(study, frame)
    write(text)


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
    sys.stdout.write(text_table(judged.summary(cases)))
    print("\n" + textwrap.fill(judged.RULE, WIDTH, break_on_hyphens=False))


def _claims(args: argparse.Namespace) -> None:
    sys.stdout.write((ledger.as_json if args.json else ledger.as_text)(args.id))


def _findings(args: argparse.Namespace) -> int:
    """Print one finding, or all; 1 where a guard of one is not so."""
    several = [stated.stated(findings.get(args.id))] if args.id else stated.every()
    print((rendered.as_json if args.json else rendered.as_text)(several), end="")
    return int(any(one.problem for one in several))


def _letter(args: argparse.Namespace) -> int:
    """Print a letter, or which there are, or what of the guards of one, or of all, is not so."""
    names = [args.id] if args.id else stated.with_letter()
    letters = {name: stated.letter(name) for name in names}
    if args.check:
        problems = {name: stated.stated(findings.get(name)).problem for name in letters}
        print("\n".join(f"{name}: {problem or 'all guards hold'}" for name, problem in problems.items()))
        return int(any(problems.values()))
    if args.id:
        subject, _, body = letters[args.id].partition("\n")
        print(f"Subject: {subject}\n\n{body.strip()}")
    else:
        print("\n".join(f"{name}: {text.splitlines()[0]}" for name, text in letters.items()))
    return 0


def _cite(args: argparse.Namespace) -> None:
    link = permalinks.get(args.id)
    anchor = link.target.partition("#")[2]
    name = anchor if anchor in findings.read() or studies.with_figure(anchor) else link.id  # which took the place of another one
    chosen = {what: value for what in CHOICES if (value := getattr(args, what)) is not None}
    if args.bibtex and args.full:
        raise TramplabError("a BibTeX entry is always full: leave --full away, or --bibtex.")
    study, claim = studies.with_figure(name), claims.read().get(name)
    if chosen and (args.bibtex or not study):
        what = "BibTeX" if args.bibtex else f"{name} is no figure and"
        raise TramplabError(f"{what} has no rows to choose by --{' or --'.join(chosen)}.")
    if args.bibtex:
        finding = stated.sentences([name])[name] if name in findings.read() else ""
        title = find(study, name).question if study else f"Claim {name}: {claim.said}" if claim else finding
        text = cite.bibtex(name, title)
    elif study:
        text = citation(study, name, args.full, chosen)
    elif claim:
        text = ledger.citation(name, args.full)
    elif name in findings.read():
        text = stated.citation(name, args.full)
    elif findings.in_short(name):
        text = stated.page_citation(name, args.full)
    else:
        text = placed.citation(name, args.full)
    sys.stdout.write(text)
    if why := edition.why_unknown():
        print(f"tramplab: the commit is unknown, so there is no link: {why}.", file=sys.stderr)


def study_text(study: Study, frame: pd.DataFrame) -> str:
    """A study's title and its golden table, with what its cycles are, in at most 72 columns."""
    kept = golden(study, frame)
    table = text_table(kept, split="isa")
    return f"{study.TITLE}\n\n{table}{beneath(table, kept, frame, WIDTH)}"


def expected_file(name: str) -> Path:
    """Where a study's golden table is kept."""
    return data_file("releases.yml").parent / "expected" / f"{name}.txt"


def _update(args: argparse.Namespace) -> None:
    chosen = [studies.get(name) for name in args.study] or list(studies.every().values())
    _update_permalinks()  # first: the rest takes minutes
    from .studies.time import core_cases  # with pandas, see above

    cache.remove_old(_UPDATED, _OLD, time.time())
    cases = _made(f"{_UPDATED}{state.rows()}", judged.FILE, lambda: core_cases.text(core_cases.rows()))
    _rewrite(checkout() / "data" / judged.FILE, cases)
    judged.cases.cache_clear()
    now = f"{_UPDATED}{state.rows()}"  # again: some studies read these cases
    for study in chosen:
        table = _made(now, f"{study.NAME}.txt", functools.partial(_golden_text, study))
        _rewrite(expected_file(study.NAME), table)
    path = checkout() / "book" / references.FILE
    _rewrite(path, references.updated(documents.text(path, references.FILE), checkout() / "book"))


def _golden_text(study: Study) -> str:
    return study_text(study, study.rows())


def _made(folder: str, name: str, make: Callable[[], str]) -> str:
    """A text that was made before from the same sources and data, by a name in that folder of the cache; else it is made now."""
    if (kept := cache.read(f"{folder}/{name}")) is not None:
        return kept.decode()
    text = make()
    cache.keep(f"{folder}/{name}", text)
    return text


def _update_permalinks() -> None:
    """Add what the pages have and the list has not; TramplabError, and nothing written, where it has lost something."""
    root, name = checkout(), f"data/{permalinks.FILE}"
    path, past = root / name, history(root, name)
    old = documents.text(path, permalinks.FILE) if path.is_file() else ""
    declared = [*pages.addresses(root / "book"), *claims.addresses()]
    new = permalinks.updated(old, [*declared, *findings.addresses(declared)])
    for sentence in permalinks.lost(permalinks.parse(new), past).values():
        raise TramplabError(sentence)
    if past.lacks:
        print(f"{path.name}: not held against all that it ever listed: {past.lacks}")
    _rewrite(path, new)


def _rewrite(path: Path, text: str) -> None:
    check_target(path)
    print(rewrite(path, text))
