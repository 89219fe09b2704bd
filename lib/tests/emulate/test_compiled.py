"""What is compiled on the reader's machine: it wants no home, runs on all machines of its kind, and is never missed in silence."""

import platform

import pytest

from tramplab import TramplabError
from tramplab.base import cache
from tramplab.emulate import compiled
from tramplab.races import search


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What this process remembers, and what the environment asks for."""
    monkeypatch.delenv("TRAMPLAB_METER", raising=False)
    compiled._library.cache_clear()
    yield
    compiled._library.cache_clear()


def test_the_compiler_wants_no_home(empty, monkeypatch, tmp_path, capfd):
    """Without one it looked for its own cache for ever, or failed."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert compiled.library(search.SOURCE) is not None and capfd.readouterr().err == ""
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
        compiled._library.cache_clear()
        assert compiled.library(search.SOURCE) is None
    assert len(names) == 2 and all("-mcpu=baseline" in asked for asked in flags)


@pytest.mark.parametrize("told", ["stderr", "lines"])
def test_a_line_says_that_python_does_it(empty, monkeypatch, tmp_path, capsys, told):
    """Once by a process: where it cannot be built, or kept, or loaded. In a book it goes where lines on the cache go."""
    if told == "lines":
        monkeypatch.setenv(cache.LINES, str(tmp_path / "lines"))

    def refuse(*_, **__):
        raise TramplabError("no compiler.")

    def not_a_library(*_, **__):
        raise OSError("invalid ELF header")

    for target, name, do, why in (
        (compiled, "run_tool", refuse, "no compiler."),
        (compiled, "publish", refuse, "no compiler."),
        (compiled.ctypes, "CDLL", not_a_library, "invalid ELF header"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, do)
            compiled._library.cache_clear()
            assert compiled.library(search.SOURCE) is None and compiled.library(search.SOURCE) is None
        said = capsys.readouterr().err
        if told == "lines":
            assert said == ""
            said = (tmp_path / "lines").read_text("utf-8")
            (tmp_path / "lines").unlink()
        assert said == f"tramplab: search is done in Python, which takes longer: {why}\n"


def test_who_asked_for_python_is_told_nothing(empty, monkeypatch, capsys):
    monkeypatch.setenv("TRAMPLAB_METER", "python")
    assert compiled.library(search.SOURCE) is None and capsys.readouterr().err == ""
