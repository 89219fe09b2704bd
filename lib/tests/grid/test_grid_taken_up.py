"""A grid that is interrupted or loses a worker: what is finished is kept, and for which sources."""

import dataclasses
import functools
import os
import time

from support.base.grids import SMALL, asked
from tramplab import Kernel
from tramplab.base import paths
from tramplab.base import state as base_state
from tramplab.base.processes.progress import Progress
from tramplab.ftrace.releases import LATEST
from tramplab.grid import cached, rows
from tramplab.grid.cells import Unit


def test_what_is_finished_is_not_done_again(grid, cache, monkeypatch, tmp_path):
    """Stopped after five units: one sentence, no file; seven remain, the table is the same, and nothing is kept any more."""
    whole, target = tmp_path / "whole.csv", tmp_path / "rows.csv"
    assert grid(*SMALL, "--out", whole)[0] == 0
    seen, finished = asked(monkeypatch), []
    with monkeypatch.context() as m:
        add = Progress.add

        def stop(self, count):
            add(self, count)
            finished.append(count)
            if len(finished) == 5:
                raise KeyboardInterrupt

        m.setattr(Progress, "add", stop)
        status, _, err = grid(*SMALL, "--processes", "2", "--out", target)
    last = f"tramplab: interrupted; {sum(finished)} of 36 rows are kept, and the same command goes on from there."
    assert (status, err.splitlines()[-1]) == (130, last)
    assert not target.exists() and len(seen) == 12
    seen.clear()
    assert grid(*SMALL, "--out", target)[0] == 0
    assert len(seen) == 7 and target.read_bytes() == whole.read_bytes() and not list(cache.glob("grid-*"))


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
    monkeypatch.setattr(base_state, "sources", functools.partial(paths.sources, package=tmp_path))
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
