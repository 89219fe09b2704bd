"""Findings as data/findings/ has them: read, checked, and stated with the numbers of a run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from tramplab.base import documents
from tramplab.base.arguments import of_name
from tramplab.base.entries import Entry
from tramplab.base.errors import TramplabError
from tramplab.base.width import WIDTH

from ...places import data_file, facts
from ..cite import permalinks
from . import guard
from .finding import NAMED, FigureId, Finding, Stated, Title, filled

FOLDER = "findings"
MOST_NUMBERS = 3
#: Lines of a letter, as wide as a mail's.
MOST_LINES = 40
#: The figure of what booted kernels were tried for.
TRIED = "fig-found"


@dataclass(frozen=True)
class Argument:
    """A file of findings. in_short: page -> what it says at its top, in order. titles: figure -> what it is headed with."""

    findings: dict[str, Finding]
    in_short: dict[str, tuple[Finding, ...]]
    titles: dict[str, Title]


#: Short, so that a link to it fits into a line of a mail.
_Id = Annotated[
    str,
    Meta(
        pattern=r"^(?=.{3,25}$)[a-z][a-z0-9]*(-[a-z0-9]+)*$",
        description="an id is lower-case words joined by hyphens, of 25 characters at most",
    ),
]


class _File(Entry, frozen=True):
    """A file of findings. in_short: page -> what it says in short, in this order. titles: figure -> what it is headed with."""

    findings: dict[_Id, Finding] = field(default_factory=dict)
    titles: dict[FigureId, Title] = field(default_factory=dict)
    in_short: dict[str, Annotated[tuple[str, ...], Meta(min_length=2, max_length=6)]] = field(default_factory=dict)


def _arguments() -> dict[str, Argument]:
    return _in(data_file("claims.yml").parent / FOLDER)


@functools.cache
def _in(folder: Path) -> dict[str, Argument]:
    return {path.stem: read_file(f"{FOLDER}/{path.name}") for path in sorted(folder.glob("*.yml"))}


def read_file(name: str) -> Argument:
    """The findings of one file; raises TramplabError for one that is wrong."""
    file = facts(name, _File)
    argument = name.removeprefix(f"{FOLDER}/").removesuffix(".yml")
    found = {key: _finding(key, argument, entry) for key, entry in file.findings.items()}

    def listed(keys: tuple[str, ...]) -> tuple[Finding, ...]:
        return tuple(of_name(f"finding of {name}", key, found) for key in keys)

    return Argument(found, {page: listed(keys) for page, keys in file.in_short.items()}, file.titles)


def read() -> dict[str, Finding]:
    """The findings of this checkout, by id, in the order of the files; raises TramplabError for an id that two files have."""
    found: dict[str, Finding] = {}
    for argument, one in _arguments().items():
        for name, finding in one.findings.items():
            if name in found:
                raise TramplabError(f"{FOLDER}/{argument}.yml: the id {name} is that of {found[name].argument}.yml, too.")
            found[name] = finding
    return found


def get(name: str) -> Finding:
    """One finding by id; raises TramplabError with near matches."""
    return of_name("finding", name, read())


def of_page(page: str) -> list[Finding]:
    """What a page such as book/kretprobe says in short, in order; nothing where no file has it."""
    name = page.rpartition("/")[2]
    return [finding for one in _arguments().values() for finding in one.in_short.get(name, ())]


def titles() -> dict[str, Title]:
    """What figures are headed with, by their ids; raises TramplabError for a figure that two files have."""
    found: dict[str, Title] = {}
    for argument, one in _arguments().items():
        if twice := found.keys() & one.titles.keys():
            raise TramplabError(f"{FOLDER}/{argument}.yml: another file has a title for {min(twice)}, too.")
        found |= one.titles
    return found


def page_of(figure_id: str) -> str:
    """The page that a figure is on."""
    return permalinks.get(figure_id).page


def of_figure(figure_id: str) -> list[Finding]:
    """The findings that a figure shows, in the order of the files."""
    return [finding for finding in read().values() if finding.figure == figure_id]


def of_claim(claim_id: str) -> Finding | None:
    """The finding that is a claim's verdict; None where it has none."""
    return next((finding for finding in read().values() if claim_id in finding.claims), None)


