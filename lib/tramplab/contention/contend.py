"""One run of CPUs that take nodes from a pool and give them back, and what it came to.

>>> alone = contend("arm64", "freelist", 1, operations=100)
>>> many = contend("arm64", "freelist", 8, operations=100)
>>> alone.retries, many.retries > 1, many.pair > 2 * alone.pair
(0.0, True, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..base.arguments import of_name, switch, whole
from ..base.errors import TramplabError, unknown
from ..build.toolchain import GUEST
from ..emulate.interleave.scheduler import Broken, Schedule, Scheduler, Work
from .pools import Pool
from .pools import pool as made

#: When CPUs execute their next instruction. drawn: in each tick with probability one half; even: in each tick; stalls: drawn, and
#: one in 64 is followed by a stall of up to 400 ticks; turns: 50 at a time while all others wait, as if there were one CPU.
SCHEDULES: Mapping[str, Schedule] = {
    "drawn": Schedule(),
    "even": Schedule(coin=False),
    "stalls": Schedule(stall_bits=6, stall_ticks=200),
    "turns": Schedule(slice=50),
}
#: The most that an argument may be: more would take days.
_MOST = 1_000_000


@dataclass(frozen=True)
class Contended:
    """The result of one run.

    counted: per CPU, see emulate/interleave/layout.Cpu; all else is of all CPUs together.

    operations: nodes taken, misses, and nodes given back. Instructions are those of the pool's code.
    """

    isa: str
    pool: str
    cpus: int
    nodes: int
    schedule: str
    seed: int
    counted: np.ndarray = field(repr=False)

    def total(self, name: str) -> int:
        """A counter's sum over the CPUs."""
        if name not in (columns := self.counted.dtype.names or ()):
            raise unknown("counter", name, columns)
        return int(self.counted[name].sum())

    @property
    def operations(self) -> int:
        """How many operations were counted."""
        return self.total("pops") + self.total("pushes")

    @property
    def retries(self) -> float:
        """Per operation, compare-and-swaps that failed and exclusive loads that no successful store followed."""
        return (self.total("attempts") - self.total("succeeded")) / self.operations

    @property
    def pair(self) -> float:
        """Mean instructions of taking a node and of giving one back, together; of takes that missed see miss_cost."""
        taken = self.total("pops") - self.total("misses")
        return self.total("pop_issued") / max(taken, 1) + self.total("push_issued") / max(self.total("pushes"), 1)

    @property
    def missed(self) -> float:
        """The share of takes that got no node."""
        return self.total("misses") / self.total("pops")

    @property
    def miss_cost(self) -> float:
        """Mean instructions of a take that got no node; 0 if all got one."""
        return self.total("miss_issued") / max(self.total("misses"), 1)

    @property
    def longest(self) -> int:
        """Instructions of the longest operation."""
        return int(self.counted["longest"].max())

    @property
    def shares(self) -> np.ndarray:
        """Operations of each CPU, as a multiple of the mean."""
        done = (self.counted["pops"] + self.counted["pushes"]).astype(float)
        return done / done.mean()

    @property
    def fairness(self) -> float:
        """Jain's index of the CPUs' operations: 1 if all did as many, one divided by the number of CPUs if one did all."""
        return float(1 / np.mean(self.shares**2))


def contend(
    isa: str,
    pool: str,
    cpus: int,
    *,
    nodes: int | None = None,
    depth: int = 1,
    asleep: int = 0,
    between: int = 0,
    operations: int = 2000,
    schedule: str = "drawn",
    seed: int = 1,
    granule: int = 64,
    unreduced: bool = False,
    guest: Path | str = GUEST,
) -> Contended:
    """Let CPUs of an ISA work on a "freelist", "objpool" or "shadow" stack until they have done so many operations together.

    nodes: number of nodes of the pool, by default two for each CPU; shadow stacks have what the task has room for.
    depth: nodes that a CPU takes one after the other before it gives them back, last one first, as in nested calls.
    asleep: nodes that are held all the time by tasks which sleep in a hooked function, taken on the CPUs by turns; a shadow stack
        is the task's own, so theirs are on none of these.
    between: instructions elsewhere after each operation.
    schedule: a name of SCHEDULES.
    granule: bytes that a reservation covers, a power of two.
    unreduced: hold a CPU before each instruction, not only where others can see what it does; the result is the same.
    guest: the folder of guest sources.

    Raises TramplabError for what there is not: an unknown name, less than one of anything, more CPUs than the model has; and
    Broken, which is one, if a node was handed out twice or lost.
    """
    chosen = of_name("schedule", schedule, SCHEDULES)
    depth, operations = whole(depth, "depth", 1, _MOST), whole(operations, "operations", 1, _MOST)
    between, asleep, seed = whole(between, "between", 0, _MOST), whole(asleep, "asleep", 0, _MOST), whole(seed, "seed")
    granule, unreduced = whole(granule, "granule", 0, _MOST), switch(unreduced, "unreduced")
    if granule < 8 or granule & (granule - 1):
        raise TramplabError(f"a reservation of {granule} bytes is none; give granule= a power of two from 8 on.")
    at = made(isa, pool, cpus, nodes, guest)
    counted = _run(at, Work(operations, depth, between, granule, unreduced), asleep, chosen, seed)
    return Contended(at.kernel.isa.name, pool, cpus, len(at.setting.nodes), schedule, seed, counted)


def _run(at: Pool, work: Work, asleep: int, schedule: Schedule, seed: int) -> np.ndarray:
    """The counters of the CPUs, from a pool as it is at boot; raises Broken if a node was handed out twice or lost."""
    at.reset()
    held = at.sleep(asleep) if at.name != "shadow" else []
    awake = replace(at.setting, nodes=[node for node in at.setting.nodes if node not in held])
    counted = Scheduler(at.kernel.machine, awake).run(work, schedule, seed)
    left, every, isa = sorted([*at.free(), *held]), sorted(at.setting.nodes), at.kernel.isa.name
    if left != every:
        raise Broken(f"{isa}: at the end the {at.name} has {len(set(left))} of its {len(every)} nodes, in {len(left)} places.")
    return counted
