"""Many jobs without a worker, for tests of what becomes of results and not of where they come from: a worker takes a third of a
second to start."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from tramplab.base.processes import jobs


@contextlib.contextmanager
def _here(work: Callable, items: Sequence, processes: int, remedy: str) -> Iterator[Iterator[tuple]]:
    """One after the other, in their order."""
    yield ((item, work(item)) for item in items)


def without_workers(patch: pytest.MonkeyPatch) -> None:
    """Have this process do, from now on, what jobs.shared() would have workers of this machine do."""
    patch.setattr(jobs, "_on_processes", _here)
