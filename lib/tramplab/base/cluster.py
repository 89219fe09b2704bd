"""Jobs for the workers of a Dask cluster: who they are, that they have the same sources, and one sentence for what goes wrong.

A job is sent as bytes that only a worker unpickles, so the scheduler needs no tramplab. A worker does it if its sources are those
of the client that sent it, and one job at a time however many threads it has, as kernels are kept per process. A job whose worker
dies is given to another one; one at which several die is an error, after as many as the scheduler allows (its `allowed-failures`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from . import state
from .errors import TramplabError
from .paths import checkout
from .revision import revision

Job = TypeVar("Job")
Result = TypeVar("Result")
CONNECT = 5  # seconds for a scheduler to answer
PATIENCE = 60  # seconds to wait for a worker where there is none
_NAME = "tramplab"


class Cluster:
    """The workers of a scheduler, as an executor of concurrent.futures takes jobs."""

    def __init__(self, client: Any, address: str, remedy: str) -> None:
        self._client, self._address, self._remedy = client, address, remedy
        self._pool, self._comm = client.get_executor(pure=False), client.scheduler_comm
        self._sources = state.everything(), _revision()
        self._sent: dict[str, object] = {}
        self._empty: float | None = None

    def submit(self, work: Callable[[Job], Result], job: Job, /) -> Any:
        """A job that begins when a worker has room."""
        key = f"{_NAME}-{uuid.uuid4().hex}"
        self._sent[key] = job
        return self._pool.submit(pickle.loads, pickle.dumps(_Sent(self._sources, work, job)), key=key)

    def look(self) -> None:
        """Raises TramplabError where the scheduler is gone, or there has been no worker for a long time."""
        if self._client.status != "running" or self._client.scheduler_comm is not self._comm:  # another one knows no jobs
            raise self.lost()
        if self._client.scheduler_info(n_workers=1)["workers"]:
            self._empty = None
        elif self._empty is None:
            self._empty = time.monotonic()
        elif time.monotonic() - self._empty > PATIENCE:
            raise TramplabError(
                f"the scheduler at {self._address} has had no worker for {PATIENCE} s: start some with "
                f"`dask worker --host 127.0.0.1 {self._address}`, on another machine by its own address, which only the cluster is "
                f"to reach; {self._remedy}."
            )

    def lost(self) -> TramplabError:
        """What to say where the scheduler is not there any more."""
        return TramplabError(f"the scheduler at {self._address} went away; {self._remedy}.")

    def killed(self, key: object) -> TramplabError:
        """What to say of a job at which too many workers died."""
        return TramplabError(f"every worker that began {self._sent[str(key)]} died at it; {self._remedy}.")

    def end(self) -> None:
        """Nobody wants more results."""
        self._pool.shutdown(wait=False)


@contextlib.contextmanager
def connected(address: str, remedy: str) -> Iterator[Cluster]:
    """For a `with`: the workers of a scheduler; what goes wrong in it and has to do with them is a TramplabError, which says what
    to do by `remedy`."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise TramplabError(
            "--scheduler needs the Python package distributed: install it here and on the workers, as with "
            "`pip install -e 'lib[cluster]'`."
        ) from None
    with _quiet():
        with _patient(address):
            _apart(lambda: asyncio.run(asyncio.wait_for(_answers(address), CONNECT)))
            client = Client(address, timeout=CONNECT, set_as_default=False)
        with client:
            cluster = Cluster(client, address, remedy)
            try:
                yield cluster
            except KilledWorker as e:
                raise cluster.killed(e.task) from None
            except TramplabError as e:
                raise e from None  # without the worker's traceback
            except (ImportError, AttributeError) as e:  # of a worker that cannot even unpickle a job
                if _NAME not in str(e):
                    raise
                raise TramplabError(
                    f"a worker of {address} has no tramplab, or another one ({e}): install the same commit on all of them."
                ) from None
            finally:
                cluster.end()


def _apart(ask: Callable[[], None]) -> None:
    """Do it in a thread of its own, as a notebook's has an event loop already; raises what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ask()
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


async def _answers(address: str) -> None:
    """Raise what the connection raises where no scheduler answers; a client would wait for ever on a silent peer."""
    from distributed.comm import connect
    from distributed.core import send_recv
    from distributed.security import Security

    comm = await connect(address, timeout=CONNECT, **Security().get_connection_args("client"))
    try:
        if (await send_recv(comm, op="identity"))["type"] != "Scheduler":
            raise ValueError(address)
    finally:
        comm.abort()


@contextlib.contextmanager
def _patient(address: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # there are many ways of not being one
        raise TramplabError(f"no Dask scheduler answers at {address!r}: give the address that `dask scheduler` prints.") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Turn what distributed writes to standard error into one sentence, or drop it."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "distributed.gc", "tornado.application")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _revision() -> str:
    here = revision(checkout())
    return (here.commit or "an unknown commit") + ", changed" * here.dirty


class _Sent:
    """The form in which a job is sent: to unpickle it is to do it."""

    def __init__(self, sources: tuple[str, str], work: Callable[[Any], Any], job: object) -> None:
        self._sources, self._job = sources, pickle.dumps((work, job))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _do, (self._sources, self._job)


# --- In a worker

_one_at_a_time = threading.Lock()


@functools.cache
def _at_first() -> str:
    """The state of the sources when this process did its first job: those of its modules."""
    return state.everything()


def _do(sources: tuple[str, str], sent: bytes) -> Any:
    with _one_at_a_time:
        theirs, commit = sources
        if _at_first() != theirs:
            raise TramplabError(
                f"the worker {_address()} has other sources ({_at_first()} at {_revision()}) than this process ({theirs} at "
                f"{commit}): check out the same commit on both, and restart the worker."
            )
        if state.everything() != theirs:
            raise TramplabError(f"the sources of the worker {_address()} were changed after it began: restart it.")
        work, job = pickle.loads(sent)
        return work(job)


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
