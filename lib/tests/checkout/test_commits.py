"""Commit messages since the rule, which is in support/checkout/commits.py."""

import os
import subprocess
import sys

import pytest

from support import ROOT
from support.checkout import commits
from support.checkout.commits import wrong
from tramplab.base import revision

#: The last commit before the rule.
START = "37f1dd24db30"


def git(*arguments: str) -> subprocess.CompletedProcess:
    """Of this repository, also where a hook of git's runs the tests and names another."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", *arguments], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")


def messages() -> dict[str, str]:
    """Commit -> message, of every commit after START that is no merge; skips where the history does not reach back to it."""
    if why := revision.revision(ROOT).why:
        pytest.skip(f"no git history: {why}")
    if git("merge-base", "--is-ancestor", START, "HEAD").returncode:
        pytest.skip(f"{START} is not in this history; `git fetch --unshallow` brings the rest of a shallow clone")
    log = git("log", "-z", "--no-merges", "--no-show-signature", "--format=%h%n%B", f"{START}..HEAD").stdout
    return {commit: message.strip() for commit, _, message in (entry.partition("\n") for entry in log.split("\0") if entry)}


def test_every_commit_message_follows_the_rule():
    bad = {f"{commit} {message.splitlines()[0]}": why for commit, message in messages().items() if (why := wrong(message))}
    assert bad == {}, "git rebase -i, and reword these"


def test_what_is_wrong_is_named():
    """All of it at once; what is right is in the history."""
    long = f"races: A handler goes on only where its text leads {'x' * 30}."
    assert wrong(f"{long}\nThe reason.") == [
        "82 columns, at most 72",
        "no empty line after the subject",
        "a capital after the colon",
        "begins with 'A', not with what the commit does",
        "a period at the end",
    ]
    assert wrong("Races: keep it\n\n  \n") == ["no body that gives the reason", "not of the form `room: imperative`"]


@pytest.mark.parametrize(
    ("subject", "complaint"), [("races: keep it", ""), ("Races: keep it", "not of the form `room: imperative`\n")]
)
def test_a_message_is_refused_before_the_commit(tmp_path, subject, complaint):
    """As git's hook asks, with git's own comments below the message."""
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"{subject}\n\nThe reason.\n# Please enter the commit message\n", "utf-8")
    done = subprocess.run([sys.executable, commits.__file__, message], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (bool(complaint), complaint)
