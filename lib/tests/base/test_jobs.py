"""Jobs on several processes: their order, what goes wrong in a worker, and that no worker stays behind."""

import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.base.children import children, ended, running, with_processes
from support.base.tasks import begun, die, double, fail, refuse, sleep
from tramplab import TramplabError
from tramplab.base.processes import jobs

REMEDY = "try again"


def done(work, items, processes: int = 2) -> dict:
    with jobs.shared(work, items, processes, REMEDY) as results:
        return dict(results)


@pytest.mark.parametrize("processes", [1, 3])
def test_every_job_is_done_once(processes):
    with jobs.shared(double, range(20), processes, REMEDY) as results:
        assert sorted(results) == [(n, 2 * n) for n in range(20)]


def test_no_jobs_need_no_worker():
    before = set(multiprocessing.active_children())
    with jobs.shared(double, [], 2, REMEDY) as results:
        assert list(results) == [] and set(multiprocessing.active_children()) == before


def test_jobs_are_begun_in_their_order():
    when = done(begun, [5, 3, 9, 1, 7], 1)
    assert sorted(when, key=when.get) == [5, 3, 9, 1, 7]


def test_what_a_worker_raises():
    """A sentence is a sentence; a mistake in the work has the worker's traceback, too."""
    with pytest.raises(TramplabError, match=r"^unknown number '1'\. Known: 2\.$"):
        done(refuse, [1])
    with pytest.raises(ZeroDivisionError) as e:
        done(fail, [1])
    assert "in fail" in str(e.value.__cause__)


@pytest.mark.parametrize("processes", [1, 3])
def test_a_worker_that_dies_is_a_sentence(processes):
    with pytest.raises(TramplabError) as e:
        done(die, range(9), processes)
    assert str(e.value) == "a worker process died; try again."


def test_a_worker_that_cannot_be_started_is_a_sentence(monkeypatch):
    def refuse(*_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "_Popen", refuse)
    with pytest.raises(TramplabError) as e:
        done(double, range(9))
    assert str(e.value) == "no worker process can be started (Resource temporarily unavailable); try again."


@with_processes
def test_workers_end_at_once_when_nobody_waits():
    """Whatever they are at, and what they were given already is not begun."""
    with jobs.shared(sleep, [0, 0.1, 60, 61, 62], 2, REMEDY) as results:
        workers = {next(results)[1], next(results)[1]}
        assert workers <= running()
        begin = time.monotonic()
    assert time.monotonic() - begin < 30 and ended(workers)


@with_processes
def test_workers_end_with_the_process_that_made_them():
    """Even if that one has no time to say so, and they are at work."""
    program = (
        "import sys, time\n"
        f"sys.path[:0] = [{str(Path(__file__).parents[1])!r}]\n"
        "from support.base import tasks\n"
        "from tramplab.base.processes import jobs\n"
        "with jobs.shared(tasks.sleep, [0.5, 0.6, 60, 61], 2, '') as results:\n"
        "    print(*(next(results)[1] for _ in range(2)), flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, encoding="utf-8")
    workers = set(map(int, process.stdout.readline().split()))
    assert workers == children(process.pid)[0] and len(workers) == 2 and workers <= running()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert ended(workers)


@with_processes
def test_workers_see_no_ctrl_c():
    """Not even while they start: the signal is blocked in them, and for this process it waits."""
    with jobs.shared(sleep, [0], 1, REMEDY) as results:
        ((_, worker),) = results
        with open(f"/proc/{worker}/status", encoding="utf-8") as f:
            blocked = next(line for line in f if line.startswith("SigBlk:"))
    assert int(blocked.split()[1], 16) & 1 << signal.SIGINT - 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
