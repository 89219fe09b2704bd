"""How programs start: what they cannot be imported for, and Ctrl-C while they are, is one line; no traceback comes before it."""

import os
import shutil
import signal
import subprocess
import sys

from bench import __main__ as bench
from support import ROOT
from support.base.data import DATA
from support.base.outputs import standard_output
from tramplab.vmlinux import __main__ as vmlinux

#: Programs of a checkout that import much, one of each kind, and a module of that.
PROGRAMS = {
    "tramplab list": "tramplab.cli",
    "tramplab.vmlinux recount": "tramplab.vmlinux.saved.recount",
    "bench": "bench.speed",
    "bench races": "bench.races",
}
#: Runs the module that is named first; where the one that is named second is looked for, Ctrl-C is pressed.
INTERRUPTED = """\
import os, runpy, signal, sys
module, there, *sys.argv[1:] = sys.argv[1:]
class Finder:
    def find_spec(name, *_):
        if name == there:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
runpy.run_module(module, run_name="__main__")
"""


def ended(commands, **env):
    """The status of each, what it printed and said; they run side by side."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), **env}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    running = [subprocess.Popen([sys.executable, *command], env=env, **pipes) for command in commands]
    return [(process.returncode, *said) for process in running for said in [process.communicate(timeout=120)]]


def test_damaged_data_are_one_line(tmp_path):
    """Though much of what a program imports reads some of them at once."""
    data = tmp_path / "data"
    shutil.copytree(DATA, data, ignore=shutil.ignore_patterns("expected"))  # what is wrong here may write
    (data / "releases.yml").write_text("{", "utf-8")
    found = ended([["-m", *words.split()] for words in PROGRAMS], TRAMPLAB_DATA=str(data))
    for words, (status, out, err) in zip(PROGRAMS, found, strict=True):
        assert (status, out, err.count("\n")) == (2, "", 1), words
        assert err.startswith("tramplab: releases.yml is not YAML"), (words, err)


def test_interrupt_before_a_program_is_there():
    """Ctrl-C while Python imports it: the same line and status."""
    commands = [["-c", INTERRUPTED, *words.split()[:1], there, *words.split()[1:]] for words, there in PROGRAMS.items()]
    assert ended(commands) == [(130, "", "tramplab: interrupted.\n")] * len(PROGRAMS)


def test_what_is_not_a_program_is_named():
    """And Ctrl-C is afterwards what it was, for who runs it in a process of his own."""
    usual = signal.getsignal(signal.SIGINT)
    cases = {
        (bench.main, "spin"): "name `races`, or nothing for everything.",
        (vmlinux.main, ""): "say what: recount, races, frames, walks, probes, structs, sizes.",
        (vmlinux.main, "race"): "unknown program 'race'; did you mean races",
        (vmlinux.main, "probes now"): "probes takes nothing more.",
        (vmlinux.main, "sizes"): "name one kernel image.",
        (vmlinux.main, "recount nowhere"): "unknown kernel image 'nowhere'",
    }
    for (main, words), sentence in cases.items():
        with standard_output("/dev/null") as said:
            assert main(words.split()) == 2, words
        assert said().startswith(f"tramplab: {sentence}") and said().count("\n") == 1, words
        assert signal.getsignal(signal.SIGINT) is usual
