"""Many jobs on several processes: results as they come, and one sentence for a process that dies.

The workers are those of concurrent.futures, each a new Python in a session of its own, so that only the process that hands out
the jobs sees a Ctrl-C. None outlives it, even where it is killed: they watch it.
"""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from .errors import TramplabError

Job = TypeVar("Job")
Result = TypeVar("Result")
PATIENCE = 5  # seconds for workers to end when nobody wants more of them


@contextlib.contextmanager
def shared(
    work: Callable[[Job], Result], jobs: Sequence[Job], processes: int, remedy: str
) -> Iterator[Iterator[tuple[Job, Result]]]:
    """For a `with`: each job with work(job), as they are finished; they are begun in this order, by up to so many processes.

    work is a function of a module. What it raises is raised here; for a worker that dies, and where none can be started, that
    is a TramplabError, which says what to do by `remedy`. At the end of the `with` workers end after the job they are at, and
    one that takes long is killed.
    """
    with _from_here():  # which starts a process already, to look after what they share
        workers = _Workers(processes)
        pool = ProcessPoolExecutor(processes, workers, _begin, (workers.at, workers.over))
    try:
        with _from_here():
            try:
                found = {pool.submit(_do, work, n, job): job for n, job in enumerate(jobs)}
            except OSError as e:
                raise TramplabError(f"no worker process can be started ({e.strerror}); {remedy}.") from None
        yield _finished(found, pool, workers, jobs, remedy)
    finally:
        workers.over.value = True
        late = threading.Timer(PATIENCE, workers.kill)
        late.start()
        pool.shutdown(cancel_futures=True)
        late.cancel()


def _finished(
    found: dict[Future, Job], pool: ProcessPoolExecutor, workers: _Workers, jobs: Sequence[Job], remedy: str
) -> Iterator[tuple[Job, Result]]:
    try:
        for future in as_completed(found):
            yield found[future], future.result()
    except BrokenProcessPool:
        pool.shutdown()  # the others have been ended, too
        n, how = workers.died()
        place = f"at {jobs[n]}" if n >= 0 else "before its first job"
        raise TramplabError(f"a worker process ended {how} {place}; {remedy}.") from None
    except TramplabError as e:
        raise e from None  # without the worker's traceback


class _Workers(SpawnContext):
    """What starts the processes; it knows them all, and what each is doing."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._started: list[BaseProcess] = []
        self.at = self.RawArray("q", [-1] * most)  # the number of the job that each is at
        self.over = self.RawValue("b", False)

    def Process(self, *args: Any, **options: Any) -> BaseProcess:  # type: ignore[override]  # a class there, a function here
        """As its pool starts one; its name is its place in `at`."""
        process = super().Process(*args, **{**options, "name": str(len(self._started))})
        self._started.append(process)
        return process

    def died(self) -> tuple[int, str]:
        """The job of the one that ended by itself, -1 if it had none, and how; the pool has ended the others by SIGTERM."""
        codes = [p.exitcode or 0 for p in self._started]
        n = next((n for n, code in enumerate(codes) if code not in (0, -signal.SIGTERM)), 0)
        return self.at[n], f"by {signal.Signals(-codes[n]).name}" if codes[n] < 0 else f"with status {codes[n]}"

    def kill(self) -> None:
        """Every one, and what it started, such as a compiler."""
        for process in self._started:
            if process.is_alive() and process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()


@contextlib.contextmanager
def _from_here() -> Iterator[None]:
    """Start processes that import nothing from the folder they are started in, and never see a Ctrl-C; one that comes in the
    meantime is for later."""
    safe = os.environ.get("PYTHONSAFEPATH")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if safe is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# --- In a worker

_mine: dict[str, Any] = {}


def _begin(at: Any, over: Any) -> None:
    """Shared memory: the jobs that the workers are at, and whether nobody wants more of them."""
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _mine.update(at=at, over=over, place=int(multiprocessing.current_process().name))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        multiprocessing.connection.wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _do(work: Callable[[Job], Result], number: int, job: Job) -> Result | None:
    if _mine["over"].value:  # nobody wants what was handed out already
        return None
    _mine["at"][_mine["place"]] = number
    return work(job)
