"""What was claimed in the threads: data/claims.yml, read and checked."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta

from tramplab.base import documents
from tramplab.base.arguments import of_name
from tramplab.base.entries import Entry, Message, Text, checked
from tramplab.base.errors import TramplabError, unknown

from ...places import data_file
from .. import phrases
from ..findings import guard

FILE = "claims.yml"
PAGE = "book/claims"  # the ledger; the ids of claims are its anchors
#: The verdicts. "depends" where both sides occur in kernels that the claim is about; "true then", at the tree and date of the mail,
#: and not any more; "no run can decide" of a value, a wish, or a question of maintenance.
_Kind = Literal["holds", "does not hold", "depends", "true then", "no run can decide"]
HOLDS, FAILS, DEPENDS, THEN, UNDECIDABLE = KINDS = get_args(_Kind)
#: Verdict -> what an entry with it says besides, and no other does.
BESIDES = {DEPENDS: "depends_on", THEN: "changed", UNDECIDABLE: "why"}
#: The threads of which the mail is known in which each claim was said.
_KNOWN = frozenset("VSRN")


class Mail(Entry, frozen=True):
    """A mail of a thread: its message-id, who wrote it, and on which day, as words."""

    id: Message
    author: Text
    date: Annotated[str, Meta(pattern=r"^\d{1,2} [A-Z][a-z]{2} \d{4}$", description="a day is written like 22 Oct 2019")]


class Thread(Entry, frozen=True):
    """A discussion on a mailing list. mails: those that are known."""

    title: Text
    date: Text
    people: Annotated[tuple[Text, ...], Meta(min_length=1)]
    mails: tuple[Mail, ...] = ()


class _Written(Entry, frozen=True):
    """A claim as the file has it, which names threads, mails and its chapter."""

    id: Annotated[str, Meta(pattern=r"^[a-z]\d+$", description="an id is a letter and a number, such as v1")]
    chapter: str
    thread: str | tuple[str, ...]
    said: Text
    judged_by: Text
    message: str = ""
    also: str = ""
    asked: str = ""
    answered: str = ""
    judge: str = ""
    kernels: str = ""
    expect: Literal["", _Kind] = ""
    result: str = ""
    holds: tuple[Text, ...] = ()
    scope: Annotated[str, Meta(pattern=r"^\s*(\S+\s+){0,39}\S+\s*$", description="a scope has at most 40 words")] = ""
    depends_on: str = ""
    changed: str = ""
    why: str = ""


class _File(Entry, frozen=True):
    threads: dict[str, Thread]
    chapters: dict[str, Text]
    claims: Annotated[tuple[_Written, ...], Meta(min_length=1)]


@dataclass(frozen=True)
class Claim:
    """Something that was said, in our words.

    chapter: the page that discusses it. chapter_title: its heading. mail: in which it was said; also: in which the rest of it was;
    asked: the one with the question; answered: one that says otherwise; None where none is known. judged_by: the experiment. judge:
    the study of the finding that is its verdict, "" while there is none. kernels: the module that tells what real kernels show of
    it, "" where none can. expect: the verdict that the run must reach, "" while nothing judges the claim. on: what that verdict
    depends on, what changed since, or why no run can decide the claim. scope: what is said with the verdict wherever it is cited.
    result: what a citation says of the run, with {names} of numbers of the study; "" where that is what the verdict says first.
    holds: the guards of it.
    """

    id: str
    chapter: str
    chapter_title: str
    threads: tuple[Thread, ...]
    said: str
    judged_by: str
    mail: Mail | None = None
    asked: Mail | None = None
    answered: Mail | None = None
    judge: str = ""
    kernels: str = ""
    expect: str = ""
    on: str = ""
    also: Mail | None = None
    scope: str = ""
    result: str = ""
    holds: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The thread, the date and the author, as words; the participants where the author is not known.

        >>> thread = Thread("fprobe and pt_regs", "Aug 2023", ("Ann", "Bob", "Cid"))
        >>> Claim("p1", "p", "P", (thread,), "It is.", "Look.").source
        'fprobe and pt_regs, Aug 2023, with Ann, Bob and Cid'
        >>> Claim("p1", "p", "P", (thread,), "It is.", "Look.", Mail("1@x", "Bob", "3 Aug 2023")).source
        'fprobe and pt_regs, Aug 2023, said by Bob'
        >>> Claim("p1", "p", "P", (thread,), "It is.", "Look.", Mail("1@x", "Bob", "3 Aug 2023"), Mail("2@x", "Ann", "")).source
        'fprobe and pt_regs, Aug 2023, said by Bob, asked by Ann'
        >>> mails = (("first", "Ann"), ("next", "Bob"))
        >>> one, other = (Thread(t, "2023", ("Ann", "Bob"), (Mail(f"{t}@x", by, ""),)) for t, by in mails)
        >>> Claim("p1", "p", "P", (one, other), "It is.", "Look.", one.mails[0], also=other.mails[0]).source
        'first, 2023, said by Ann; next, 2023, said by Bob'
        """
        mails = ((self.mail, "said"), (self.also, "said"), (self.asked, "asked"), (self.answered, "answered"))
        several = len(self.threads) > 1

        def by(thread: Thread) -> str:
            known = [f"{did} by {mail.author}" for mail, did in mails if mail and (not several or mail in thread.mails)]
            return ", ".join(known) or f"with {phrases.listed(thread.people)}"

        return "; ".join(f"{t.title}, {t.date}, {by(t)}" for t in self.threads)

    @property
    def messages(self) -> tuple[str, ...]:
        """The message-ids that are known: the claim's own first, or the first of each of its threads."""
        own = tuple(mail.id for mail in (self.mail, self.also, self.asked, self.answered) if mail)
        return own or tuple(t.mails[0].id for t in self.threads if t.mails)


