"""Which commit a checkout is at: git says it, where the checkout is a repository of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

DIGITS = 12  # of a commit, as many as the kernel's own references have


@dataclass(frozen=True)
class Revision:
    """commit: DIGITS of it, "" where there is no git. dirty: do tracked files differ from it? tags: those of the commit."""

    commit: str
    dirty: bool
    tags: frozenset[str]


def revision(root: Path) -> Revision:
    """The revision of a checkout; none without git, without a repository, and in a folder of somebody else's repository."""

    def say(*arguments: str) -> str:
        command, environment = ["git", "-C", str(root), *arguments], {**os.environ, "LC_ALL": "C"}
        return os.fsdecode(subprocess.check_output(command, env=environment, stderr=subprocess.DEVNULL)).strip()

    try:
        if Path(say("rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return Revision("", False, frozenset())
        commit, changed = say("rev-parse", "HEAD")[:DIGITS], say("status", "--porcelain", "--untracked-files=no")
        return Revision(commit, bool(changed), frozenset(say("tag", "--points-at", "HEAD").split()))
    except (OSError, subprocess.CalledProcessError):
        return Revision("", False, frozenset())
