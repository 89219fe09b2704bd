"""The cache: whatever happens to a file in it, counts and rows are the right ones, one line says so, and the file is repaired."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import ROOT
from support.base.damage import DAMAGES
from support.base.forgetting import forget
from support.base.remembering import remember
from support.base.without_workers import without_workers
from support.book.small_books import small_book
from support.models.guests import into, objects, objects_in
from support.plugins.caches import lines, write
from support.plugins.seeds import drawn, seeds
from tramplab import cli
from tramplab import isa as isas
from tramplab.base import cache
from tramplab.grid import cached
from tramplab.grid.cells import Unit
from tramplab.native import run

KINDS = list(DAMAGES)


def spoil(files: Iterable[Path], turn: int, seed: int) -> dict[str, bytes]:
    """Damage files, each in another way, which is the next one at the next turn; their bytes before."""
    whole = {path: path.read_bytes() for path in sorted(files)}
    contents, rng = list(whole.values()), random.Random(seed)
    for n, (path, data) in enumerate(whole.items()):
        damaged = DAMAGES[KINDS[(n + turn) % len(KINDS)]](data, contents[n - 1], rng)
        assert damaged != data
        path.write_bytes(damaged)
    return {path.name: data for path, data in whole.items()}


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# --- Every kind of file


@settings(max_examples=100)
@given(st.binary(max_size=300), st.binary(max_size=300), st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_what_is_read_is_what_was_kept(content, other, kind, rng):
    """Whatever the content and the damage, and wherever it is."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAMPLAB_CACHE", folder)
        patch.setenv(cache.LINES, f"{folder}/lines")
        a, b = (cache.publish(write(data), name) for name, data in (("a.bin", content), ("b.bin", other)))
        whole = a.read_bytes()
        assert cache.read("a.bin") == content and cache.made(write(b"not made"), "a.bin") == content
        a.write_bytes(DAMAGES[kind](whole, b.read_bytes(), rng))
        assert cache.made(write(content), "a.bin") == content == cache.read("a.bin") and a.read_bytes() == whole
        assert Path(folder, "lines").read_text("utf-8").splitlines() == lines(a.name)


