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


class Cluster:
    """What runs, by Python's objects for it."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder = folder
        path = f"{ROOT / 'lib' / 'tests'}{os.pathsep}{ROOT / 'lib'}"  # workers import what is in support/
        self._environment = {**os.environ, "TRAMPLAB_CACHE": str(cache.folder()), "PYTHONPATH": path, **settings}
        self.scheduler = self._start(*_SCHEDULER, "--scheduler-file", str(folder / "scheduler.json"))
        self.address = self._told()
        self.workers: list[subprocess.Popen] = []
        self._places = 0

    def add(self, **settings: str) -> None:
        """One more worker; it is there when it is there. settings: variables of its environment."""
        self._places += 1
        place = str(self._folder / f"worker-{self._places}")
        self.workers.append(self._start(*_WORKER, "--local-directory", place, self.address, **settings))

    def whole(self, workers: int) -> None:
        """Start as many as are missing of so many, and wait until all are there."""
        self.workers = [w for w in self.workers if w.poll() is None]
        missing = range(workers - len(self.workers))
        for _ in missing:
            self.add()
        if missing:
            with Client(self.address, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=120)

    def without(self) -> None:
        """End all workers, and wait until the scheduler knows."""
        for worker in self.workers:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        if self.workers:
            self.workers = []
            patience = time.monotonic() + 120
            with Client(self.address, set_as_default=False) as client:
                while client.scheduler_info(n_workers=1)["workers"] and time.monotonic() < patience:
                    time.sleep(0.02)

    def _start(self, *arguments: str, **settings: str) -> subprocess.Popen:
        with open(self._folder / "said", "a", encoding="utf-8") as said:
            command = [sys.executable, "-m", "dask", *arguments]
            return subprocess.Popen(command, stdout=said, stderr=said, env={**self._environment, **settings}, cwd=self._folder)

    def _told(self) -> str:
        """The address that the scheduler writes down, in two minutes at the latest."""
        patience = time.monotonic() + 120
        while time.monotonic() < patience and self.scheduler.poll() is None:
            with contextlib.suppress(OSError, json.JSONDecodeError):
                return json.loads((self._folder / "scheduler.json").read_text("utf-8"))["address"]
            time.sleep(0.02)
        raise AssertionError((self._folder / "said").read_text("utf-8"))


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2, **settings: str) -> Iterator[Cluster]:
    """For a `with`: a scheduler and so many workers, whose files are in a folder; settings: variables of their environment."""
    folder.mkdir(exist_ok=True)
    made = Cluster(folder, settings)
    try:
        made.whole(workers)
        yield made
    finally:
        for process in (*made.workers, made.scheduler):
            process.send_signal(signal.SIGKILL)
        for process in (*made.workers, made.scheduler):
            process.wait()
