"""Many jobs on several processes or machines: results as they come, and one sentence for a process that dies.

Any executor with the interface of concurrent.futures can run them. The workers of this machine are each a new Python that sees no
Ctrl-C. They end where nobody wants more of them, whatever they are at, and with the process that made them, even if it is killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import TypeVar

from ..arguments import whole
from ..errors import TramplabError
from .options import MAX_PROCESSES

Job = TypeVar("Job")
Result = TypeVar("Result")


def through(pool: Executor, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
    """Each job with work(job), as they are finished, through any executor; all are handed out now."""
    handed_out = {pool.submit(work, job): job for job in jobs}
    return ((handed_out[future], future.result()) for future in as_completed(handed_out))


@contextlib.contextmanager
def shared(
    work: Callable[[Job], Result], jobs: Sequence[Job], where: int | str, remedy: str
) -> Iterator[Iterator[tuple[Job, Result]]]:
    """For a `with`: each job with work(job), as they are finished; they are begun in this order, by up to so many processes, or by
    the workers of the Dask scheduler that has this address.

    work is a function of a module. What it raises is raised here; for a worker that dies, and where none can be started, that
    is a TramplabError, which says what to do by `remedy`. On a cluster a job whose worker dies is done again by another one.
    """
    if isinstance(where, str):
        from . import cluster  # distributed may not be installed

        with cluster.connected(where, remedy) as pool:
            try:
                yield through(pool, cluster.with_same_sources(work), jobs)
            except CancelledError:  # by nobody here
                raise TramplabError(f"the scheduler at {where} went away; {remedy}.") from None
    else:
        with _on_processes(work, jobs, whole(where, "where", 1, MAX_PROCESSES), remedy) as results:
            yield results


@contextlib.contextmanager
def _on_processes(
    work: Callable[[Job], Result], jobs: Sequence[Job], most: int, remedy: str
) -> Iterator[Iterator[tuple[Job, Result]]]:
    new = multiprocessing.get_context("spawn")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # workers inherit it; one that comes now is for later
    try:
        watched, wanted = new.Pipe(duplex=False)
        pool = ProcessPoolExecutor(most, new, _begin, (watched,))
        results = through(pool, work, jobs)
    except OSError as e:
        raise TramplabError(f"no worker process can be started ({e.strerror}); {remedy}.") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        yield results
    except BrokenProcessPool:
        raise TramplabError(f"a worker process died; {remedy}.") from None
    finally:
        watched.close()
        wanted.close()
        pool.shutdown(cancel_futures=True)


def _begin(watched: Connection) -> None:
    """End this worker when `watched` ends: when the process that made it, which has the other end, closes it or is gone."""
    threading.Thread(target=_end_after, args=[watched], daemon=True).start()


def _end_after(watched: Connection) -> None:
    watched.poll(None)
    os._exit(1)
