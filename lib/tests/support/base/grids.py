"""A small grid, what runs it in this process, and a cache that has nothing but images."""

from tramplab.base.processes import jobs
from tramplab.grid.cells import Unit

#: A grid of 12 units and 36 rows, of one ISA, so that it is quick.
SMALL = ["--isa", "arm64", "--hook", "ops,direct,none,direct+ops", "--args", "0-1,8", "--callbacks", "1-3,5-6"]


def asked(monkeypatch) -> list[Unit]:
    """The units that workers are asked for from now on."""
    seen: list[Unit] = []
    shared = jobs.shared
    monkeypatch.setattr(jobs, "shared", lambda work, units, *more: seen.extend(units) or shared(work, units, *more))
    return seen
