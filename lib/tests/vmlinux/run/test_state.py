"""The state of a CPU before the first call."""

from types import SimpleNamespace

import pytest

from tramplab import Kernel
from tramplab.build.dwarf import Field, Struct
from tramplab.ftrace.layout import Heap
from tramplab.vmlinux.run import state

#: A task of a kernel with a shadow call stack, and where its functions keep a return address on that.
STRUCTS = {
    "task_struct": Struct("task_struct", 64, {"thread_info": Field(8, 48)}),
    "thread_info": Struct("thread_info", 48, {"preempt_count": Field(0, 8), "scs_base": Field(16, 8), "scs_sp": Field(24, 8)}),
}
POINTERS = {"arm64": "x18", "riscv64": "gp"}


def opened(isa, has):
    """As much of an image as says what a task is."""
    types = SimpleNamespace(has=lambda struct, member: has and member in STRUCTS[struct].fields)
    return SimpleNamespace(isa=isa, types=types, struct=STRUCTS.get, has=lambda symbol: False)


@pytest.mark.parametrize(("isa", "pointer"), POINTERS.items())
def test_a_task_has_the_shadow_call_stack_that_functions_grow(isa, pointer):
    kernel = Kernel(isa)
    machine, area = kernel.machine, kernel.machine.places.heap
    heap = Heap(area.address + area.size // 2, area.size // 2, "full")
    cpu = state.boot(opened(kernel.isa, True), machine, heap)
    ((stack, size),) = cpu.shadow
    thread_info = cpu.task + 8
    assert machine.register(pointer) == machine.read_u64(thread_info + 16) == machine.read_u64(thread_info + 24) == stack
    assert size >= 8 * 100 and heap.taken(stack) >= size
    assert state.boot(opened(kernel.isa, False), machine, heap).shadow == ()
