"""What boot code would do before the first call: a current task, per-CPU data, and a caller's frame record."""

from __future__ import annotations

from ..emulate.machine import Machine

#: Where each ISA keeps the current task and this CPU's data: (register, symbol whose address it holds).
_BASES = {
    "x86_64": (("gs_base", "lab_boot_pcpu"),),
    "arm64": (("sp_el0", "init_task"), ("tpidr_el1", "lab_boot_pcpu")),
    "riscv64": (("tp", "init_task"),),
}


def boot(machine: Machine) -> None:
    """Set the base registers, link task and per-CPU data, and let RCU watch. Doing it again puts all of that back."""
    image = machine.image
    for symbol in ("init_task", "lab_boot_pcpu"):
        machine.write(image.address(symbol), bytes(image.symbol(symbol).size))
    for register, symbol in _BASES[machine.isa.name]:
        machine.set_register(register, image.address(symbol))
    task, pcpu = image.address("init_task"), image.address("lab_boot_pcpu")
    task_struct, lab_pcpu = image.struct("task_struct").fields, image.struct("lab_pcpu").fields
    machine.write_u64(task + task_struct["pcpu"].offset, pcpu)
    machine.write_u64(pcpu + lab_pcpu["current_task"].offset, task)
    machine.write(pcpu + lab_pcpu["rcu_watching"].offset, (1).to_bytes(4, "little"))
    # the caller's frame record ends the chain: no frame above it
    machine.write_u64(machine.stack_top - 32, 0)
    machine.write_u64(machine.stack_top - 24, machine.return_to)
