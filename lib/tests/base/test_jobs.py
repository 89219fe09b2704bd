"""Jobs on several processes: their order, what goes wrong in a worker, and that no worker stays behind."""

import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.children import children, ended, running, with_processes
from support.tasks import begun, die, double, fail, refuse, sleep, start
from tramplab import TramplabError
from tramplab.base import jobs

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
    """A sentence is a sentence, without the worker's traceback; a mistake in the work keeps it."""
    with pytest.raises(TramplabError) as e:
        done(refuse, [1])
    assert str(e.value) == "unknown number '1'. Known: 2." and e.value.__cause__ is None and e.value.__suppress_context__
    with pytest.raises(ZeroDivisionError) as e:
        done(fail, [1])
    assert "in fail" in str(e.value.__cause__)


def test_a_worker_that_dies_is_a_sentence():
    with pytest.raises(TramplabError) as e:
        done(die, range(9), 1)
    assert str(e.value) == "a worker process ended with status 7 at 3; try again."
    with pytest.raises(TramplabError, match=r"^a worker process ended with status 7 at 3; try again\.$"):
        done(die, range(9), 3)


def test_a_worker_that_cannot_be_started_is_a_sentence(monkeypatch):
    def refuse(*_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "_Popen", refuse)
    with pytest.raises(TramplabError) as e:
        done(double, range(9))
    assert str(e.value) == "no worker process can be started (Resource temporarily unavailable); try again."


def test_nothing_to_share_memory_in_is_a_sentence(monkeypatch):
    """As without a temporary folder."""

    def refuse(*_):
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(jobs, "_Workers", refuse)
    with pytest.raises(TramplabError) as e:
        done(double, range(9))
    assert str(e.value) == "no worker process can be started (No usable temporary directory found); try again."


@with_processes
def test_a_worker_that_takes_long_is_killed_when_nobody_waits(monkeypatch, tmp_path):
    """And what it has started, such as a compiler."""
    monkeypatch.setattr(jobs, "PATIENCE", 0.2)
    told = [tmp_path / name for name in "ab"]
    with jobs.shared(start, list(map(str, told)), 2, REMEDY):
        patience = time.monotonic() + 120
        while not all(t.exists() for t in told) and time.monotonic() < patience:
            time.sleep(0.01)
        every = {int(pid) for t in told for pid in t.read_text("utf-8").split()}
        assert len(every) == 4 and every <= running()
        begin = time.monotonic()
    assert time.monotonic() - begin < 30 and ended(every)


@with_processes
def test_jobs_that_were_handed_out_are_not_begun_when_nobody_waits():
    """A worker has the next ones already; after an end they would take as long as the first."""
    with jobs.shared(sleep, [0, 2, 2.1, 2.2, 2.3], 1, REMEDY) as results:
        next(results)
        begin = time.monotonic()
    assert time.monotonic() - begin < 4


@with_processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_made_them(number):
    """Even if that one has no time to say so, and they are at work."""
    program = (
        "import sys, time\n"
        f"sys.path[:0] = [{str(Path(__file__).parents[1])!r}]\n"
        "from support import tasks\n"
        "from tramplab.base import jobs\n"
        "with jobs.shared(tasks.sleep, [0.5, 0.6, 60, 61], 2, '') as results:\n"
        "    print(*(next(results)[1] for _ in range(2)), flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, encoding="utf-8")
    workers = set(map(int, process.stdout.readline().split()))
    assert workers == children(process.pid)[0] and len(workers) == 2 and workers <= running()
    process.send_signal(number)
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


IN_A_FOLDER = """
import os, os.path
from tramplab.base import jobs
if __name__ == "__main__":
    with jobs.shared(os.path.basename, ["a/b"], 1, "try again") as results:
        print(*results, os.environ.get("PYTHONSAFEPATH"))
"""


def test_no_process_sees_the_folder_it_is_started_in(monkeypatch, tmp_path):
    """A file there with the name of a module of Python's own is not taken for it, by the workers or by what looks after them."""
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "run.py").write_text(IN_A_FOLDER, "utf-8")
    for name in ("selectors", "json", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')", "utf-8")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    command = [sys.executable, tmp_path / "script" / "run.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("('a/b', 'b') None\n", "", 0)
