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


@pytest.mark.parametrize(
    "subject",
    [
        "emulate: keep the code hook between watches",
        "book, data: show what is measured, and where removed figures went",
        "lib/tests/checkout: test commit subjects",
        "ftrace: CALL_OPS needs an aligned site, so refuse one that is not",
        "vmlinux: Debian's JITs keep their trampolines, so read them there",
    ],
)
def test_a_good_subject_passes(subject):
    assert wrong(f"{subject}\n\nThe reason.\n") == []


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("keep the code hook between watches", "room: imperative"),
        ("Emulate: keep the code hook between watches", "room: imperative"),
        ("Chapter 1: say what it saves", "room: imperative"),
        ("emulate:keep the code hook", "room: imperative"),
        ("emulate: Keep the code hook between watches", "a capital"),
        ("emulate: keep the code hook between watches.", "a period"),
        ("races: a handler goes on only where its text leads", "begins with 'a'"),
        ("emulate: who watches an instruction leaves the hook", "begins with 'who'"),
        (f"emulate: keep {'x' * 60}", "74 columns"),
        ("", "room: imperative"),
    ],
)
def test_a_bad_subject_is_named(subject, complaint):
    (found,) = wrong(f"{subject}\n\nThe reason.\n")
    assert complaint in found


@pytest.mark.parametrize("body", ["", "\n", "\n\n  \n"])
def test_a_message_without_a_body_is_named(body):
    assert wrong(f"emulate: keep the code hook{body}") == ["no body that gives the reason"]


def test_a_body_that_follows_at_once_is_named():
    assert wrong("emulate: keep the code hook\nThe reason.") == ["no empty line after the subject"]


@pytest.mark.parametrize(
    ("subject", "complaint"), [("races: keep it", ""), ("Races: keep it", "not of the form `room: imperative`\n")]
)
def test_a_message_is_refused_before_the_commit(tmp_path, subject, complaint):
    """As git's hook asks, with git's own comments below the message."""
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"{subject}\n\nThe reason.\n# Please enter the commit message\n", "utf-8")
    done = subprocess.run([sys.executable, commits.__file__, message], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (bool(complaint), complaint)
