"""Dask clusters of this machine: a scheduler and workers that are processes of their own, on the loopback interface alone."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from distributed import Client

from support import ROOT
from tramplab.base import cache

#: Neither has a page for a browser; and should nobody be left who ends them, they end.
_SCHEDULER = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
_SCHEDULER += ("--idle-timeout", "10 minutes")
_WORKER = ("worker", "--nthreads", "2", "--no-nanny", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
_WORKER += ("--host", "127.0.0.1", "--memory-limit", "0", "--death-timeout", "60")


@contextlib.contextmanager
def cluster(folder: Path, workers: int, **settings: str) -> Iterator[str]:
    """For a `with`: the address of a scheduler that has so many workers, whose files are in a folder; settings: variables of their
    environment."""
    path = f"{ROOT / 'lib' / 'tests'}{os.pathsep}{ROOT / 'lib'}"  # workers import what is in support/
    environment = {**os.environ, "TRAMPLAB_CACHE": str(cache.folder()), "PYTHONPATH": path, **settings}
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> subprocess.Popen:
            with open(folder / "said", "a", encoding="utf-8") as said:
                command = [sys.executable, "-m", "dask", *arguments]
                process = subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.send_signal, signal.SIGKILL)
            return process

        scheduler = start(*_SCHEDULER, "--scheduler-file", str(folder / "scheduler.json"))
        address = _told(folder, scheduler)
        for n in range(workers):
            start(*_WORKER, "--local-directory", str(folder / f"worker-{n}"), address)
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
        yield address


def _told(folder: Path, scheduler: subprocess.Popen) -> str:
    """The address that the scheduler writes down, in two minutes at the latest."""
    patience = time.monotonic() + 120
    while time.monotonic() < patience and scheduler.poll() is None:
        with contextlib.suppress(OSError, json.JSONDecodeError):
            return json.loads((folder / "scheduler.json").read_text("utf-8"))["address"]
        time.sleep(0.02)
    raise AssertionError((folder / "said").read_text("utf-8"))
