"""The rule for commit messages: a subject `room: imperative` of at most 72 columns, and a body that gives the reason.

As a command it reads the message that git is about to take: `python commits.py .git/COMMIT_EDITMSG`.
"""

import re
import sys
from pathlib import Path

WIDTH = 72
#: One room or several: `races`, `book, data`, `lib/tests/checkout`, `.ci`.
SUBJECT = re.compile(r"(?P<rooms>[a-z.][a-z0-9_./-]*(?:, [a-z.][a-z0-9_./-]*)*): (?P<words>\S.*)")
#: A subject that begins with one of these describes something and does not say what the commit does.
NOT_IMPERATIVE = frozenset("a an the it its this that these those what which who whoever whom how when where whether of".split())
#: Names besides those with two capitals or an underscore, such as BPF, README and CALL_OPS.
NAMES = frozenset("Chromium Clang Debian Git Jupyter Linux Python Ruff Sphinx Unicorn Vega".split())


def wrong(message: str) -> list[str]:
    """What is wrong with a commit message."""
    subject, _, body = message.partition("\n")
    complaints = [f"{len(subject)} columns, at most {WIDTH}"] if len(subject) > WIDTH else []
    if not body.strip():
        complaints.append("no body that gives the reason")
    if body and not body.startswith("\n"):
        complaints.append("no empty line after the subject")
    if not (match := SUBJECT.fullmatch(subject)):
        return [*complaints, "not of the form `room: imperative`"]
    first = re.match(r"[^\s,:']+", match["words"])
    name = first and (first[0] in NAMES or "_" in first[0] or len(re.findall("[A-Z]", first[0])) > 1)
    if not name and not match["words"][0].islower():
        complaints.append("a capital after the colon")
    if first and first[0].lower() in NOT_IMPERATIVE:
        complaints.append(f"begins with {first[0]!r}, not with what the commit does")
    if subject.endswith("."):
        complaints.append("a period at the end")
    return complaints


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text("utf-8")
    sys.exit("\n".join(wrong(re.sub(r"^#.*\n?", "", text, flags=re.M).strip())) or None)
