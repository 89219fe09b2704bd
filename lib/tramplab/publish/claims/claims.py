"""What was claimed in the threads: data/claims.yml, read and checked."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ...base import documents
from ...base.arguments import of_name
from ...base.errors import TramplabError, unknown
from ...base.paths import data_file
from ...base.schema import checked
from .. import said

FILE = "claims.yml"
PAGE = "book/claims"  # the ledger; the ids of claims are its anchors
#: The verdicts. "depends" where both sides occur in kernels that the claim is about; "true then", at the tree and date of the mail,
#: and not any more; "no run can decide" of a value, a wish, or a question of maintenance.
HOLDS, FAILS, DEPENDS, THEN, UNDECIDABLE = KINDS = ("holds", "does not hold", "depends", "true then", "no run can decide")
#: Verdict -> what an entry with it says besides, and no other does.
BESIDES = {DEPENDS: "depends_on", THEN: "changed", UNDECIDABLE: "why"}


@dataclass(frozen=True)
class Mail:
    """A mail of a thread: its message-id, who wrote it, and on which day, as words."""

    id: str
    author: str
    date: str


@dataclass(frozen=True)
class Thread:
    """A discussion on a mailing list. mails: those that are known."""

    title: str
    date: str
    people: tuple[str, ...]
    mails: tuple[Mail, ...] = ()


@dataclass(frozen=True)
class Claim:
    """Something that was said, in our words.

    chapter: the page that discusses it. chapter_title: its heading. mail: in which it was said; also: in which the rest of it was;
    asked: the one with the question; answered: one that says otherwise; None where none is known. judged_by: the experiment.
    judge: the module whose function judges, "" while none does. kernels: the module that tells what real kernels show of it, ""
    where none can. expect: the verdict that the run must reach, "" while nothing judges the claim. on: what that verdict depends
    on, what changed since, or why no run can decide the claim. scope: what is said with the verdict wherever it is cited.
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
            return ", ".join(known) or f"with {said.listed(thread.people)}"

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
    data = checked(FILE, documents.parsed(FILE, text), "claims")
    threads = {
        letter: Thread(
            entry["title"], entry["date"], tuple(entry["people"]), tuple(Mail(**mail) for mail in entry.get("mails", ()))
        )
        for letter, entry in data["threads"].items()
    }
    found: dict[str, Claim] = {}
    for entry in data["claims"]:
        claim = _claim(entry, threads, data["chapters"])
        if claim.id in found:
            raise TramplabError(f"{FILE}: the id {claim.id} is given twice; an id is for one claim.")
        found[claim.id] = claim
    return found


def _claim(entry: dict[str, Any], threads: dict[str, Thread], chapters: dict[str, str]) -> Claim:
    name = entry["id"]
    letters = entry["thread"] if isinstance(entry["thread"], list) else [entry["thread"]]
    named: list[tuple[str, str, Collection[str]]] = [("thread", letter, threads) for letter in letters]
    for what, value, known in [*named, ("chapter", entry["chapter"], chapters)]:
        if value not in known:
            raise TramplabError(f"{FILE}: {name}: {unknown(what, value, known)}")
    expect = entry.get("expect", "")
    for verdict, key in BESIDES.items():
        if (expect == verdict) != (key in entry):
            raise TramplabError(f"{FILE}: {name}: expect: {verdict} needs {key}:, and no other verdict has it.")
    said_in = tuple(threads[letter] for letter in letters)
    mails = {mail.id: mail for thread in said_in for mail in thread.mails}
    for key in ("message", "also", "asked", "answered"):
        if key in entry and entry[key] not in mails:
            raise TramplabError(f"{FILE}: {name}: {key}: {unknown('mail of its thread', entry[key], mails)}")
    return Claim(
        name,
        entry["chapter"],
        chapters[entry["chapter"]],
        said_in,
        _one_line(entry["said"]),
        _one_line(entry["judged_by"]),
        mails.get(entry.get("message", "")),
        mails.get(entry.get("asked", "")),
        mails.get(entry.get("answered", "")),
        entry.get("judge", ""),
        entry.get("kernels", ""),
        expect,
        _one_line(entry.get(BESIDES.get(expect, ""), "")).rstrip("."),
        mails.get(entry.get("also", "")),
        _one_line(entry.get("scope", "")),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
