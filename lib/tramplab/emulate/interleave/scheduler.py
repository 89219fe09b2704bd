"""Several CPUs at work on one pool, interleaved at instructions in an order that a seed decides.

Every instruction is the guest's and is executed by the emulator. What is modelled here: when each CPU's next instruction happens
(Schedule), and exclusive accesses: whether a store-conditional succeeds is decided per CPU, see scheduler.c. What is not: caches,
store buffers and weak ordering. Stores are seen at once and in order.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ...base.errors import TramplabError
from .. import compiled
from ..engine import ACCESS as ACCESSES
from ..engine import CODE
from ..machine import NONE, Machine
from . import layout
from .code import Code

SOURCE = Path(__file__).with_name("scheduler.c")
#: Clocks have six bits for it.
MOST_CPUS = 64
#: The owner of shared memory.
EVERYBODY = -1
_CALLS = {
    "read_batch": "reg_read_batch",
    "write_batch": "reg_write_batch",
    "read_one": "reg_read",
    "write_one": "reg_write",
    "write_memory": "mem_write",
    "stop": "emu_stop",
}
_TROUBLES = (
    "",
    "{where} was executed, which is no part of the pool's code",
    "CPU {cpu} touched {where}, which belongs to another one or to nobody",
    "CPU {cpu} touched {where}, which all share, at an instruction that was taken for one that cannot",
    "the node at {where} was given to CPU {cpu} while another one held it",
    "CPU {cpu} was given {where}, which is no node",
    "the run did not end within its instructions; CPU {cpu} is at {where}",
)


class Broken(TramplabError):
    """A pool that broke its promise under this schedule, or code that the scheduler cannot follow."""


@dataclass(frozen=True)
class Schedule:
    """How turns are drawn.

    coin: a CPU executes one instruction with probability one half in each tick, else in each.
    stall_bits: with a probability of two to the minus this, an instruction is followed by a stall of up to twice stall_ticks; 0 for
        none.
    slice: CPUs take turns of this many instructions, as if there were only one; 0 for none.
    """

    coin: bool = True
    stall_bits: int = 0
    stall_ticks: int = 1
    slice: int = 0


@dataclass(frozen=True)
class Setting:
    """The code and the memory of a run.

    pop, push: functions.
    pool: the argument of pop.
    functions: (address, size) of all code that they run.
    nodes: addresses of all nodes.
    shared: (address, size) of what all CPUs may write.
    own: per CPU, (address, size) of what only that CPU touches.
    bases: per CPU, its special registers.
    """

    pop: int
    push: int
    pool: int
    functions: Sequence[tuple[int, int]]
    nodes: Sequence[int]
    shared: Sequence[tuple[int, int]]
    own: Sequence[Sequence[tuple[int, int]]]
    bases: Sequence[dict[str, int]]


@dataclass(frozen=True)
class Work:
    """What the CPUs do: each takes `depth` nodes one after the other, gives them back, last one first, and again, until all have
    done `operations` together.

    between: instructions elsewhere after each operation, by half more or less.
    granule: bytes of a reservation.
    unreduced: hold CPUs before every instruction, not only before those that touch shared memory.
    """

    operations: int
    depth: int = 1
    between: int = 0
    granule: int = 64
    unreduced: bool = False


class Scheduler:
    """Makes the CPUs of one machine take turns."""

    def __init__(self, machine: Machine, setting: Setting) -> None:
        self._machine, self._setting, self._lib = machine, setting, compiled.library(SOURCE)
        self._code = Code(machine, setting.functions, tuple(setting.bases[0]))

    def run(self, work: Work, schedule: Schedule, seed: int) -> np.ndarray:
        """One run from the memory as it is: what each CPU counted, see layout.Cpu; at the end no node is held. Raises Broken if a
        node was handed out twice, or if the run cannot be followed."""
        machine, ids, cpus = self._machine, self._code.registers, len(self._setting.own)
        held = np.array([[self._start(name, cpu) for name in ids] for cpu in range(cpus)], np.uint64)
        counted = np.zeros(cpus, np.dtype(layout.Cpu))
        counted["random"] = [_seed(seed, cpu) for cpu in range(cpus)]
        arrays = {
            "places": self._code.places,
            "cpus": counted,
            "clocks": np.arange(cpus, dtype=np.uint64),
            "registers": held,
            "slots": held.ctypes.data + 8 * np.arange(held.size, dtype=np.uint64),
            "ids": np.array([machine.register_id(name) for name in ids], np.int32),
            "nodes": np.array(sorted(self._setting.nodes), np.uint64),
            "owners": np.full(len(self._setting.nodes), -1, np.int32),
            "stacks": np.zeros((cpus, work.depth), np.uint64),
            "areas": self._areas(),
        }
        lab = self._lab(work, schedule, arrays)
        machine.set_meter(NONE)
        self._drive(lab, held, self._code.number[machine.isa.pc])
        if lab.trouble:
            where = machine.name_of(lab.where) or f"{lab.where:#x}"
            raise Broken(f"{machine.isa.name}: {_TROUBLES[lab.trouble].format(where=where, cpu=lab.current)}.")
        return counted

    # inside

    def _lab(self, work: Work, schedule: Schedule, arrays: dict[str, np.ndarray]) -> layout.Lab:
        """The run, for scheduler.c."""
        machine, setting, isa, code = self._machine, self._setting, self._machine.isa, self._code
        cpus, index = len(setting.own), code.number
        return layout.Lab(
            **{name: array.ctypes.data for name, array in arrays.items()},
            **{name: machine.engine.function(function) for name, function in _CALLS.items()},
            **asdict(schedule),
            base=code.base,
            length=code.length,
            pop=setting.pop,
            push=setting.push,
            return_to=machine.return_to,
            nr_cpus=cpus,
            nr_ids=len(arrays["ids"]),
            pc=index[isa.pc],
            sp=index[isa.sp],
            link=index[isa.link] if isa.link else -1,
            argument=index[isa.args[0]],
            result=index[isa.returns[0]],
            flags=index[code.flags],
            pool=setting.pool,
            depth=work.depth,
            nr_nodes=len(setting.nodes),
            nr_areas=len(arrays["areas"]),
            granule=work.granule,
            sure=len(setting.nodes),
            between=work.between,
            every=work.unreduced,
            target=work.operations,
            limit=20000 * work.operations + 100000 * cpus,
        )

    def _drive(self, lab: layout.Lab, held: np.ndarray, pc: int) -> None:
        machine, state = self._machine, ctypes.c_void_p(ctypes.addressof(lab))
        hooks = {CODE: "turn", ACCESSES: "touch"}
        calls = {of: ctypes.cast(getattr(self._lib, f"tramplab_{name}"), ctypes.c_void_p) for of, name in hooks.items()}
        ends = [machine.engine.hook_c(of, call, state) for of, call in calls.items()]
        before = machine.engine.save()
        try:
            machine.engine.forget_all()
            self._lib.tramplab_begin(machine.engine.handle, state)
            machine.engine.start(int(held[lab.current][pc]), 0)
        finally:
            for stop in ends:
                stop()
            machine.engine.forget_all()
            machine.engine.restore(before)  # the machine's own CPU is none of those that took turns

    def _start(self, name: str, cpu: int) -> int:
        """A register before a CPU's first operation, which pushes the return address where the ISA does so."""
        machine = self._machine
        if name == machine.isa.sp:
            top = machine.places.stacks[cpu].end - 64
            if machine.isa.link is None:
                machine.write_u64(top - 8, machine.return_to)
            return top
        return {**self._code.start, **self._setting.bases[cpu]}.get(name, 0)

    def _areas(self) -> np.ndarray:
        """An array of layout.Area, in order; raises TramplabError where two overlap."""
        shared = [(at, at + size, EVERYBODY) for at, size in self._setting.shared]
        private = [(at, at + size, cpu) for cpu, some in enumerate(self._setting.own) for at, size in some]
        areas = sorted(shared + private)
        for (_, end, _), (start, _, _) in itertools.pairwise(areas):
            if end > start:
                raise TramplabError(f"two owners claim the memory at {start:#x}; give each CPU its own.")
        return np.array(areas, np.dtype(layout.Area))


def _seed(seed: int, cpu: int) -> int:
    """The first state of a CPU's generator, never 0: splitmix64 of both."""
    mask = (1 << 64) - 1
    z = (seed * MOST_CPUS + cpu + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return (z ^ z >> 31) | 1
