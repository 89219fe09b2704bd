"""Another locale, language and time zone: what the command line prints depends on none of them."""

import os
import subprocess
import sys

import pytest

#: Commands that read all kinds of files; the claim was made by somebody whose name is not ASCII.
COMMANDS = (["list"], ["measure", "x86_64", "ops", "--core", "zen3"], ["claims", "r9"], ["cite", "r9"])
PROGRAM = """\
import sys
from tramplab.__main__ import main
for line in sys.argv[1:]:
    sys.argv[1:] = line.split()
    assert main() == 0
"""


def said(**variables: str) -> str:
    """What the command line prints, with these environment variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    command = [sys.executable, "-c", PROGRAM, *map(" ".join, COMMANDS)]
    done = subprocess.run(command, env=environment | variables, capture_output=True, check=True)
    return done.stdout.decode(variables.get("PYTHONIOENCODING", "utf-8"))


@pytest.fixture(scope="module")
def usual() -> str:
    return said(LC_ALL="C.UTF-8", TZ="UTC")


#: Python takes every file for ASCII that it is not told about.
FAR = {"LC_ALL": "C", "LANGUAGE": "de", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Pacific/Kiritimati"}


def test_the_command_line_says_the_same_everywhere(usual):
    assert not usual.isascii() and said(**FAR, PYTHONIOENCODING="utf-8") == usual


def test_what_a_terminal_has_no_sign_for_is_a_question_mark(usual):
    assert said(**FAR, PYTHONIOENCODING="ascii") == usual.encode("ascii", "replace").decode()
