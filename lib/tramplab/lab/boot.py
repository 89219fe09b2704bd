"""The state that boot code sets up before the first call, on each CPU: a current task, per-CPU data, a caller's frame record."""

from __future__ import annotations

from dataclasses import dataclass

from ..emulate.machine import Machine
from ..ftrace.layout import Heap

#: The stack canary, which functions with a buffer check before they return; a kernel draws one for each task.
CANARY = 0x5EED0FCAFEF00D00


@dataclass(frozen=True)
class Cpu:
    """One CPU of a lab kernel: its number, and the addresses of its current task and of its per-CPU data."""

    number: int
    task: int
    pcpu: int


def cpus(machine: Machine, heap: Heap) -> tuple[Cpu, ...]:
    """The CPUs, one for each stack of the machine; the first has its task and data in the image, the others on the heap."""
    image = machine.image
    sizes = [image.struct(name).size for name in ("task_struct", "lab_pcpu")]
    first = Cpu(0, image.address("init_task"), image.address("lab_boot_pcpu"))
    if "cpu_possible_mask" in image.symbols:
        machine.write_u64(image.address("cpu_possible_mask"), (1 << len(machine.places.stacks)) - 1)
        machine.write(image.address("nr_cpu_ids"), len(machine.places.stacks).to_bytes(4, "little"))
    others = (Cpu(n, *map(heap.take, sizes)) for n in range(1, len(machine.places.stacks)))
    return first, *others


def boot(machine: Machine, cpu: Cpu) -> None:
    """Set the base registers, link task and per-CPU data, and let RCU watch. A second time it makes all of this as it was."""
    image = machine.image
    task_struct, lab_pcpu = image.struct("task_struct"), image.struct("lab_pcpu")
    with machine.on(cpu.number):
        machine.write(cpu.task, bytes(task_struct.size))
        machine.write(cpu.pcpu, bytes(lab_pcpu.size))
        for register, holds in machine.isa.bases:
            machine.set_register(register, {"task": cpu.task, "pcpu": cpu.pcpu}[holds])
        machine.write_u64(cpu.task + task_struct.fields["stack_canary"].offset, CANARY)
        machine.write_u64(image.address("lab_percpu") + 8 * cpu.number, cpu.pcpu)
        machine.write_u64(cpu.pcpu + lab_pcpu.fields["current_task"].offset, cpu.task)
        machine.write_u64(cpu.task + task_struct.fields["cpu"].offset, cpu.number)
        mask = cpu.task + task_struct.fields["cpus_mask"].offset
        machine.write_u64(cpu.task + task_struct.fields["cpus_ptr"].offset, mask)
        if "ret_stack" in task_struct.fields:  # of the function graph tracer: empty, and no call is deeper than it
            fields = task_struct.fields
            machine.write_u64(cpu.task + fields["ret_stack"].offset, cpu.task + fields["shadow_stack"].offset)
            machine.write(cpu.task + fields["curr_ret_depth"].offset, b"\xff" * 4)
        machine.write(cpu.pcpu + lab_pcpu.fields["rcu_watching"].offset, (1).to_bytes(4, "little"))
        # nobody waits for the CPU, as each ISA keeps it: in the highest bit of the count, or beside it
        machine.write(cpu.pcpu + lab_pcpu.fields["preempt_count"].offset, (1 << 31).to_bytes(4, "little"))
        machine.write(cpu.task + task_struct.fields["no_resched"].offset, (1).to_bytes(4, "little"))
        # nothing is left of what was called before; the caller's frame record ends the chain: no frame above it
        machine.write(machine.stack.address, bytes(machine.stack.size))
        machine.write_u64(machine.stack_top - 32, 0)
        machine.write_u64(machine.stack_top - 24, machine.return_to)
