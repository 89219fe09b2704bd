"""Jobs on the workers of a Dask cluster: the same results, what goes wrong in a worker, and which sources it may have."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import ROOT
from support.base.clusters import cluster
from support.base.grids import SMALL
from support.base.tasks import alone, die, double, fail, own_id, refuse, wait_to_be_killed
from support.base.without_workers import without_workers
from tramplab import TramplabError, cli
from tramplab.base.processes import cluster as dask
from tramplab.base.processes import jobs
from tramplab.base.processes.progress import Progress

REMEDY = "try again"
AT_LEAST = 4  # results that are there when a worker is killed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cluster that gives up a job at the second worker that dies at it."""
    with cluster(tmp_path_factory.mktemp("dask"), DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1") as found:
        yield found


@pytest.fixture
def two(made):
    """The same with two workers, whatever became of those it had."""
    made.whole(2)
    return made


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    """A cluster without workers."""
    with cluster(tmp_path_factory.mktemp("idle"), 0) as found:
        yield found


@pytest.fixture
def none(idle):
    """A cluster that has no worker yet."""
    yield idle
    idle.without()


def done(where, work, items) -> dict:
    with jobs.shared(work, items, where, REMEDY) as results:
        return dict(results)


def complaint(where, work=double, items=(1, 2)) -> str:
    with pytest.raises(TramplabError) as e:
        done(where, work, items)
    assert str(e.value).endswith(".") and "\n" not in str(e.value)
    return str(e.value)


# --- What comes of it


def test_any_executor_will_do():
    with ThreadPoolExecutor(3) as pool:
        assert sorted(jobs.through(pool, double, range(20))) == [(n, 2 * n) for n in range(20)]


def test_every_job_is_done_once(two):
    assert done(two.address, double, range(20)) == {n: 2 * n for n in range(20)}
    assert done(two.address, double, []) == {}


def test_all_workers_take_part_and_each_does_one_job_at_a_time(two):
    """Though each of them has two threads: kernels are kept per process."""
    assert set(done(two.address, own_id, range(8)).values()) == {w.pid for w in two.workers}
    assert set(done(two.address, alone, range(12)).values()) == {0}


def killing(monkeypatch, worker: subprocess.Popen) -> list[int]:
    """From now on a worker is killed when some results are there; returns a list, which then has its exit status."""
    ended: list[int] = []
    add, count = Progress.add, []

    def kill(self, number):
        add(self, number)
        count.append(number)
        if len(count) == AT_LEAST:
            worker.send_signal(signal.SIGKILL)
            ended.append(worker.wait())

    monkeypatch.setattr(Progress, "add", kill)
    return ended


@pytest.mark.parametrize("command", [["explore", "riscv64-trap", "--all", "--json"], ["grid", *SMALL]], ids=lambda c: c[0])
def test_the_same_bytes_though_a_worker_is_killed(two, monkeypatch, capsys, tmp_path, command):
    """On the way, with jobs given to it: what this process gives, and with it others of this machine, on standard output and in a
    file."""
    out = "--save" if command[0] == "explore" else "--out"
    without_workers(monkeypatch)
    found = []
    for where in ([], ["--scheduler", two.address]):
        ended = killing(monkeypatch, two.workers[0]) if where else None
        file = tmp_path / f"file{len(found)}"
        assert cli.main([*command, *where, out, str(file)]) == 0
        found.append((capsys.readouterr().out, file.read_bytes()))
    assert found[0] == found[1] and len(found[0][1]) > 5000 and ended == [-signal.SIGKILL]


# --- What goes wrong


def test_what_a_worker_raises(two):
    """A sentence is a sentence; a mistake in the work stays one."""
    assert complaint(two.address, refuse, [1]) == "unknown number '1'. Known: 2."
    with pytest.raises(ZeroDivisionError):
        done(two.address, fail, [1])


def test_what_a_lost_worker_was_at_is_done_again(two, tmp_path):
    name = str(tmp_path / "worker")
    with jobs.shared(wait_to_be_killed, [name], two.address, REMEDY) as results:
        patience = time.monotonic() + 120
        while not os.path.exists(name) and time.monotonic() < patience:
            time.sleep(0.01)
        killed = int(Path(name).read_text("utf-8"))
        next(w for w in two.workers if w.pid == killed).send_signal(signal.SIGKILL)
        ((_, by),) = results
    assert by != killed and by in {w.pid for w in two.workers}


def test_a_job_that_ends_every_worker_is_a_sentence(two):
    said = complaint(two.address, die, range(4))
    assert re.fullmatch(rf"every worker of {two.address} that began a job died at it \(_do-\S+\); try again\.", said)
    assert [w.wait() for w in two.workers] == [7, 7]


def test_a_scheduler_that_goes_away_is_a_sentence(tmp_path):
    with cluster(tmp_path / "dask", 0) as gone:
        with pytest.raises(TramplabError) as e, jobs.shared(double, [1, 2], gone.address, REMEDY) as results:
            gone.scheduler.send_signal(signal.SIGKILL)
            list(results)
        assert str(e.value) == f"the scheduler at {gone.address} went away; try again."


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "foo://127.0.0.1:1", "tls://127.0.0.1:1", "a b"])
def test_what_is_no_address_is_a_sentence(monkeypatch, address):
    monkeypatch.setattr(dask, "CONNECT", 0.5)
    assert complaint(address).startswith(f"no Dask scheduler answers at '{address}': ")


def test_without_distributed_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install -e 'lib[cluster]'" in complaint("127.0.0.1:1")


def test_nobody_else_imports_distributed():
    """The package does without it, and without the time that it takes."""
    program = "import sys, tramplab.cli; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0


# --- Whose sources


def test_a_worker_with_other_sources_does_nothing(none, tmp_path):
    """Those that it had at its first job, whatever has become of them since."""
    shutil.copytree(ROOT / "data", tmp_path / "data")
    with open(tmp_path / "data" / "releases.yml", "a", encoding="utf-8") as f:
        f.write("# changed\n")
    none.add(TRAMPLAB_DATA=str(tmp_path / "data"))
    assert complaint(none.address).startswith("a worker has other sources: check out the same commit")
    shutil.copy(ROOT / "data" / "releases.yml", tmp_path / "data")
    assert complaint(none.address).startswith("a worker has other sources: check out the same commit")
