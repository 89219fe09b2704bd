"""Worker processes that share out units. Each has its own kernels; none outlives the pool or the process that made it."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ..errors import TramplabError
from .cells import Unit
from .rows import Answer

_COMMAND = (sys.executable, "-P", "-m", f"{__package__}.worker")
_PATIENCE = 5


class Pool:
    """Up to `processes` workers, for a `with`. They are no part of the terminal's group: only this process sees a Ctrl-C."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._workers: list[subprocess.Popen] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_) -> None:
        """Workers end by themselves when their pipes are closed, after the unit they are at; a slow one is killed.

        None is ended by a signal that it handles: Python may run the handler inside a finalizer, where it cannot end anything.
        """
        for w in self._workers:
            for pipe in (w.stdin, w.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        for w in self._workers:
            try:
                w.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                _kill(w)
                w.wait()

    @property
    def pids(self) -> set[int]:
        """The processes that were started."""
        return {w.pid for w in self._workers}

    def answers(self, units: list[Unit]) -> Iterator[tuple[Unit, list[str], Answer]]:
        """Each unit with its columns and rows, as they are finished. Raises TramplabError for what a worker cannot do, and
        for a worker that dies."""
        todo = collections.deque(sorted(units, key=lambda u: -len(u.callbacks)))  # the long ones first
        busy: dict[subprocess.Popen, Unit] = {}
        with selectors.DefaultSelector() as ready:
            for _ in range(min(self._processes, len(units))):
                worker = self._start()
                ready.register(worker.stdout, selectors.EVENT_READ, worker)
                busy[worker] = _ask(worker, todo.popleft())
            while busy:
                for key, _ in ready.select():
                    worker, unit = key.data, busy.pop(key.data)
                    line = worker.stdout.readline()
                    if not line.endswith("\n"):
                        raise _died(worker, unit)
                    if todo:
                        busy[worker] = _ask(worker, todo.popleft())
                    else:
                        ready.unregister(worker.stdout)
                    said = json.loads(line)
                    if "error" in said:
                        raise TramplabError(said["error"])
                    yield unit, said["columns"], Answer(tuple(map(tuple, said["rows"])), said["refused"])

    def _start(self) -> subprocess.Popen:
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        try:
            worker = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        except OSError as e:
            raise TramplabError(f"no worker process can be started ({e.strerror}); try fewer --processes.") from None
        self._workers.append(worker)
        return worker


def _ask(worker: subprocess.Popen, unit: Unit) -> Unit:
    try:
        worker.stdin.write(json.dumps(asdict(unit)) + "\n")
        worker.stdin.flush()
    except BrokenPipeError:
        raise _died(worker, unit) from None
    return unit


def _died(worker: subprocess.Popen, unit: Unit) -> TramplabError:
    code = worker.wait()
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return TramplabError(
        f"a worker process ended {how} at {unit}; what was finished is kept, so run the same command again, with fewer "
        "--processes if memory is short."
    )


def _kill(worker: subprocess.Popen) -> None:
    """It and what it started, such as a compiler."""
    if worker.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
