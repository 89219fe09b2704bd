"""The rules of lib/pyproject.toml for Python sources: the package, its tests and bench, and the book's extension keep them."""

import subprocess
import sys

import pytest
from browser import ROOT

#: What is there besides what the tests of the book copy.
SOURCES = (".", "../book/_ext")


def ruff(*arguments: str, text: str | None = None) -> tuple[int, str]:
    """Exit status and complaints; without a cache, as it takes less than a second."""
    command = [sys.executable, "-m", "ruff", "check", "--config", "pyproject.toml", "--no-cache", "--output-format", "concise"]
    done = subprocess.run([*command, *arguments], cwd=ROOT / "lib", input=text, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


def test_no_rule_is_broken():
    status, said = ruff(*SOURCES)
    assert status == 0, said


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""A module."""\n\nimport os\n', "F401"),
        ('"""A module."""\n\n\ndef public():\n    return 1\n', "D103"),
        ('"""A module."""\n\nFIRST = [a for a, b in zip("ab", "cd")]\n', "B905"),
        ('"""A module."""\n\nimport sys\nimport os\n\nprint(sys, os)\n', "I001"),
    ],
)
def test_a_broken_rule_is_named(text, rule):
    status, said = ruff("--stdin-filename", "tramplab/made_up.py", "-", text=text)
    assert status == 1 and f" {rule} " in said
