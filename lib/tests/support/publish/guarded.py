"""A finding held against rows that a test has changed."""

from tramplab_book.publish.findings import findings
from tramplab_book.studies import stated


def problem(name, rows) -> str:
    """What of a finding's guards is not so by these rows of its study, "" if all are. name: of the finding, or of its claim."""
    finding = findings.of_claim(name) or findings.get(name)
    return findings.stated(finding, stated.study_of(finding).numbers(rows)).problem
