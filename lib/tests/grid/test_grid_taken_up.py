"""A grid that is interrupted or loses a worker: what is finished is kept, and for which sources."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.base.children import children, ended, running, with_processes
from support.base.grids import SMALL, asked
from tramplab import Kernel, TramplabError
from tramplab.base import paths
from tramplab.base.processes import jobs
from tramplab.base.processes.options import remedy
from tramplab.base.processes.progress import Progress
from tramplab.ftrace.releases import LATEST
from tramplab.grid import cached, cells, command, rows
from tramplab.grid.cells import Unit


@with_processes
def test_a_ctrl_c_and_on(grid, cache, tmp_path):
    """One sentence and status 130, no file, no process left; then the same command does the rest, to the same bytes."""
    whole, target = tmp_path / "whole.csv", tmp_path / "rows.csv"
    chosen = ["--isa", "arm64", "--hook", "ops,direct+ops", "--args", "0-4"]
    assert grid(*chosen, "--out", whole)[0] == 0
    chosen += ["--processes", "2"]
    program = [sys.executable, "-m", "tramplab", "grid", *chosen, "--out", str(target)]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, encoding="utf-8")
    patience, workers = time.monotonic() + 120, set()
    while len(workers) < 2 and time.monotonic() < patience:
        workers, others = children(process.pid)
        time.sleep(0.01)
    while not list(cache.glob("grid-*/*.json")) and time.monotonic() < patience:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)  # at once: all is done half a second after the first
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and len(workers) == 2
    done = len(list(cache.glob("grid-*/*.json")))
    assert 0 < done < 10
    last = f"tramplab: interrupted; {64 * done} of 640 rows are kept, and the same command goes on from there."
    assert err.splitlines()[-1] == last and "Traceback" not in err
    assert not workers & running() and ended(others)
    assert sorted(os.listdir(tmp_path)) == ["cache", "whole.csv"]
    status, _, err = grid(*chosen, "--out", target)
    assert status == 0 and err.startswith(f"{64 * done} of 640 rows are there already\n")
    assert target.read_bytes() == whole.read_bytes()
    assert not list(cache.glob("grid-*"))


@pytest.mark.parametrize(("fault", "status"), [(KeyboardInterrupt, 130), (TramplabError("no."), 2)])
def test_what_is_finished_is_not_done_again(grid, monkeypatch, tmp_path, fault, status):
    """Stopped after five units, by the user or by a failure: seven remain, and the table is the same."""
    whole, target = tmp_path / "whole.csv", tmp_path / "rows.csv"
    assert grid(*SMALL, "--out", whole)[0] == 0
    seen, finished = asked(monkeypatch), []
    with monkeypatch.context() as m:
        add = Progress.add

        def stop(self, count):
            add(self, count)
            finished.append(count)
            if len(finished) == 5:
                raise fault

        m.setattr(Progress, "add", stop)
        assert grid(*SMALL, "--processes", "2", "--out", target)[0] == status
    assert not target.exists() and len(seen) == 12
    seen.clear()
    assert grid(*SMALL, "--out", target)[0] == 0
    assert len(seen) == 7 and target.read_bytes() == whole.read_bytes()


def test_what_was_kept_is_for_these_sources_and_this_choice(cache):
    """Another state of the sources, release or number of callbacks finds nothing."""
    unit = Unit("arm64", "ops", LATEST, 1, (1, 2))
    columns, answer = rows.answer(unit, Kernel("arm64"))
    store = cached.Cached("one")
    store.save(unit, columns, answer)
    assert cached.Cached("one").load(unit) == (columns, answer)
    assert cached.Cached("two").load(unit) is None
    for change in ({"release": "v6.4"}, {"callbacks": (1,)}, {"args": 2}, {"hook": "direct"}):
        assert store.load(dataclasses.replace(unit, **change)) is None


def test_the_state_is_that_of_the_sources(monkeypatch, tmp_path):
    """Content and name of any source count; what an editor or Python leaves beside it does not."""
    monkeypatch.setenv("TRAMPLAB_DATA", str(paths.data_file("releases.yml").parent))
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "base" / "paths.py"))
    (tmp_path / "guest" / "arm64").mkdir(parents=True)
    source = tmp_path / "guest" / "arm64" / "a.S"
    states = []
    for text in ("nop", "ret"):
        source.write_text(text, "utf-8")
        states.append(cached.state())
    source.rename(source.with_name("b.S"))
    states.append(cached.state())
    assert len(set(states)) == 3
    source.with_name(".b.S.swp").write_text("x", "utf-8")
    source.with_name("b.pyc").write_text("x", "utf-8")
    assert cached.state() == states[-1]
    (tmp_path / "releases.yml").write_text("", "utf-8")
    monkeypatch.setenv("TRAMPLAB_DATA", str(tmp_path))
    assert cached.state() != states[-1]


def test_sources_changed_meanwhile(grid, monkeypatch, tmp_path):
    states = iter(["before", "after"])
    monkeypatch.setattr(cached, "state", lambda: next(states))
    status, out, err = grid(*SMALL, "--quiet", "--out", tmp_path / "rows.csv")
    assert (status, out, err) == (
        2,
        "",
        "tramplab: the sources were changed while the grid was running; run it again.\n",
    )
    assert not (tmp_path / "rows.csv").exists()


def test_what_nobody_came_back_to_is_removed(cache):
    """Also what a wrong clock has dated in the future; a link to nothing is none of a grid's."""
    unit, now = Unit("arm64", "ops", LATEST, 1, (1,)), time.time()
    for state, days in (("old", -8), ("future", 8), ("new", 0)):
        cached.Cached(state).save(unit, ["hook"], rows.Answer((("ops",),)))
        os.utime(cache / f"grid-{state}", (now + days * 24 * 3600,) * 2)
    (cache / "grid-link").symlink_to("nothing")
    cached.Cached("now")
    assert sorted(path.name for path in cache.glob("grid-*")) == ["grid-link", "grid-new"] and cached.Cached("new").has(unit)


def test_what_cannot_be_removed_stays_and_the_table_is_delivered(tmp_path, monkeypatch):
    """From a cache that can only be read."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path))
    unit, store = Unit("arm64", "ops", LATEST, 1, (1,)), cached.Cached("now")
    store.save(unit, ["hook"], rows.Answer((("ops",),)))

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        store.forget([unit])
    assert store.has(unit)


@with_processes
def test_a_worker_that_dies_is_a_sentence(cache):
    """Killed from outside, as when memory is short: what to do."""
    died = pytest.raises(TramplabError, match=r"^a worker process died; .* same command")
    with died, jobs.shared(rows.of, cells.units(("arm64",), ("ops",)), 1, remedy(command.KEPT, 1)) as answers:
        next(answers)
        workers, _ = children(os.getpid())
        (worker,) = workers
        os.kill(worker, signal.SIGKILL)
        list(answers)
    assert not workers & running()


def test_what_a_worker_cannot_do_is_its_sentence(cache):
    unit = Unit("arm64", "opps", LATEST, 1, (1,))
    complains = pytest.raises(TramplabError, match="unknown hook 'opps'; did you mean ops")
    with jobs.shared(rows.of, [unit], 2, remedy(command.KEPT, 1)) as answers, complains:
        list(answers)
