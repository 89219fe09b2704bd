"""Folders in which nothing can be kept, or by others too: each is one sentence."""

import errno
import os
import pwd
from pathlib import Path

import pytest

from support.complaints import complaint
from support.plugins.caches import write
from tramplab import TramplabError
from tramplab import isa as isas
from tramplab.base import cache
from tramplab.build.assemble import by_clang


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path, monkeypatch):
    """Which folder, why, and what to do; also where the disk is full in the middle of a build."""
    (tmp_path / "file").touch()

    def full(folder: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for where, make, why in (("file", write(b""), "File exists"), ("cache", full, "No space left on device")):
        monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / where))
        message = complaint(lambda make=make: cache.publish(make, "a.bin"))
        assert message == f"cannot keep files in {tmp_path / where} ({why}): set TRAMPLAB_CACHE to a folder that can be written."
    assert os.listdir(tmp_path / "cache") == []
    for name in ("TRAMPLAB_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    message = complaint(cache.folder)
    assert message == "this user has no home to keep files in: set TRAMPLAB_CACHE to a folder that can be written."


def test_a_relative_folder_is_that_of_the_process_and_not_of_a_compiler(tmp_path, monkeypatch):
    """Compilers run in folders of their own."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("TRAMPLAB_CACHE", "cache"), ("XDG_CACHE_HOME", "xdg"), ("HOME", "home")):
        monkeypatch.setenv(name, value)
        assert by_clang(isas.get("riscv64"), f".byte {len(value)}") == bytes([len(value)])
        monkeypatch.delenv(name)
    places = ("cache", "home/.cache/tramplab", "xdg/tramplab")
    assert sorted(os.listdir(tmp_path)) == ["cache", "home", "xdg"] and all(len(os.listdir(p)) == 1 for p in places)


@pytest.fixture
def refused(monkeypatch):
    """What is said when the cache is to be somewhere; "" where it is used."""

    def said(where: Path) -> str:
        monkeypatch.setenv("TRAMPLAB_CACHE", str(where))
        monkeypatch.setattr(cache, "_own", set())
        try:
            return str(cache.folder()).removeprefix(str(where))
        except TramplabError as e:
            return str(e)

    return said


def test_a_folder_that_others_may_write_to_is_refused_in_one_sentence(tmp_path, refused):
    """Sticky or not: a file that is not there yet could be theirs. Its parents may be sticky, as /tmp is."""
    shared, inner = tmp_path / "shared", tmp_path / "shared" / "cache"
    assert refused(inner) == "" and inner.stat().st_mode & 0o777 == 0o700
    for outer_mode, mode, path in ((0o755, 0o1777, inner), (0o777, 0o700, shared)):
        shared.chmod(outer_mode)
        inner.chmod(mode)
        why = f"other users may write to {path} (mode {path.stat().st_mode & 0o7777:o})"
        assert refused(inner).startswith(f"will not load libraries from {inner}, as {why}: set TRAMPLAB_CACHE to ")
    shared.chmod(0o1777)
    assert refused(inner) == ""


def test_a_folder_or_a_link_of_another_user_is_refused(tmp_path, monkeypatch, refused):
    """As only root could give one away, it looks so; 1000 is another user for anybody else."""
    owners: dict[Path, int] = {}

    def lstat(path, real=Path.lstat):
        seen = real(path)
        return os.stat_result((*seen[:4], owners.get(path, seen.st_uid), *seen[5:10]))

    monkeypatch.setattr(Path, "lstat", lstat)
    (tmp_path / "of" / "cache").mkdir(parents=True)
    (tmp_path / "link").symlink_to("of/cache")
    for path in (tmp_path / "of" / "cache", tmp_path / "of", tmp_path / "link"):
        owners[path] = 1000 + os.geteuid()
        assert f"may write to {path} (owner {owners[path]}): set TRAMPLAB_CACHE" in refused(tmp_path / "link")
        owners[path] = 0
        assert refused(tmp_path / "link") == ""
