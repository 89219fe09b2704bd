"""Builds that fail or are interrupted: what they say, that the previous book stays, and that no process is left."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
import yaml
from nbclient import NotebookClient

from support import ROOT
from support.base.children import ended
from support.book.small_books import OLD, book

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_build
import book_kernels

STAYS = "== _build/html is as it was\n"


def failed(folder: Path, command, environment) -> str:
    """What a build says that fails and leaves the previous book."""
    done = subprocess.run(command, cwd=folder, env=environment, stdout=-1, stderr=subprocess.STDOUT, encoding="utf-8")
    assert done.returncode != 0 and (folder / "_build" / "html" / "index.html").read_text("utf-8") == OLD, done.stdout
    assert done.stdout.count(STAYS) == 1, done.stdout
    return done.stdout


#: A page -> what the build says of it, after the page's name.
FAULTS = {
    "```{code-cell}\nx = 1\nnothing(x)\n```\n": r"CellExecutionError: .*\n(.*\n)*nothing\(x\)\n(.*\n)*.*NameError\S*: name",
    "```{code-cell}\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)\n```\n": "DeadKernelError: Kernel died",
}


@pytest.mark.parametrize("cell", FAULTS, ids=["cell", "kernel"])
def test_a_page_that_fails_is_named_with_the_error(tmp_path, cell):
    said = failed(tmp_path, *book(tmp_path, {"a": cell}))
    assert re.search(rf"^(\w+\.PageFailed: )?book/a\.md: {FAULTS[cell]}", said, re.M), said


def test_a_build_that_is_killed_says_by_what(tmp_path, capsys, monkeypatch):
    for name in ("prepare", "run"):
        monkeypatch.setattr(book_build, name, lambda *_: -signal.SIGKILL)
    assert book_build.main(["build", ".", "--path-output", str(tmp_path)]) == book_build.FAILED
    assert "SIGKILL" in capsys.readouterr().err


# -- interrupted builds

WAITS = "```{code-cell}\nimport time\nopen('started', 'w').close()\ntime.sleep(600)\n```\n"


@contextlib.contextmanager
def running(folder: Path, command, environment):
    """A build one of whose pages waits; the processes it consists of, from make on."""
    (folder / "book" / "started").unlink(missing_ok=True)
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        processes = [psutil.Process(process.pid)]
        try:
            deadline = time.monotonic() + 300  # a build starts late on a busy machine
            while not (folder / "book" / "started").exists():
                assert time.monotonic() < deadline and process.poll() is None, (folder / "log").read_text("utf-8")
                time.sleep(0.05)
            processes += processes[0].children(recursive=True)
            yield processes
        finally:
            for one in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait()


def test_an_interrupted_build_leaves_the_book_and_no_process(tmp_path):
    """As a terminal interrupts it; and while it runs no other one does."""
    command, environment = book(tmp_path, {"a": WAITS})
    index = tmp_path / "_build" / "html" / "index.html"
    with running(tmp_path, command, environment) as processes:
        other = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
        assert other.returncode != 0
        assert "another build is running in _build: wait for its end, or stop it.\n" in other.stderr
        os.killpg(processes[0].pid, signal.SIGINT)
        assert ended({one.pid for one in processes})
    said = (tmp_path / "log").read_text("utf-8")
    assert f"== the build was interrupted\n{STAYS}" in said and "Traceback" not in said
    assert index.read_text("utf-8") == OLD
    (tmp_path / "book" / "a.md").write_text("# Page\n\nText.\n", "utf-8")
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert OLD not in index.read_text("utf-8") and sorted(os.listdir(tmp_path / "_build")) == [".lock", "html"]


# -- kernels


def test_no_time_is_too_long_for_a_cell_or_a_kernel(monkeypatch):
    """What nbclient makes of the settings: None is no limit, and what it waits for a kernel outlasts everybody."""
    monkeypatch.setattr(NotebookClient, "__init__", NotebookClient.__init__)  # put back at the end
    book_kernels.set_client_options()
    limit = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["execute"]["timeout"]
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=limit)
    assert client._get_timeout(nbformat.v4.new_code_cell("1")) is None
    years = 365 * 24 * 3600
    assert client.startup_timeout > 10 * years and client.iopub_timeout > 10 * years
