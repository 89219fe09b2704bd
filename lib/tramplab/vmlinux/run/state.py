"""The state that a booted kernel has set up before the first call: a current task, per-CPU data, a preempt count with preemption
off.

What is not real is said in `faked`: it stands in the notes of every result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.errors import TramplabError
from ...emulate.machine import Machine
from ...ftrace.layout import Heap
from ..open.image import Opened

#: For the reader, of every run.
FAKED = (
    "one CPU, whose per-CPU data is the image's own, as linked",
    "current is init_task; its preempt count is not zero, so nothing is scheduled",
    "RCU watches, and nobody waits for it; clocks are as before boot",
    "no memory is allocated: ops, hashes and what else is registered are laid out by hand",
)

#: The variables with the number and the masks of CPUs -> bytes; the image has the build's maximum, and empty masks.
_ONE_CPU = {"nr_cpu_ids": 4, **{f"__cpu_{which}_mask": 8 for which in ("possible", "present", "online", "active")}}
#: x86-64's flags with interrupts on.
_FLAGS = 0x202
#: Bytes of a shadow call stack (SCS_SIZE, include/linux/scs.h, with the smallest pages).
_SHADOW = 4096


@dataclass(frozen=True)
class Cpu:
    """The registers of the CPU's state.

    task: the address of the current task.
    percpu: what is added to a per-CPU address to get an ordinary one.
    shadow: (address, size) of the task's shadow call stack; none where functions keep no return addresses on one.
    """

    task: int
    percpu: int
    shadow: tuple[tuple[int, int], ...] = ()

    def pointer(self, address: int) -> int:
        """The per-CPU pointer (as this_cpu_ptr() takes it) that leads to an ordinary address."""
        return address - self.percpu & (1 << 64) - 1


def boot(opened: Opened, machine: Machine, heap: Heap) -> Cpu:
    """Set the registers that hold the task and the per-CPU base, and fix up what the boot code would."""
    cpu = _BOOT[opened.isa.name](opened, machine, heap)
    for name, size in _ONE_CPU.items():
        if opened.has(name):
            machine.write(opened.address(name), (1).to_bytes(size, "little"))
    return cpu


def pointer(opened: Opened, value: int) -> int:
    """The address in a pointer of the image's data; raises TramplabError where it is none of the kernel's."""
    if not value >> 63:
        raise TramplabError(
            f"{opened.payload.path} has lost the pointers in its data: give the Image of its build, or its vmlinux as linked."
        )
    return value


def _x86_64(opened: Opened, machine: Machine, heap: Heap) -> Cpu:
    """The state of x86-64: up to v6.14 per-CPU data is linked at zero and gs leads to where it was loaded; later gs is zero."""
    linked_at = opened.address("__per_cpu_start")
    base = 0 if linked_at >> 63 else opened.address("__per_cpu_load")
    machine.set_register("gs_base", base)
    machine.set_register("eflags", _FLAGS)
    holder, offset = _current(opened)
    task = machine.read_u64((holder + base & (1 << 64) - 1) + offset)
    if not task >> 63:
        raise TramplabError(f"{opened.payload.path} has no current task before boot: its per-CPU data is as no known kernel's.")
    return Cpu(task, base)


def _current(opened: Opened) -> tuple[int, int]:
    """The place of the pointer to the current task in per-CPU data: a variable, or a member of one (v6.2 to v6.14)."""
    if opened.has("pcpu_hot"):
        return opened.address("pcpu_hot"), opened.struct("pcpu_hot").fields["current_task"].offset
    return opened.address("current_task"), 0


def _task(opened: Opened, machine: Machine, heap: Heap) -> int:
    """init_task, or where the image does not name its data, a task of zeros that cannot be preempted."""
    if opened.has("init_task"):
        return opened.address("init_task")
    task_struct, thread_info = opened.struct("task_struct"), opened.struct("thread_info")
    task = heap.take(task_struct.size)
    machine.write_u64(task + task_struct.fields["thread_info"].offset + thread_info.fields["preempt_count"].offset, 1 << 32 | 1)
    return task


def _shadow(opened: Opened, machine: Machine, heap: Heap, task: int, register: str) -> tuple[tuple[int, int], ...]:
    """Give the task a shadow call stack, whose pointer is in a register, in a kernel that has them (CONFIG_SHADOW_CALL_STACK)."""
    if not opened.types.has("thread_info", "scs_sp"):
        return ()
    stack, thread_info = heap.take(_SHADOW), task + opened.struct("task_struct").fields["thread_info"].offset
    for member in ("scs_base", "scs_sp"):
        machine.write_u64(thread_info + opened.struct("thread_info").fields[member].offset, stack)
    machine.set_register(register, stack)
    return ((stack, _SHADOW),)


def _arm64(opened: Opened, machine: Machine, heap: Heap) -> Cpu:
    """The state of arm64: the task is in SP_EL0, the per-CPU distance in TPIDR_EL1, the shadow call stack at X18."""
    task = _task(opened, machine, heap)
    machine.set_register("sp_el0", task)
    machine.set_register("tpidr_el1", 0)
    return Cpu(task, 0, _shadow(opened, machine, heap, task, "x18"))


def _riscv64(opened: Opened, machine: Machine, heap: Heap) -> Cpu:
    """The state of riscv64: the task is in tp, and the shadow call stack at gp; the per-CPU distance is read from __per_cpu_offset,
    which is zero before boot."""
    task = _task(opened, machine, heap)
    machine.set_register("tp", task)
    return Cpu(task, 0, _shadow(opened, machine, heap, task, "gp"))


_BOOT: dict[str, Callable[[Opened, Machine, Heap], Cpu]] = {"x86_64": _x86_64, "arm64": _arm64, "riscv64": _riscv64}
