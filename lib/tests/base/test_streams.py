"""How commands end, and what becomes of what they write: it arrives whole, or one line and exit status 1 say that it did not."""

import os
import subprocess
import sys

import pytest

from support import ROOT
from support.base.outputs import full, standard_output
from tramplab import TramplabError, cli
from tramplab.base import streams
from tramplab.base.errors import Unwritten
from tramplab.vmlinux.debian import __main__ as debian
from tramplab.vmlinux.saved import recount, sizes

LARGE = 300_000
#: Does what the first argument says, as a command, and ends as one.
PROGRAM = f"""\
import sys
from tramplab import TramplabError
from tramplab.base import streams
def refuse(): raise TramplabError("no.")
acts = {{
    "much": lambda: print("x" * {LARGE}),
    "lines": lambda: [print("line", flush=True) for _ in range(9)] and None,
    "sign": lambda: print("naïve"),
    "nothing": lambda: None,
    "refuse": lambda: (print("before"), refuse())[1],
    "undecided": lambda: (print("before"), 3)[1],
}}
sys.exit(streams.run(acts[sys.argv[1]]))
"""
NO_ROOM = "tramplab: cannot write to standard output: No space left on device.\n"
CLOSED, TOO_LARGE = (NO_ROOM.replace("No space left on device", why) for why in ("Bad file descriptor", "File too large"))
#: What is done, how a shell sends it elsewhere -> exit status, standard error, what is in the file `out`. A limit of the size of
#: files is a disk that fills up in the middle.
CASES = {
    ("much", ">out; exit $?"): (1, TOO_LARGE, "x" * 102_400),
    ("much", ">/dev/full"): (1, NO_ROOM, None),
    ("undecided", ">/dev/full"): (1, NO_ROOM, None),
    ("refuse", ">/dev/full"): (1, "tramplab: no.\n" + NO_ROOM, None),
    ("undecided", ">out"): (3, "", "before\n"),
    ("lines", ">&-"): (1, CLOSED, None),
    ("nothing", "<&- >&- 2>&-"): (0, "", None),
    ("refuse", "2>&- >out"): (2, "", "before\n"),
    ("lines", "| head -1 >out"): (0, "", "line\n"),
    ("sign", ">out"): (0, "", "na?ve\n"),
}


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_is_written_arrives_whole_or_the_command_has_failed(tmp_path, unbuffered):
    """However Python buffers it."""
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT / "lib")}
    for (act, where), (status, err, out) in CASES.items():
        limit = "ulimit -f 100; " if "exit" in where else ""
        command = ["bash", "-o", "pipefail", "-c", f'{limit}"$0" -S -c "$1" {act} {where}', sys.executable, PROGRAM]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
        assert (done.returncode, done.stderr, done.stdout) == (status, err, ""), (act, where)
        assert out is None or (tmp_path / "out").read_text("utf-8") == out, (act, where)


def test_every_command_line_ends_so():
    """Of the lab's programs, which have a function of their own each."""
    for main in (cli.main, recount.main, debian.main):
        with full() as said:
            assert main(["--help"]) == 1
        assert said() == NO_ROOM
    with standard_output("/dev/null") as said:
        assert sizes.main([]) == 2
    assert said().startswith("tramplab: name ") and said().count("\n") == 1


def test_errors_say_which_exit_status_they_are():
    with standard_output("/dev/null") as said:
        errors = {TramplabError("a."): 2, Unwritten("b."): 1, KeyboardInterrupt(): 130, KeyboardInterrupt("d."): 130}
        for error, status in errors.items():
            assert streams.run(lambda error=error: (_ for _ in ()).throw(error), "c.") == status
    assert said() == "".join(f"tramplab: {letter}.\n" for letter in "abcd")


def test_who_has_put_other_streams_in_their_place_keeps_them(capsys, monkeypatch):
    """As a notebook does; it has its own way of showing what is written."""
    before = sys.stdout, sys.stderr
    assert streams.run(lambda: print("shown")) == 0 and capsys.readouterr().out == "shown\n"
    assert (sys.stdout, sys.stderr) == before