def addresses(figures: Iterable[str]) -> list[str]:
    """The citable addresses of all findings. figures: addresses of figures, besides others; a finding is on the page of its figure,
    which the list of permalinks has where none of these does."""
    pages = {figure: page for page, _, figure in (address.partition("#") for address in figures)}
    return [f"{pages.get(one.figure) or f'{one.page}.html'}#{one.id}" for one in read().values()]


def stated(finding: Finding, numbers: Mapping[str, object]) -> Stated:
    """A finding with the numbers of its study; raises TramplabError where it names one that the study has not."""
    says, because = (filled(text, f"number of {finding.id}", numbers) for text in (finding.says, finding.because))
    return Stated(finding, says, because, "; ".join(guard.failures(finding.holds, numbers)))


def booted(one: Stated, numbers: Mapping[str, object]) -> Stated:
    """The same, with what of its guards booted kernels contradict. numbers: of the studies that have these."""
    return dataclasses.replace(one, problem="; ".join(filter(None, (one.problem, *guard.failures(one.finding.booted, numbers)))))


def letter(finding: Finding, numbers: Mapping[str, object]) -> str:
    """What could be sent to the list, with the numbers of booted kernels."""
    return filled(finding.letter, f"number of {finding.id}", numbers)


def _prior(where: str, finding: Finding) -> None:
    if not finding.prior and (finding.letter or finding.figure == TRIED):
        raise TramplabError(f"{where}: say in `prior` who said it before, or what was searched, and when.")
    if len({bool(finding.prior), bool(finding.extent), bool(finding.section)}) > 1:
        raise TramplabError(f"{where}: a fault has `section`, `extent` and `prior`, and nothing else has one of them.")
    if any(bool(one.who) != bool(one.where) for one in finding.prior):
        raise TramplabError(f"{where}: what was said before has `who` and a `message` or an `address`; a search has neither.")
    if finding.known and not any(one.who for one in finding.prior):
        raise TramplabError(f"{where}: what is known has in `prior` who knows it.")
    if bool(finding.prior) and bool(finding.letter) == bool(finding.withdrawn):
        raise TramplabError(f"{where}: it has a letter, or `withdrawn` says why none should be sent.")


@functools.cache
def latest() -> str:
    """The newest release that is shown."""
    return str(documents.read("releases.yml")["shown"][-1])


def _finding(name: str, argument: str, entry: Finding) -> Finding:
    where = f"{FOLDER}/{argument}.yml: {name}"
    says, because, scope = (" ".join(text.split()) for text in (entry.says, entry.because, entry.scope))
    scope = filled(scope, f"name in the scope of {where}", {"latest": latest()})
    finding = replace(entry, id=name, argument=argument, says=says, because=because, scope=scope)
    told = NAMED.findall(finding.says)
    if len(told) > MOST_NUMBERS:
        raise TramplabError(f"{where} names {len(told)} numbers; at most {MOST_NUMBERS} are read.")
    guard.check(finding.guards, where)
    lines = NAMED.sub("", finding.letter).splitlines()
    if len(lines) > MOST_LINES or any(len(line) > WIDTH for line in lines):
        raise TramplabError(f"{where}: a letter has at most {MOST_LINES} lines of {WIDTH} columns.")
    _prior(where, finding)
    if bool(finding.booted) != ("booted" in finding.seen_in) or (finding.booted and finding.not_booted):
        raise TramplabError(
            f"{where}: what booted kernels show is in `booted`, with `booted` in `seen_in`; what they do not, in `not_booted`."
        )
    return finding
