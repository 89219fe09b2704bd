"""A return hook's pool with several CPUs at it, as it lies in a lab kernel: what all share, what is each one's own, the nodes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.arguments import folder, whole
from ..base.errors import TramplabError, unknown
from ..build.toolchain import GUEST
from ..emulate.interleave.scheduler import MOST_CPUS, Setting
from ..isa import get as isa_of
from ..lab.kernel import Kernel
from ..trampolines.fprobe import Fprobe

#: The values of rethook=.
POOLS = ("freelist", "objpool", "shadow")
#: ISA -> a release and features with which the lab builds all three there; without the tests of RCU that some have.
KERNELS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "x86_64": ("v6.12", {}),
    "arm64": ("v6.4", {"recursion_rcu_test": False}),
    "riscv64": ("v6.9", {"rethook_rcu_test": False, "recursion_rcu_test": False}),
}
FUNCTION = "two_args"
_POP, _PUSH = "rethook_try_get", "rethook_recycle"
#: The functions that pools execute; a build has those of them that it calls.
_CODE = (_POP, _PUSH, "objpool_push")


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool as it is at boot. fresh: the bytes of all that a run may change, by address."""

    kernel: Kernel
    name: str
    setting: Setting
    fresh: Mapping[int, bytes] = field(repr=False)

    def reset(self) -> None:
        """Make the pool what it was at boot."""
        for address, data in self.fresh.items():
            self.kernel.machine.write(address, data)

    def sleep(self, tasks: int) -> list[int]:
        """Have so many tasks take a node each, on the CPUs by turns; gives the nodes. Raises TramplabError if there are less."""
        machine, taken = self.kernel.machine, []
        if tasks > len(self.setting.nodes):
            raise TramplabError(f"{tasks} tasks cannot sleep with a node each: the pool has {len(self.setting.nodes)}.")
        for number in range(tasks):
            with machine.on(number % len(self.kernel.cpus)):
                run = machine.call(self.setting.pop, {machine.isa.args[0]: self.setting.pool})
            taken.append(run.registers[machine.isa.returns[0]])
        return taken

    def free(self) -> list[int]:
        """The nodes that lie in the pool now, in its order; of tasks' own stacks, those above what is taken."""
        return {"freelist": _listed, "objpool": _ringed, "shadow": _stacked}[self.name](self.kernel, self.setting.pool)


def pool(isa: str, name: str, cpus: int, nodes: int | None = None, guest: Path | str = GUEST) -> Pool:
    """A fresh pool of so many nodes, by default two for each CPU as kernels take.

    Raises TramplabError for an unknown ISA or pool, for less than one CPU or node, and for more than there is room for.
    """
    isa_record = isa_of(isa)
    if name not in POOLS:
        raise unknown("pool", name, POOLS)
    cpus, nodes = whole(cpus, "cpus"), None if nodes is None else whole(nodes, "nodes")
    if not 1 <= cpus <= MOST_CPUS:
        raise TramplabError(f"the model has 1 to {MOST_CPUS} CPUs, not {cpus}; choose cpus= among them.")
    return _pool(isa_record.name, name, cpus, nodes, folder(guest, "guest"))


@functools.lru_cache(maxsize=4)
def _pool(isa: str, name: str, cpus: int, nodes: int | None, guest: Path) -> Pool:
    release, overrides = KERNELS[isa]
    kernel = Kernel(isa, release, meter="count", cpus=cpus, guest=guest, rethook=name, **overrides)
    (probe,) = kernel.attach(kernel.function(FUNCTION), Fprobe(entry=False, exit=True, nodes=nodes))
    hook = _word(kernel, probe.address, "fprobe", "rethook")
    free = {"freelist": _listed, "objpool": _ringed, "shadow": _stacked}[name](kernel, hook)
    setting = _setting(kernel, name, hook, free)
    kept = [*setting.shared, *(ranges for some in setting.own for ranges in some)]
    return Pool(kernel, name, setting, {at: kernel.machine.read(at, size) for at, size in kept})


def _setting(kernel: Kernel, name: str, hook: int, nodes: list[int]) -> Setting:
    image, isa = kernel.image, kernel.isa
    sizes = {name: image.struct(name).size for name in ("task_struct", "lab_pcpu")}
    stacks = kernel.machine.places.stacks
    return Setting(
        pop=image.address(_POP),
        push=image.address(_PUSH),
        pool=hook,
        functions=[(image.address(f), image.symbol(f).size) for f in _CODE if f in image.symbols],
        nodes=nodes,
        shared={"freelist": _list_shared, "objpool": _rings_shared, "shadow": lambda *_: []}[name](kernel, hook, nodes),
        own=[
            ((cpu.task, sizes["task_struct"]), (cpu.pcpu, sizes["lab_pcpu"]), (stack.address, stack.size))
            for cpu, stack in zip(kernel.cpus, stacks, strict=True)
        ],
        bases=[{register: {"task": cpu.task, "pcpu": cpu.pcpu}[holds] for register, holds in isa.bases} for cpu in kernel.cpus],
    )


# --- The list


def _listed(kernel: Kernel, hook: int) -> list[int]:
    nodes, node = [], _word(kernel, hook, "rethook", "list")
    while node:
        nodes.append(node)
        node = _word(kernel, node, "freelist_node", "next")
    return nodes


def _list_shared(kernel: Kernel, hook: int, nodes: list[int]) -> list[tuple[int, int]]:
    head, size = _place(kernel, hook, "rethook", "list"), kernel.image.struct("freelist_node").size
    return [(head, kernel.image.struct("freelist_head").size), *((node, size) for node in nodes)]


# --- The rings


def _slots(kernel: Kernel, hook: int) -> list[int]:
    table = _word(kernel, _place(kernel, hook, "rethook", "ring"), "objpool_head", "cpu_slots")
    return [kernel.machine.read_u64(table + 8 * cpu) for cpu in range(len(kernel.cpus))]


def _ringed(kernel: Kernel, hook: int) -> list[int]:
    nodes = []
    for slot in _slots(kernel, hook):
        head, last, mask = (_word(kernel, slot, "objpool_slot", name, 4) for name in ("head", "last", "mask"))
        entries = _place(kernel, slot, "objpool_slot", "entries")
        nodes += [kernel.machine.read_u64(entries + 8 * (n & mask)) for n in range(head, last)]
    return nodes


def _rings_shared(kernel: Kernel, hook: int, _nodes: list[int]) -> list[tuple[int, int]]:
    ranges = []
    for slot in _slots(kernel, hook):
        mask, entries = (_place(kernel, slot, "objpool_slot", name) for name in ("mask", "entries"))
        room = _word(kernel, slot, "objpool_slot", "mask", 4) + 1
        ranges += [(slot, mask - slot), (entries, 8 * room)]  # the mask between them never changes
    return ranges


# --- The tasks' stacks


def _stacked(kernel: Kernel, hook: int) -> list[int]:
    size, room = _word(kernel, hook, "rethook", "size"), kernel.image.struct("task_struct").fields["rethook_stack"].size
    words = []
    for cpu in kernel.cpus:
        top, stack = (_place(kernel, cpu.task, "task_struct", name) for name in ("rethook_top", "rethook_stack"))
        words += [stack + at for at in range(kernel.machine.read_u64(top), room - size + 1, size)]
    return words


def _place(kernel: Kernel, at: int, struct: str, name: str) -> int:
    return at + kernel.image.struct(struct).fields[name].offset


def _word(kernel: Kernel, at: int, struct: str, name: str, size: int = 8) -> int:
    return int.from_bytes(kernel.machine.read(_place(kernel, at, struct, name), size), "little")
