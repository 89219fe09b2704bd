"""Return addresses that a return hook took the place of: an unwinder that meets the return trampoline's address asks for them.

Stands for rethook_find_ret_addr(): of the task's hooked calls, newest first, the next that was hooked in the frame which the
unwinder has come to. By what a frame is known is each ISA's matter, see unwind.RECORDS.
"""

from __future__ import annotations

from ..lab.kernel import Kernel

#: Where functions with a hooked return come back to.
TRAMPOLINE = "arch_rethook_trampoline"


class Recovery:
    """Asked for the addresses of one chain, from the innermost on. nodes: frame and return address of each hooked call, newest
    first. trampoline: the address that stands in their place."""

    def __init__(self, nodes: tuple[tuple[int, int], ...], trampoline: int) -> None:
        self._left, self._trampoline = iter(nodes), trampoline

    def __call__(self, address: int, frame: int) -> int | None:
        """The address itself, if it is not the trampoline's; else the one whose place that took, None if no call is known that was
        hooked in this frame."""
        if address != self._trampoline:
            return address
        return next((back for at, back in self._left if at == frame and back != self._trampoline), None)


def trampoline(kernel: Kernel) -> int | None:
    """Where functions with a hooked return come back to; None in a kernel without return hooks."""
    symbol = kernel.image.symbols.get(TRAMPOLINE)
    return symbol.address if symbol else None


def of(kernel: Kernel) -> Recovery | None:
    """What the first CPU's task knows of its hooked calls at this moment; None in a kernel without return hooks."""
    at = trampoline(kernel)
    if at is None:
        return None
    node, read = kernel.image.struct("rethook_node").fields, kernel.machine.read_u64
    found, place = [], read(kernel.cpus[0].task + kernel.image.struct("task_struct").fields["rethooks"].offset)
    while place:
        found.append((read(place + node["frame"].offset), read(place + node["ret_addr"].offset)))
        place = read(place + node["next"].offset)
    return Recovery(tuple(found), at)
