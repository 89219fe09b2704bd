"""Several CPUs at work on one pool, interleaved at instructions in an order that a seed decides.

Every instruction is the guest's and is executed by the emulator. What is modelled here: when each CPU's next instruction happens
(Schedule), and exclusive accesses: whether a store-conditional succeeds is decided per CPU, see scheduler.c. What is not: caches,
store buffers and weak ordering. Stores are seen at once and in order.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
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
        machine, setting, isa, code = self._machine, self._setting, self._machine.isa, self._code
        cpus, ids, index = len(setting.own), code.registers, code.number
        held = np.zeros((cpus, len(ids)), np.uint64)
        for cpu in range(cpus):
            held[cpu] = [self._start(name, cpu) for name in ids]
        slots = held.ctypes.data + 8 * np.arange(held.size, dtype=np.uint64)
        numbers = np.array([machine.register_id(name) for name in ids], np.int32)
        counted = np.zeros(cpus, np.dtype(layout.Cpu))
        counted["random"] = [_seed(seed, cpu) for cpu in range(cpus)]
        nodes = np.array(sorted(setting.nodes), np.uint64)
        owners = np.full(len(nodes), -1, np.int32)
        stacks, clocks = np.zeros((cpus, work.depth), np.uint64), np.arange(cpus, dtype=np.uint64)
        areas = self._areas()
        lab = layout.Lab(
            base=code.base,
            length=code.length,
            pop=setting.pop,
            push=setting.push,
            return_to=machine.return_to,
            places=code.places.ctypes.data,
            cpus=counted.ctypes.data,
            clocks=clocks.ctypes.data,
            registers=held.ctypes.data,
            slots=slots.ctypes.data,
            nr_cpus=cpus,
            ids=numbers.ctypes.data,
            nr_ids=len(ids),
            pc=index[isa.pc],
            sp=index[isa.sp],
            link=index[isa.link] if isa.link else -1,
            argument=index[isa.args[0]],
            result=index[isa.returns[0]],
            flags=index[code.flags],
            pool=setting.pool,
            depth=work.depth,
            nr_nodes=len(nodes),
            nr_areas=len(areas),
            granule=work.granule,
            nodes=nodes.ctypes.data,
            owners=owners.ctypes.data,
            stacks=stacks.ctypes.data,
            areas=areas.ctypes.data,
            sure=len(nodes),
            coin=schedule.coin,
            stall_bits=schedule.stall_bits,
            stall_ticks=schedule.stall_ticks,
            slice=schedule.slice,
            between=work.between,
            every=work.unreduced,
            target=work.operations,
            limit=20000 * work.operations + 100000 * cpus,
            **{name: machine.engine.function(function) for name, function in _CALLS.items()},
        )
        machine.set_meter(NONE)
        self._drive(lab, held, index[isa.pc])
        if lab.trouble:
            where = machine.name_of(lab.where) or f"{lab.where:#x}"
            raise Broken(f"{isa.name}: {_TROUBLES[lab.trouble].format(where=where, cpu=lab.current)}.")
        return counted

    # inside

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
    """Where a CPU's draws begin, never 0: splitmix64 of both."""
    mask = (1 << 64) - 1
    z = (seed * MOST_CPUS + cpu + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return (z ^ z >> 31) | 1
