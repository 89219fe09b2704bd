"""Many jobs on several processes or machines: results as they come, and one sentence for a process that dies.

Any executor with the interface of concurrent.futures can run them. The workers of this machine are each a new Python in a
session of its own, so that only the process that hands out the jobs sees a Ctrl-C. None outlives it, even where it is killed:
they watch it.
"""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from .arguments import whole
from .errors import TramplabError
from .starting import few_collections
from .workers import MAX_PROCESSES

Job = TypeVar("Job")
Result = TypeVar("Result")
PATIENCE = 5  # seconds for workers to end when nobody wants more of them
LOOKS = 1.0  # seconds between two checks of a waiter that there is still something to wait for


class Pool(Protocol):
    """Takes jobs as any executor of concurrent.futures does."""

    def submit(self, fn: Callable[[Job], Result], job: Job, /) -> Future[Result]:
        """A job that begins when there is room."""
        ...


def through(
    pool: Pool, work: Callable[[Job], Result], jobs: Iterable[Job], look: Callable[[], None] | None = None
) -> Iterator[tuple[Job, Result]]:
    """Each job with work(job), as they are finished, through any executor; all are handed out now. look: called when nothing was
    finished for a while; may raise to end it."""
    return _finished({pool.submit(work, job): job for job in jobs}, look)


@contextlib.contextmanager
def shared(
    work: Callable[[Job], Result], jobs: Sequence[Job], where: int | str, remedy: str
) -> Iterator[Iterator[tuple[Job, Result]]]:
    """For a `with`: each job with work(job), as they are finished; they are begun in this order, by up to so many processes, or by
    the workers of the Dask scheduler that has this address.

    work is a function of a module. What it raises is raised here; for a worker that dies, and where none can be started, that
    is a TramplabError, which says what to do by `remedy`. On a cluster a job whose worker dies is done again by another one.
    At the end of the `with` workers end after the job they are at, and one of this machine that takes long is killed.
    """
    if isinstance(where, str):
        from . import cluster  # distributed may not be installed

        with cluster.connected(where, remedy) as pool:
            yield _on_cluster(pool.lost, through(pool, work, jobs, pool.look))
    else:
        with _on_processes(work, jobs, whole(where, "where", 1, MAX_PROCESSES), remedy) as results:
            yield results


def _finished(found: dict[Future[Result], Job], look: Callable[[], None] | None) -> Iterator[tuple[Job, Result]]:
    waiting = set(found)
    while waiting:
        done, waiting = wait(waiting, LOOKS if look else None, FIRST_COMPLETED)
        for future in done:
            yield found[future], future.result()
        if look and not done:
            look()


def _on_cluster(lost: Callable[[], TramplabError], results: Iterator[tuple[Job, Result]]) -> Iterator[tuple[Job, Result]]:
    try:
        yield from results
    except CancelledError:  # by nobody here
        raise lost() from None


@contextlib.contextmanager
def _on_processes(
    work: Callable[[Job], Result], jobs: Sequence[Job], processes: int, remedy: str
) -> Iterator[Iterator[tuple[Job, Result]]]:
    with _from_here(remedy):  # which starts a process already, to look after what they share
        workers = _Workers(processes)
        pool = ProcessPoolExecutor(processes, workers, _begin, (workers.at, workers.over))
    try:
        with _from_here(remedy):
            results = through(pool, partial(_do, work), list(enumerate(jobs)))
        yield _without_numbers(results, pool, workers, jobs, remedy)
    finally:
        workers.over.value = True
        late = threading.Timer(PATIENCE, workers.kill)
        late.start()
        pool.shutdown(cancel_futures=True)
        late.cancel()


def _without_numbers(
    results: Iterator[tuple[tuple[int, Job], Result]],
    pool: ProcessPoolExecutor,
    workers: _Workers,
    jobs: Sequence[Job],
    remedy: str,
) -> Iterator[tuple[Job, Result]]:
    try:
        for (_, job), result in results:
            yield job, result
    except BrokenProcessPool:
        pool.shutdown()  # the others have been ended, too
        n, how = workers.died()
        place = f"at {jobs[n]}" if n >= 0 else "before its first job"
        raise TramplabError(f"a worker process ended {how} {place}; {remedy}.") from None
    except TramplabError as e:
        raise e from None  # without the worker's traceback


class _Workers(SpawnContext):
    """The processes, and the job that each is doing."""

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
def _from_here(remedy: str) -> Iterator[None]:
    """Start processes that import nothing from the folder they are started in, and never see a Ctrl-C; one that comes in the
    meantime is for later. Raises TramplabError where that is not possible."""
    safe = os.environ.get("PYTHONSAFEPATH")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    except OSError as e:
        raise TramplabError(f"no worker process can be started ({e.strerror}); {remedy}.") from None
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
    few_collections()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _mine.update(at=at, over=over, place=int(multiprocessing.current_process().name))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        multiprocessing.connection.wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _do(work: Callable[[Job], Any], numbered: tuple[int, Job]) -> Any:
    if _mine["over"].value:  # nobody wants what was handed out already
        return None
    _mine["at"][_mine["place"]], job = numbered
    return work(job)
