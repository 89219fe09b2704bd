"""What is compiled on the reader's machine: it wants no home, runs on all machines of its kind, and is not missed in silence."""

import platform

import pytest

from support.complaints import complaint
from tramplab import TramplabError
from tramplab.base import cache
from tramplab.emulate import compiled
from tramplab.races.search import search


@pytest.fixture(autouse=True)
def forgotten():
    """What this process remembers."""
    compiled.library.cache_clear()
    yield
    compiled.library.cache_clear()


def test_the_compiler_wants_no_home(empty, monkeypatch, tmp_path, capfd):
    """Without one it looked for its own cache for ever, or failed."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    compiled.library(search.SOURCE)
    assert capfd.readouterr().err == ""
    assert [path.name.partition("-")[0] for path in empty.iterdir()] == ["search"]


def test_what_is_kept_is_for_any_machine_of_this_kind_and_for_no_other(empty, monkeypatch):
    """As where several share a home."""
    names, flags = set(), []

    def refuse(*arguments, **_):
        flags.append(arguments)
        raise TramplabError("no compiler.")

    monkeypatch.setattr(compiled, "run_tool", refuse)
    monkeypatch.setattr(compiled, "publish", lambda make, name, real=cache.publish: names.add(name) or real(make, name))
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert complaint(lambda: compiled.library(search.SOURCE)) == "no compiler."
    assert len(names) == 2 and all("-mcpu=baseline" in asked for asked in flags)


def test_what_cannot_be_loaded_says_where_it_could(empty, monkeypatch):
    """As where the cache lies on a file system of which nothing is run."""

    def refuse(name):
        raise OSError(f"{name}: failed to map segment from shared object")

    monkeypatch.setattr(compiled.ctypes, "CDLL", refuse)
    said = complaint(lambda: compiled.library(search.SOURCE))
    assert said.startswith("search cannot be loaded (")
    assert said.endswith("): set TRAMPLAB_CACHE to a folder whose files may be run.")
