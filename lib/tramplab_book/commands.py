"""The commands of the book: its studies, claims, findings and citations, and what is rewritten in data/ from them."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tramplab.base import cache, documents
from tramplab.base.errors import TramplabError, unknown
from tramplab.base.paths import check_target, checkout, destination, rewrite
from tramplab.base.revision import history
from tramplab.base.width import WIDTH
from tramplab.estimate import judged

from . import studies
from .places import data_file, state_of_rows
from .publish import quoted
from .publish.cite import cite, edition, pages, permalinks
from .publish.claims import claims, ledger, references
from .publish.estimates import beneath
from .publish.figures.citation import CHOICES, citation
from .publish.figures.figure import Study, find, golden
from .publish.figures.show import rows_json
from .publish.findings import findings, rendered
from .publish.table import text_table
from .studies import placed, stated

if TYPE_CHECKING:
    import pandas as pd  # which takes a third of the time in which a command starts

FORMATS = ("text", "csv", "json")
#: Prefix of folders of the cache with what `update` wrote, each for one state of the sources; seconds that an unused one is kept.
_UPDATED, _OLD = "updated-", 7 * 24 * 3600


def add(sub: argparse._SubParsersAction) -> None:
    """Add the commands to the command line's subparsers."""
    p = sub.add_parser("run", help="run a study and print its rows")
    p.add_argument("study")
    form = p.add_mutually_exclusive_group()
    form.add_argument("--format", default="text", help="text (default), csv or json")
    form.add_argument("--numbers", action="store_true", help="the numbers that findings and titles may name, instead of rows")
    p.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output; an error leaves it as it was")
    p.set_defaults(command=_run)

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


def _run(args: argparse.Namespace) -> None:
    if args.format not in FORMATS:
        raise unknown("format", args.format, FORMATS)
    study = studies.get(args.study)
    write = destination(args.output)
    if args.numbers:
        write(quoted.listed(stated.numbers_in(study)))
        return
    frame = study.rows()
    if args.format == "csv":
        text = frame.to_csv(index=False, lineterminator="\n")
    elif args.format == "json":
        text = rows_json(frame, study.NAME, study.TITLE)
    else:
        text = study_text(study, frame)
    write(text)


def _claims(args: argparse.Namespace) -> None:
    sys.stdout.write((ledger.as_json if args.json else ledger.as_text)(args.id))


def _findings(args: argparse.Namespace) -> int:
    """Print one finding, or all; the exit status is 1 where a guard of one is not true."""
    several = [stated.stated(findings.get(args.id))] if args.id else stated.every()
    print((rendered.as_json if args.json else rendered.as_text)(several), end="")
    return int(any(one.problem for one in several))


def _letter(args: argparse.Namespace) -> int:
    """Print a letter, or which letters there are, or the guards of one or of all that are not true; returns the exit status."""
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
    elif findings.of_page(name):
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
    """The file of a study's golden table."""
    return data_file("claims.yml").parent / "expected" / f"{name}.txt"


def _update(args: argparse.Namespace) -> None:
    chosen = [studies.get(name) for name in args.study] or list(studies.every().values())
    _update_permalinks()  # first: the rest takes minutes
    from .studies.time import core_cases  # with pandas

    cache.remove_old(_UPDATED, _OLD, time.time())
    cases = _made(f"{_UPDATED}{state_of_rows()}", judged.FILE, lambda: core_cases.text(core_cases.rows()))
    _rewrite(checkout() / "data" / judged.FILE, cases)
    judged.cases.cache_clear()
    now = f"{_UPDATED}{state_of_rows()}"  # again: some studies read these cases
    for study in chosen:
        table = _made(now, f"{study.NAME}.txt", functools.partial(_golden_text, study))
        _rewrite(expected_file(study.NAME), table)
    path = checkout() / "book" / references.FILE
    _rewrite(path, references.updated(documents.text(path, references.FILE), checkout() / "book"))


def _golden_text(study: Study) -> str:
    return study_text(study, study.rows())


def _made(folder: str, name: str, make: Callable[[], str]) -> str:
    """A text by its name in a folder of the cache, if it was made before from the same sources and data; else made now."""
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
