"""What a finding is: a sentence with numbers, its guards, and of a fault which kernels have it and who said it before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from tramplab.base.arguments import of_name
from tramplab.base.entries import Entry, Message, Text, Unsaid

from ..cite import permalinks
from . import guard

#: What a finding's numbers are.
KINDS = {
    "count": "Counts of instructions, not time.",
    "time": "Measured time.",
    "search": "Every order of steps is searched; no time.",
    "fact": "Read from sources or images, not run.",
    "run": "What was run does; no time.",
    "tried": "What a kernel did; no time.",
}
#: Where it was seen.
RINGS = {
    "lab": "the lab, rewritten trampolines and C core, not Linux",
    "image": "Debian's images, emulated",
    "machine": "the lab's code on a real CPU",
    "booted": "a booted kernel",
    "published": "published measurements",
}
HYPOTHETICAL = "Hypothetical: no kernel has it."
#: A number's name in a finding's text, in a letter's table with its width behind it.
NAMED = re.compile(r"\{([^{}:]+)(?::>(\d+))?\}")


def _words(least: int, most: int, what: str) -> Meta:
    """Of a text that has so many words."""
    return Meta(pattern=rf"^\s*(\S+\s+){{{least - 1},{most - 1}}}\S+\s*$", description=f"{what} has at most {most} words")


FigureId = Annotated[str, Meta(pattern="^fig-[a-z0-9-]+$", description="a figure's id begins with fig-")]


class Prior(Entry, frozen=True, kw_only=True):
    """Who said something of it before, or a search without a result.

    date: of the mail, of the report, or of the search.
    said: what is said there, in our words, a sentence; of a search, what was searched and how.
    who, message, address: its author, and its message-id or where else it is read; none of a search.
    """

    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$", description="a date is written like 2026-05-28")]
    said: Annotated[str, _words(4, 60, "what was said before")]
    who: str = ""
    message: Message | Literal[""] = ""
    address: str = ""

    @property
    def where(self) -> str:
        """Its message-id, or where else it is read; "" of a search."""
        return self.message or self.address

    @property
    def cited(self) -> str:
        """Who, when and where, in a line; of a search that nothing was found."""
        return f"{self.who}, {self.date}, {self.where}" if self.who else f"none found on {self.date}"


class Extent(Entry, frozen=True, kw_only=True):
    """Which kernels have a fault, each in words.

    since: ISAs and their first releases.
    until: the release or the commit that ends it, or the newest one that was seen with it.
    configured: what a kernel must be configured with.
    spared: what does not have it, and why.
    brought: the commit that brought it, where it is known.
    """

    since: Text
    until: Text
    configured: Text
    spared: Text
    brought: str = ""


class Finding(Entry, frozen=True, kw_only=True):
    """Something that the runs show, in an author's words.

    id: its permalink.
    argument: the file that has it.
    figure: where it is seen; the figure's study has the numbers.
    says: the sentence, with {names} of numbers.
    holds: the guards, all of which must be true.
    because: the reason, a sentence.
    scope: which kernels and which configuration; the file's {latest} is the newest release here.
    kind: one of KINDS.
    seen_in: some of RINGS.
    hypothetical: it is about what no kernel has.
    claims: whose verdict it is.
    booted: guards on what booted kernels did, of the numbers of the studies that have it; then it was seen there, too.
    not_booted: why no boot decides it, where it is about what a call costs.
    section: of a fault of kernels, the section of the page on findings that is about it.
    extent: of a fault, which kernels have it.
    prior: of a fault, who said it before, or what was searched.
    known: the fault itself is in one of these, and v7.2 has it.
    letter: what could be sent to the list.
    withdrawn: why nothing should be, in sentences.
    """

    id: Unsaid = ""
    argument: Unsaid = ""
    figure: FigureId
    says: Annotated[str, _words(4, 45, "a finding")]
    holds: Annotated[tuple[Text, ...], Meta(min_length=1)]
    because: Annotated[str, _words(3, 60, "a reason")]
    scope: Annotated[str, _words(1, 35, "a scope")]
    kind: Literal["count", "time", "search", "fact", "run", "tried"]
    seen_in: Annotated[tuple[Literal["lab", "image", "machine", "booted", "published"], ...], Meta(min_length=1)]
    hypothetical: bool = False
    claims: tuple[str, ...] = ()
    booted: tuple[Text, ...] = ()
    not_booted: str = ""
    section: str = ""
    extent: Extent | None = None
    prior: tuple[Prior, ...] = ()
    known: bool = False
    letter: str = ""
    withdrawn: str = ""

    @property
    def named(self) -> list[str]:
        """The numbers that the text and its reason name, each once."""
        return [*dict.fromkeys(name for name, _ in NAMED.findall(f"{self.says} {self.because}"))]

    @property
    def guards(self) -> tuple[str, ...]:
        """All that must be true."""
        return self.holds + self.booted

    @property
    def page(self) -> str:
        """The page that has it, its figure's: book/kretprobe."""
        return permalinks.get(self.figure).page

    @property
    def limits(self) -> str:
        """What must be said wherever its numbers are: scope, where it was seen, what the numbers are, that no kernel has it, and of
        what others have described, the first."""
        seen = "; and in ".join(RINGS[ring] for ring in self.seen_in)
        parts = [f"Scope: {self.scope.rstrip('.')}.", HYPOTHETICAL * self.hypothetical, f"Seen in {seen}.", KINDS[self.kind]]
        parts += [f"Prior: {one.cited}." for one in self.prior[:1]]
        return " ".join(filter(None, parts))


class Title(Entry, frozen=True, kw_only=True):
    """What a figure is headed with: what one sees in it, in a line.

    says: the line, with {names} of numbers of the figure's study.
    holds: the guards, all of which must be true.
    """

    says: Annotated[str, _words(3, 12, "a title")]
    holds: Annotated[tuple[Text, ...], Meta(min_length=1)]

    def filled(self, numbers: Mapping[str, object]) -> str:
        """The line with the numbers of a run; "" where a guard is not so."""
        return "" if guard.failures(self.holds, numbers) else filled(" ".join(self.says.split()), "number of a title", numbers)


@dataclass(frozen=True)
class Stated:
    """A finding with the numbers of a run. says, because: its texts. problem: what of its guards is not so, "" if all are."""

    finding: Finding
    says: str
    because: str
    problem: str


def filled(text: str, kind: str, known: Mapping[str, object]) -> str:
    """A text with what it names; raises TramplabError, with near matches, for a name that is not known."""
    return NAMED.sub(lambda match: str(of_name(kind, match[1], known)).rjust(int(match[2] or 0)), text)
