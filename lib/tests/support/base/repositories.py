"""Folders that are repositories of git, or are none for a reason that is to be said."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """What git says there."""
    options = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", "-C", str(folder), *options, *arguments], check=True, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


def committed(folder: Path) -> Path:
    """The folder, as a repository with one commit of all that is in it."""
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def in_another_repository(folder, monkeypatch):
    git(folder.parent, "init", "--quiet")
    return "{} is no git repository of its own; work in a clone"


def with_an_empty_git(folder, monkeypatch):
    in_another_repository(folder, monkeypatch)
    (folder / ".git").mkdir()
    return "{} is no git repository of its own; work in a clone"


def without_commits(folder, monkeypatch):
    git(folder, "init", "--quiet")
    return "git says of {}: your current branch 'main' does not have any commits yet"


def without_git(folder, monkeypatch):
    committed(folder)
    monkeypatch.setenv("PATH", str(folder))
    return "no git is on the PATH; install it"


def with_a_git_that_does_not_run(folder, monkeypatch):
    committed(folder)
    (folder / "git").write_text("", "utf-8")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return "git cannot be run (Exec format error); reinstall it"


def somebody_elses(folder, monkeypatch):
    committed(folder)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own, for this
    return "{} belongs to another user; `git config --global --add safe.directory {}` has git read it"


#: Each makes of a folder one whose commit git does not say, and returns why, with {} for the folder.
UNKNOWN = [
    in_another_repository,
    with_an_empty_git,
    without_commits,
    without_git,
    with_a_git_that_does_not_run,
    somebody_elses,
]
