"""Jobs on the workers of a Dask cluster: the same results, and which sources the workers may have."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.base.clusters import cluster
from support.base.data import copied
from support.base.grids import SMALL
from support.base.tasks import alone, double
from support.base.without_workers import without_workers
from support.complaints import complaint
from tramplab import cli
from tramplab.base.processes import cluster as dask
from tramplab.base.processes import jobs


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The address of a cluster with two workers."""
    with cluster(tmp_path_factory.mktemp("dask"), 2) as address:
        yield address


def done(where, work, items) -> dict:
    with jobs.shared(work, items, where, "try again") as results:
        return dict(results)


def test_any_executor_will_do():
    with ThreadPoolExecutor(3) as pool:
        assert sorted(jobs.through(pool, double, range(20))) == [(n, 2 * n) for n in range(20)]


def test_every_job_is_done_once_and_one_at_a_time(two):
    """Though each worker has two threads: kernels are kept per process."""
    assert done(two, double, range(20)) == {n: 2 * n for n in range(20)}
    assert set(done(two, alone, range(12)).values()) == {0}


@pytest.mark.parametrize("command", [["explore", "riscv64-trap", "--all", "--json"], ["grid", *SMALL]], ids=lambda c: c[0])
def test_the_same_bytes_come_of_it(two, monkeypatch, capsys, tmp_path, command):
    """As from this machine's processes, on standard output and in a file."""
    out = "--save" if command[0] == "explore" else "--out"
    without_workers(monkeypatch)
    found = []
    for where in ([], ["--scheduler", two]):
        file = tmp_path / f"file{len(found)}"
        assert cli.main([*command, *where, out, str(file)]) == 0
        found.append((capsys.readouterr().out, file.read_bytes()))
    assert found[0] == found[1] and len(found[0][1]) > 5000


def test_a_worker_with_other_sources_does_nothing(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, open(copied(tmp_path, patch) / "releases.yml", "a", encoding="utf-8") as f:
        f.write("# changed\n")
    with cluster(tmp_path / "dask", 1, TRAMPLAB_DATA=str(tmp_path / "data")) as other:
        said = complaint(lambda: done(other, double, (1, 2)))
    assert said.startswith("a worker has other sources: check out the same commit")


def test_what_is_no_address_is_a_sentence(monkeypatch):
    monkeypatch.setattr(dask, "CONNECT", 0.5)
    for address in ("nonsense", "tls://127.0.0.1:1"):
        said = complaint(lambda address=address: done(address, double, (1, 2)))
        assert said.startswith(f"no Dask scheduler answers at '{address}': ")


def test_without_distributed_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install -e 'lib[cluster]'" in complaint(lambda: done("127.0.0.1:1", double, (1, 2)))


def test_nobody_else_imports_distributed():
    """The package does without it, and without the time that it takes."""
    program = "import sys, tramplab.cli; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
