"""Which commit a checkout is at, and why nobody knows where git does not say it."""

from pathlib import Path

import pytest

from support.base.repositories import UNKNOWN, committed, git
from tramplab.base.revision import Revision, revision


def a_folder(path: Path) -> Path:
    path.mkdir()
    (path / "file").touch()
    return path


def test_git_is_asked_for_this_folder_whatever_its_variables_name(tmp_path, monkeypatch):
    """Those that git sets for a hook name another repository, or another state; and no setting changes the answer."""
    here, other = (committed(a_folder(tmp_path / name)) for name in ("here ", "other"))
    git(other, "commit", "--quiet", "--allow-empty", "-m", "two")
    commit = git(here, "rev-parse", "HEAD")[:12]
    git(here, "config", "log.showSignature", "true")
    assert (revision(here).commit, revision(here).dirty, revision(here).why) == (commit, False, "")
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_COMMON_DIR": other / ".git",
        "GIT_INDEX_FILE": tmp_path / "none",
        "GIT_OBJECT_DIRECTORY": tmp_path,
    }.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, str(value))
            assert revision(here) == Revision(commit, False, frozenset()), name


@pytest.mark.parametrize("state", UNKNOWN)
def test_why_a_commit_is_unknown_is_said(state, tmp_path, monkeypatch):
    folder = a_folder(tmp_path / "checkout")
    monkeypatch.setenv("HOME", str(tmp_path))  # without a reader's own settings
    why = state(folder, monkeypatch).replace("{}", str(folder))
    assert revision(folder).commit == "" and revision(folder).why == why
