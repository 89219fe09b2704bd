"""Claims for tests: those of the book by their ids, and a small file of two."""

from tramplab_book.publish.claims import claims, ledger, verdict

IDS = [*claims.read()]
JUDGED = [claim_id for claim_id in IDS if verdict.study_of(claim_id)]
SMALL = """\
threads:
  T: {title: A thread, date: May 2021, people: [Ann, Bob], mails: [
    {id: 1@x, author: Ann, date: 2 May 2021}, {id: 2@x, author: Bob, date: 3 May 2021}]}
chapters: {one: The first chapter}
claims:
  - {id: x1, chapter: one, thread: T, said: It is <b>&., judged_by: Look.}
  - {id: x2, chapter: one, thread: [T], said: It was., judged_by: Look back., message: 2@x, scope: Of one., expect: holds}
"""


def whole() -> str:
    """The parts of the ledger's page one after the other, as HTML."""
    chapters = dict.fromkeys(claim.chapter for claim in claims.read().values())
    return "".join(shown.html for shown in (ledger.verdicts(), *map(ledger.ledger, chapters)))


def changed(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    return SMALL.replace(old, new)
