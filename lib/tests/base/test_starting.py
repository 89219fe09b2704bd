"""How programs start: what they cannot be imported for, and Ctrl-C while they are, is one line; no traceback comes before it."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from bench import __main__ as bench
from bench import races, speed
from support import ROOT
from support.base.children import with_processes
from support.base.data import DATA
from support.base.outputs import standard_output
from tramplab.vmlinux import __main__ as vmlinux

RELEASES, PACKAGES = "releases.yml", "kernels/packages.yml"
#: Every program of a checkout that imports much: a module of that, and which data it cannot do without.
PROGRAMS = {
    "tramplab list": ("tramplab.cli", [RELEASES]),
    "tramplab.vmlinux recount": ("tramplab.vmlinux.saved.recount", [RELEASES, PACKAGES]),
    "tramplab.vmlinux races": ("tramplab.vmlinux.saved.races_saved", [RELEASES, PACKAGES]),
    "tramplab.vmlinux frames": ("tramplab.vmlinux.saved.frames_saved", [RELEASES, PACKAGES]),
    "tramplab.vmlinux probes": ("tramplab.vmlinux.saved.probes_saved", [PACKAGES]),
    "tramplab.vmlinux structs": ("tramplab.vmlinux.saved.structs", [RELEASES, PACKAGES]),
    "tramplab.vmlinux sizes nothing": ("tramplab.vmlinux.saved.sizes", []),
    "bench": ("bench.speed", [RELEASES]),
    "bench races": ("bench.races", [RELEASES]),
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


#: Starts a program that says how many threads there are when numpy has been imported, and what that was told.
COUNTED = """\
import os
from tramplab.base.starting import start
def imported():
    import numpy
    return lambda: print(len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
start(imported)
"""


@with_processes
@pytest.mark.parametrize("chosen", ["", "3"])
def test_a_program_has_no_thread_that_waits_for_matrices(chosen):
    """Unless somebody wants them."""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": chosen} if chosen else {}
    done = subprocess.run([sys.executable, "-c", COUNTED], env=environment, capture_output=True, encoding="utf-8", check=True)
    threads, told = done.stdout.split()
    assert told == (chosen or "1") and 1 <= int(threads) <= int(told)


#: Starts a program that starts Python, as its workers are.
STARTED = """\
import sys
sys.path.remove("")
import subprocess
from tramplab.base.starting import start
sys.exit(start(lambda: lambda: subprocess.call([sys.executable, "-c", "import selectors"])))
"""


def test_what_a_program_starts_imports_nothing_from_the_folder_it_is_in(tmp_path):
    (tmp_path / "selectors.py").write_text("raise SystemExit('the wrong one')", "utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run([sys.executable, "-c", STARTED], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("file", "text"), [(RELEASES, None), (RELEASES, "{"), (PACKAGES, "{")])
def test_damaged_data_are_one_line(tmp_path, file, text):
    """Though much of what a program imports reads some of them at once."""
    data = tmp_path / "data"
    shutil.copytree(DATA, data, ignore=shutil.ignore_patterns("expected"))  # what is wrong here may write
    (data / file).unlink()
    if text:
        (data / file).write_text(text, "utf-8")
    chosen = [words for words, (_, read) in PROGRAMS.items() if file in read]
    found = ended([["-m", *words.split()] for words in chosen], TRAMPLAB_DATA=str(data))
    for words, (status, out, err) in zip(chosen, found, strict=True):
        said = f"tramplab: {file} is not YAML" if text else f"tramplab: no data file {data / file}: work in a checkout"
        assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith(said), (words, err)


def test_interrupt_before_a_program_is_there():
    """Ctrl-C while Python imports it: the same line and status."""
    commands = []
    for words, (there, _) in PROGRAMS.items():
        module, *others = words.split()
        commands.append(["-c", INTERRUPTED, module, there, *others])
    assert ended(commands) == [(130, "", "tramplab: interrupted.\n")] * len(PROGRAMS)


def test_interrupt_of_what_is_measured(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    for module in (races, speed):
        monkeypatch.setattr(module, "main", interrupted)
    for words in ([], ["races"]):
        with standard_output("/dev/null") as said:
            assert bench.main(words) == 130
        assert said() == "tramplab: interrupted.\n"


def test_a_program_of_a_program_that_fails_is_named_by_its_last_line(monkeypatch):
    """As are the races, which have a process of their own for their peak of memory."""
    monkeypatch.setattr(speed, "main", lambda: print(speed._said(["-m", "bench", "nothing"])))
    with standard_output("/dev/null") as said:
        assert bench.main([]) == 2
    assert said() == "tramplab: it cannot be measured: name `races`, or nothing for everything.\n"
    assert speed._said(["-c", "print(3)"]) == "3\n"


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
