"""The cache: what is kept is found as it was, and what is not there is made, whole or not at all."""

import os
import time

import pytest

from support.plugins.caches import write
from tramplab.base import cache


def test_what_is_read_is_what_was_kept(empty):
    path = cache.publish(write(b"content"), "a.bin")
    assert path == empty / "a.bin" and cache.publish(write(b"not made"), "a.bin") == path
    assert cache.read("a.bin") == cache.made(write(b"not made"), "a.bin") == b"content" and cache.read("b.bin") is None
    cache.keep("folder/c.json", "text")
    assert cache.read("folder/c.json") == b"text" and sorted(os.listdir(empty)) == ["a.bin", "folder"]


def test_a_link_to_a_file_as_on_another_disk_is_as_good(empty):
    whole = cache.publish(write(b"content"), "a.bin").rename(empty / "elsewhere")
    cache.place("a.bin").symlink_to(whole)
    assert cache.publish(write(b"not made"), "a.bin").is_symlink() and cache.read("a.bin") == b"content"


def test_an_interrupt_as_a_build_begins_leaves_nothing(empty, monkeypatch):
    """A Ctrl-C that comes when the folder of a build has just been made."""
    real = os.mkdir

    def mkdir(path, *a, **k):
        real(path, *a, **k)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(KeyboardInterrupt):
        cache.keep("what.txt", "text")
    assert list(empty.iterdir()) == []


def test_a_build_that_fails_leaves_what_was_there(empty):
    cache.keep("a.txt", "before")

    def failing(folder):
        (folder / "half").write_text("half", "utf-8")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cache.made(failing, "b.txt")
    assert sorted(os.listdir(empty)) == ["a.txt"] and cache.read("a.txt") == b"before"


def test_what_killed_builds_left_is_removed(empty):
    """Also what a clock that was wrong has dated in the future; not what a build is at now, however long it takes."""
    hours = {"old": -2, "future": 2, "far": 100_000, "young": 0, "ahead": 0.5}
    for name, ahead in hours.items():
        (empty / f".building-{name}").mkdir()
        (empty / f".building-{name}" / "lab.elf").touch()
        os.utime(empty / f".building-{name}", (time.time() + ahead * 3600,) * 2)
    (empty / ".building-link").symlink_to(".building-link")
    cache.publish(write(b"content"), "a.bin")
    left = {path.name for path in empty.iterdir()}
    assert left == {".building-young", ".building-ahead", ".building-link", "a.bin"}