MEASURE = ["measure", "riscv64", "bpf-fexit", "--json"]
#: The rooms that read what a measurement needs.
READERS = ("build", "emulate", "trampolines", "lab")


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[Path, str]:
    """A cache with what a measurement needs: an image, its types, snippets and the meter; and its counts. By another process, and
    objects by whoever has made them."""
    folder = tmp_path_factory.mktemp("measured")
    into(folder, objects(cache.folder(), "riscv64"))
    command, environment = [sys.executable, "-m", "tramplab", *MEASURE], {**os.environ, "TRAMPLAB_CACHE": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {"asm", "meter", "riscv64", "types"}
    return folder, done.stdout


@drawn
@pytest.mark.parametrize("turn", range(len(KINDS)))
def test_counts_do_not_change(measured, turn, tmp_path, tramplab, monkeypatch):
    """All files of a cache damaged at once; at each turn a file has another damage, so that each meets them all."""
    (seed,) = seeds(f"cache {turn}", 1)
    folder, counts = measured
    own = Path(shutil.copytree(folder, tmp_path / "cache"))
    whole = spoil(own.iterdir(), turn, seed)
    monkeypatch.setenv("TRAMPLAB_CACHE", str(own))
    remember(monkeypatch)
    forget(*READERS)
    status, out, err = tramplab(*MEASURE)
    forget(*READERS)
    assert (status, out, sorted(err.splitlines())) == (0, counts, lines(*whole))
    assert held(own) == whole


GRID = ["grid", "--isa", "riscv64", "--hook", "none,ops", "--args", "0-1", "--callbacks", "1", "--processes", "1"]


@pytest.fixture(scope="module")
def stopped(measured, tmp_path_factory) -> tuple[Path, str]:
    """A cache with the units that a grid has kept which was stopped as it was about to be done; and its table."""
    folder = Path(shutil.copytree(measured[0], tmp_path_factory.mktemp("grid") / "cache"))
    table = folder.with_name("table")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAMPLAB_CACHE", str(folder))
        patch.setattr(cached.Cached, "forget", lambda *_: None)
        assert cli.main([*GRID, "--quiet", "--out", str(table)]) == 0
    return folder, table.read_text("utf-8")


@drawn
@pytest.mark.parametrize("turn", range(len(KINDS)))
def test_rows_of_a_grid_do_not_change(stopped, turn, tmp_path, tramplab, monkeypatch):
    """Units that were kept by a grid that was stopped."""
    (seed,) = seeds(f"grid {turn}", 1)
    folder, table = stopped
    monkeypatch.setenv("TRAMPLAB_CACHE", str(shutil.copytree(folder, tmp_path / "cache")))
    without_workers(monkeypatch)
    whole = spoil((tmp_path / "cache" / f"grid-{cached.state()}").iterdir(), turn, seed)
    status, out, err = tramplab(*GRID)
    assert (status, out, len(whole)) == (0, table, 4)
    assert sorted(line for line in err.splitlines() if line.startswith("tramplab:")) == lines(*whole)


@drawn
@pytest.mark.parametrize("isa", isas.ISAS)
def test_the_native_child_is_made_again(isa, request, monkeypatch, capsys):
    usual = run.child(isas.get(isa))
    program = Path(shutil.copy(usual, request.getfixturevalue("empty")))
    remember(monkeypatch)
    for turn, seed in enumerate(seeds(f"child {isa}", len(KINDS) - 1)):  # there is no other file to be exchanged for it
        spoil([program], turn, seed)
        program.chmod(0o644)  # as where a cache was copied
        assert run.child(isas.get(isa)) == program and program.read_bytes() == usual.read_bytes() and os.access(program, os.X_OK)
        assert capsys.readouterr().err.splitlines() == lines(program.name)


def test_a_whole_unit_of_another_state_is_none_of_this_one(empty, capsys):
    """A file's name belongs to its checksum, with the folder before it."""
    unit, answer = Unit("arm64", "ops", "v7.2", 1, (1,)), cached.Answer((("ops",),))
    for state in ("old", "new"):
        cached.Cached(state).save(unit, ["hook"], answer)
    (name,) = (path.name for path in (empty / "grid-new").iterdir())
    shutil.copy(empty / "grid-old" / name, empty / "grid-new" / name)
    assert cached.Cached("new").load(unit) is None and cached.Cached("old").load(unit) == (["hook"], answer)
    assert capsys.readouterr().err.splitlines() == lines(name)


# --- What a process has verified


def test_a_file_is_verified_again_when_it_is_another_one(empty, monkeypatch, capsys):
    """Once by a process as long as it looks the same; damage that came later is noticed."""
    path = cache.publish(write(b"content"), "a.bin")
    read = []
    monkeypatch.setattr(cache, "read", lambda name, real=cache.read: read.append(name) or real(name))
    for _ in range(3):
        assert cache.publish(write(b"not made"), "a.bin") == path
    assert read == ["a.bin"]
    path.write_bytes(b"damaged")
    assert cache.publish(write(b"content"), "a.bin") == path and cache.read("a.bin") == b"content"
    assert capsys.readouterr().err.splitlines() == lines(path.name)


def test_what_earlier_versions_kept_is_not_looked_at(empty, capsys):
    (empty / "a.bin").write_bytes(b"without a checksum")
    assert cache.read("a.bin") is None and cache.made(write(b"content"), "a.bin") == b"content"
    assert (empty / "a.bin").read_bytes() == b"without a checksum" and capsys.readouterr().err == ""


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
    assert left == {".building-young", ".building-ahead", ".building-link", "a.sha256.bin"}


# --- In a book, where what a cell says on standard error is an error


def test_a_book_is_built_from_a_damaged_cache(measured, tmp_path):
    """The line is said by the build, and on no page; a relative folder is not that of a page's."""
    own = Path(shutil.copytree(measured[0], tmp_path / "cache"))
    few = objects_in(own)[: len(KINDS)]  # to compile all of them takes longer than the book
    whole = held(own)
    spoiled = spoil({*own.iterdir()} - {*objects_in(own)} | {*few}, 0, 0)
    body = "```{code-cell}\nfrom tramplab.lab.measure import counts_of\nprint(counts_of('riscv64', 'bpf-fexit')['hook'])\n```\n"
    (tmp_path / "book").mkdir()
    command, environment = small_book(tmp_path / "book", body)
    environment |= {"TRAMPLAB_CACHE": "../cache", "TRAMPLAB_DATA": os.path.relpath(ROOT / "data", tmp_path / "book")}
    done = subprocess.run(command, cwd=tmp_path / "book", env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line for line in done.stderr.splitlines() if "damaged" in line) == lines(*spoiled)
    page = (tmp_path / "book" / "_build" / "html" / "book" / "index.html").read_text("utf-8")
    assert "bpf-fexit" in page and "damaged" not in page and held(own) == whole