@functools.cache
def read() -> dict[str, Claim]:
    """The claims of this checkout, by id, in the order of the file."""
    return parse(documents.text(data_file(FILE), FILE))


def get(claim_id: str) -> Claim:
    """One claim by id; raises TramplabError with near matches."""
    return of_name("claim", claim_id, read())


def addresses() -> list[str]:
    """The citable addresses of all claims."""
    return [f"{PAGE}.html#{claim_id}" for claim_id in read()]


def parse(text: str) -> dict[str, Claim]:
    """The claims of a file's text, by id; TramplabError names the entry that is wrong and what is wrong with it."""
    file = checked(FILE, documents.parsed(FILE, text), _File)
    found: dict[str, Claim] = {}
    for written in file.claims:
        claim = _claim(written, file)
        if claim.id in found:
            raise TramplabError(f"{FILE}: the id {claim.id} is given twice; an id is for one claim.")
        found[claim.id] = claim
    return found


def _check(written: _Written, letters: tuple[str, ...], file: _File) -> None:
    """Raises TramplabError for a name that the file does not have, and for entries that do not go together."""
    named: list[tuple[str, str, Collection[str]]] = [("thread", letter, file.threads) for letter in letters]
    for what, value, known in [*named, ("chapter", written.chapter, file.chapters)]:
        if value not in known:
            raise TramplabError(f"{FILE}: {written.id}: {unknown(what, value, known)}")
    for verdict, key in BESIDES.items():
        if (written.expect == verdict) != bool(getattr(written, key)):
            raise TramplabError(f"{FILE}: {written.id}: expect: {verdict} needs {key}:, and no other verdict has it.")
    if written.expect and not written.scope:
        raise TramplabError(f"{FILE}: {written.id} has no scope, which is said wherever its verdict is.")
    if bool(written.result) != bool(written.holds):
        raise TramplabError(f"{FILE}: {written.id}: a result: has guards in holds:, and nothing else has.")
    guard.check(written.holds, f"{FILE}: {written.id}")
    if not written.message and (written.judge or written.also or written.asked or written.answered or _KNOWN.issuperset(letters)):
        raise TramplabError(f"{FILE}: {written.id} has no message, the mail in which it was said.")


def _claim(written: _Written, file: _File) -> Claim:
    letters = (written.thread,) if isinstance(written.thread, str) else written.thread
    _check(written, letters, file)
    threads = tuple(file.threads[letter] for letter in letters)
    mails = {mail.id: mail for thread in threads for mail in thread.mails}

    def mail(key: str) -> Mail | None:
        if (name := getattr(written, key)) and name not in mails:
            raise TramplabError(f"{FILE}: {written.id}: {key}: {unknown('mail of its thread', name, mails)}")
        return mails.get(name)

    return Claim(
        written.id,
        written.chapter,
        file.chapters[written.chapter],
        threads,
        _one_line(written.said),
        _one_line(written.judged_by),
        mail("message"),
        mail("asked"),
        mail("answered"),
        written.judge,
        written.kernels,
        written.expect,
        _one_line(getattr(written, BESIDES.get(written.expect, ""), "")).rstrip("."),
        mail("also"),
        _one_line(written.scope),
        _one_line(written.result),
        written.holds,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
