"""Jobs for the workers of a Dask cluster, which do them if their sources are those of the client.

A worker does one at a time however many threads it has, as kernels are kept per process.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .. import state
from ..errors import TramplabError

Job = TypeVar("Job")
Result = TypeVar("Result")
CONNECT = 5  # seconds for a scheduler to answer


@contextlib.contextmanager
def connected(address: str, remedy: str) -> Iterator[Any]:
    """For a `with`: the workers of a scheduler, as an executor of concurrent.futures. Raises TramplabError, which says what to do
    by `remedy`, where none answers, and for a job at which as many workers die as the scheduler allows (`allowed-failures`)."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise TramplabError(
            "--scheduler needs the Python package distributed: install it here and on the workers, as with "
            "`pip install -e 'lib[cluster]'`."
        ) from None
    client = None
    with contextlib.suppress(Exception):  # there are many ways of not being one
        client = Client(address, timeout=CONNECT, set_as_default=False)
    if client is None:
        gc.collect()  # what was begun of a client ends itself now; later it may do so while another one holds the same lock
        raise TramplabError(f"no Dask scheduler answers at {address!r}: give the address that `dask scheduler` prints.")
    with client:
        pool = client.get_executor(pure=False)
        try:
            yield pool
        except KilledWorker as e:
            raise TramplabError(f"every worker of {address} that began a job died at it ({e.task}); {remedy}.") from None
        finally:
            pool.shutdown(wait=False)


def with_same_sources(work: Callable[[Job], Result]) -> Callable[[Job], Result]:
    """The work for a worker, which raises TramplabError if the worker has other sources than this process."""
    return functools.partial(_do, state.everything(), work)


# --- In a worker

_one_at_a_time = threading.Lock()
#: The state of the sources when this process did its first job: those of its modules.
_at_first = functools.cache(state.everything)


def _do(sources: str, work: Callable[[Any], Any], job: object) -> Any:
    with _one_at_a_time:
        if _at_first() != sources:
            raise TramplabError("a worker has other sources: check out the same commit on all machines, and restart the workers.")
        return work(job)
