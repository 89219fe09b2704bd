"""Jobs on the workers of a Dask cluster: what they do, what goes wrong in one, and which sources it may have."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.clusters import cluster
from support.tasks import alone, double, fail, own_id, refuse
from tramplab import TramplabError, jobs

REMEDY = "try again"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A scheduler that gives a job up at the first worker that it ends, and its two workers."""
    with cluster(tmp_path_factory.mktemp("dask"), DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as made:
        yield made


def done(where, work, items) -> dict:
    with jobs.shared(work, items, where, REMEDY) as results:
        return dict(results)


def complaint(where, work=double, items=(1, 2)) -> str:
    with pytest.raises(TramplabError) as e:
        done(where, work, items)
    assert e.value.__cause__ is None and e.value.__suppress_context__
    assert str(e.value).endswith(".") and "\n" not in str(e.value)
    return str(e.value)


def test_any_executor_will_do():
    with ThreadPoolExecutor(3) as pool:
        assert sorted(jobs.through(pool, double, range(20))) == [(n, 2 * n) for n in range(20)]


def test_every_job_is_done_once(two):
    assert done(two.address, double, range(40)) == {n: 2 * n for n in range(40)}
    assert done(two.address, double, []) == {}


def test_all_workers_take_part_and_each_does_one_job_at_a_time(two):
    """Though each of them has two threads: kernels are kept per process."""
    assert set(done(two.address, own_id, range(6)).values()) == {w.pid for w in two.workers}
    assert set(done(two.address, alone, range(12)).values()) == {0}


def test_what_a_worker_raises(two):
    """A sentence is a sentence, without the worker's traceback; a mistake in the work stays one."""
    assert complaint(two.address, refuse, [1]) == "unknown number '1'. Known: 2."
    with pytest.raises(ZeroDivisionError):
        done(two.address, fail, [1])
