"""The rules of lib/pyproject.toml for Python sources: ruff's for all of them, mypy's for the package and its bench."""

import subprocess
import sys

from support import ROOT

#: What is there besides what the tests of the book copy.
SOURCES = (".", "../book/_ext")


def run(*command: str, given: str | None = None) -> tuple[int, str]:
    """Exit status and complaints of a module."""
    there = ROOT / "lib"
    done = subprocess.run([sys.executable, "-m", *command], cwd=there, input=given, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


def ruff(*arguments: str, given: str | None = None) -> tuple[int, str]:
    """Without a cache: it takes less than a second."""
    return run("ruff", "check", "--config", "pyproject.toml", "--no-cache", "--output-format", "concise", *arguments, given=given)


def test_no_rule_is_broken():
    status, said = ruff(*SOURCES)
    assert status == 0, said


def test_a_broken_rule_is_named():
    """One that is not among those that Ruff has unless told otherwise."""
    status, said = ruff("--stdin-filename", "tramplab/made_up.py", "-", given='"""A module."""\n\n\ndef public():\n    return 1\n')
    assert status == 1 and " D103 " in said


def test_nothing_is_defined_behind_the_line_that_runs_a_module():
    """It would not be there yet when the module is run, and be there in every test, which imports it."""
    folders = ("lib/tramplab", "lib/tramplab_book", "lib/bench", "book/_ext")
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    run = {path: path.read_text("utf-8").partition('\nif __name__ == "__main__":\n')[2].splitlines() for path in files}
    assert sum(map(bool, run.values())) > 5
    assert [path for path, lines in run.items() if not all(line[:1] in ("", " ") for line in lines)] == []


def test_types_agree():
    """With the cache in lib/.mypy_cache: a second after the first time."""
    status, said = run("mypy", "-p", "tramplab", "-p", "tramplab_book", "-p", "bench")
    assert status == 0, said


def test_types_that_do_not_agree_are_named():
    """The same rules for a program of one line, with a cache of its own: another mypy may be running."""
    status, said = run("mypy", "--cache-dir=/dev/null", "-c", "def f(x): return x")
    assert status == 1 and "[no-untyped-def]" in said
