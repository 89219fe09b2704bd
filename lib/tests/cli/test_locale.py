"""Another locale, language and time zone: what the command line prints depends on none of them."""

import os
import subprocess
import sys

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
    return subprocess.run(command, env=environment | variables, capture_output=True, check=True, encoding="utf-8").stdout


def test_the_command_line_says_the_same_everywhere():
    """Also where Python takes every file for ASCII that it is not told about."""
    far = {"LC_ALL": "C", "LANGUAGE": "de", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Pacific/Kiritimati"}
    usual = said(LC_ALL="C.UTF-8", TZ="UTC")
    assert not usual.isascii() and said(**far, PYTHONIOENCODING="utf-8") == usual
