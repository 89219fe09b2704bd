"""Which commit a checkout is at, and what a file of it ever said: git tells it where the checkout is a repository of its own. Or
why nobody knows."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import TramplabError
from .paths import PACKAGE, checkout

#: The file of a wheel with the commit, and behind it what tells that the checkout had changes.
BUILT = "commit.txt"
DIGITS = 12  # of a commit, as many as the kernel's own references have
#: What git sets for its hooks, and would have it answer for another repository, or another state of this one.
_ELSEWHERE = {"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"}


@dataclass(frozen=True)
class Revision:
    """The commit that a checkout is at.

    commit: its first DIGITS digits, "" where it is unknown.
    dirty: do tracked files differ from it?
    tags: those of the commit.
    why: why it is unknown, with what to do, to stand in a sentence; "" where it is known."""

    commit: str
    dirty: bool
    tags: frozenset[str]
    why: str = ""


@dataclass(frozen=True)
class History:
    """All that a file ever said.

    lines: every line that it had in any commit -> the last commit that added it.
    lacks: why that may not be all, "" if it is.
    """

    lines: dict[str, str]
    lacks: str = ""


def of_package(package: Path = PACKAGE) -> Revision:
    """The revision of the checkout that a package lies in, or that its wheel was built from, see lib/setup.py."""
    try:
        return revision(checkout())
    except TramplabError as e:
        why = str(e).rstrip(".")
    try:
        commit, changed, _ = (package / BUILT).read_text("utf-8").strip().partition("+")
    except OSError:
        return _unknown(why)
    return Revision(commit, bool(changed), frozenset()) if commit else _unknown(why)


def revision(root: Path) -> Revision:
    """The revision of a checkout; unknown where git cannot answer, and in a folder inside another repository."""
    try:
        if not os.path.exists(root / ".git") or Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return _unknown(f"{root} is no git repository of its own; work in a clone")
        commit = _git(root, "log", "--no-show-signature", "-1", "--format=%H")[:DIGITS]
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return Revision(commit, bool(changed), frozenset(_git(root, "tag", "--points-at", "HEAD").split()))
    except FileNotFoundError:
        return _unknown("no git is on the PATH; install it")
    except OSError as e:
        return _unknown(f"git cannot be run ({e.strerror}); reinstall it")
    except subprocess.CalledProcessError as e:
        return _unknown(_refused(root, " ".join(os.fsdecode(e.stderr).split())))


def history(root: Path, file: str) -> History:
    """The lines that a file of a checkout ever had, on any of the branches that led to its commit; nothing where there is no
    revision."""
    if why := revision(root).why:
        return History({}, why)
    mark = "commit "
    log = ["log", "--no-show-signature", "--reverse", "--full-history", "-m", "-p", "-U0", "--no-renames", f"--format={mark}%H"]
    shallow = _git(root, "rev-parse", "--is-shallow-repository") == "true"
    patches = _git(root, *log, "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--", file)
    lines, commit = {}, ""
    for line in patches.splitlines():
        if line.startswith(mark):
            commit = line.removeprefix(mark)[:DIGITS]
        elif line.startswith("+") and not line.startswith("+++"):
            lines[line[1:]] = commit
    return History(lines, "this is a shallow clone; `git fetch --unshallow` brings the rest of its history" if shallow else "")


def _git(root: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE} | {"LC_ALL": "C"}
    done = subprocess.run(["git", "-C", str(root), *arguments], env=environment, capture_output=True, check=True)
    return os.fsdecode(done.stdout).removesuffix("\n")


def _unknown(why: str) -> Revision:
    return Revision("", False, frozenset(), why)


def _refused(root: Path, words: str) -> str:
    """The cause of an error of git's, in our words."""
    if "dubious ownership" in words:
        allow = f"git config --global --add safe.directory {shlex.quote(str(root.resolve()))}"
        return f"{root} belongs to another user; `{allow}` has git read it"
    return f"git says of {root}: {(words.partition('fatal: ')[2] or words or 'nothing').rstrip('.')}"
