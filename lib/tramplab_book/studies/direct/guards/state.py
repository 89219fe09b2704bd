"""Where a CPU's state lies in memory, by the names of its fields: the current task's, and this CPU's own data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tramplab.emulate.counting.trace import Recording
from tramplab.lab.kernel import Kernel

#: Struct of the guest -> what it is called here.
OWNERS = {"task_struct": "task", "lab_pcpu": "CPU"}


def preempt_count(kernel: Kernel) -> int:
    """The address of the first CPU's preempt count: in the task where a register leads there, else in per-CPU data."""
    whose = kernel.cpus[0]
    if "task" in dict(kernel.isa.bases).values():
        return whose.task + kernel.image.struct("task_struct").fields["preempt_count"].offset
    return whose.pcpu + kernel.image.struct("lab_pcpu").fields["preempt_count"].offset


def task_field(kernel: Kernel, name: str) -> tuple[int, int]:
    """Address and size of a field of the first CPU's current task."""
    field = kernel.image.struct("task_struct").fields[name]
    return kernel.cpus[0].task + field.offset, field.size


def field_at(kernel: Kernel, address: int, task: int | None = None) -> tuple[str, str] | None:
    """Owner and field of an address ("task", "bpf_ctx"); None if it is in neither struct. task: where that is taken to lie, if not
    where boot put it."""
    cpu = kernel.cpus[0]
    for struct, base in (("task_struct", cpu.task if task is None else task), ("lab_pcpu", cpu.pcpu)):
        for name, field in kernel.image.struct(struct).fields.items():
            if base + field.offset <= address < base + field.offset + field.size:
                return OWNERS[struct], name
    return None


def accesses(kernel: Kernel, call: Recording) -> dict[tuple[str, str], tuple[int, int]]:
    """(owner, field) -> loads and stores of it in a recorded call, in the order of the structs."""
    found: dict[tuple[str, str], list[int]] = {}
    for address, is_store in zip(call.address.tolist(), call.is_store.tolist(), strict=True):
        if field := field_at(kernel, address):
            found.setdefault(field, [0, 0])[is_store] += 1
    order = [(OWNERS[s], name) for s in OWNERS for name in kernel.image.struct(s).fields]
    return {key: (found[key][0], found[key][1]) for key in order if key in found}


@dataclass(frozen=True)
class Seen:
    """The state in which a function of the guest was entered.

    off: sections without preemption that were open, in addition to those of an idle CPU.
    readers: of RCU's counted readers.
    pinned: how often migration was turned off.
    """

    off: int
    readers: int
    pinned: int


def watcher(kernel: Kernel, function: str) -> Callable[[], list[Seen]]:
    """Note the state at each entry of a guest function from now on; returns a function that gives what was noted, and forgets
    it."""
    machine, count, seen = kernel.machine, preempt_count(kernel), list[Seen]()

    def number(place: tuple[int, int]) -> int:
        return int.from_bytes(machine.read(*place), "little")

    idle = number((count, 4))

    def look() -> None:
        fields = (task_field(kernel, name) for name in ("rcu_read_lock_nesting", "migration_disabled"))
        seen.append(Seen(number((count, 4)) - idle, *map(number, fields)))

    def taken() -> list[Seen]:
        out = list(seen)
        seen.clear()
        return out

    machine.watch(kernel.image.address(function), look)
    return taken


@contextmanager
def without_task(kernel: Kernel) -> Iterator[None]:
    """For a `with`: there is no current task. Whatever leads to it is 0: the register, or the pointer in per-CPU data."""
    cpu, machine = kernel.cpus[0], kernel.machine
    pointer = cpu.pcpu + kernel.image.struct("lab_pcpu").fields["current_task"].offset
    registers = [name for name, holds in kernel.isa.bases if holds == "task"]
    for name in registers:
        machine.set_register(name, 0)
    machine.write_u64(pointer, 0)
    try:
        yield
    finally:
        for name in registers:
            machine.set_register(name, cpu.task)
        machine.write_u64(pointer, cpu.task)


@contextmanager
def without_rcu(kernel: Kernel) -> Iterator[None]:
    """For a `with`: RCU does not watch this CPU, as in idle."""
    at = kernel.cpus[0].pcpu + kernel.image.struct("lab_pcpu").fields["rcu_watching"].offset
    kernel.machine.write(at, bytes(4))
    try:
        yield
    finally:
        kernel.machine.write(at, (1).to_bytes(4, "little"))
