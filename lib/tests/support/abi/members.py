"""Members of the guest's structs, read and written by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tramplab import Kernel


class Struct:
    """One of a kernel's structs in its memory: s["member"] is an integer without a sign, and can be set."""

    def __init__(self, k: Kernel, struct: str, at: int) -> None:
        self._machine, self._fields, self.address = k.machine, k.image.struct(struct).fields, at

    def __getitem__(self, member: str) -> int:
        field = self._fields[member]
        return int.from_bytes(self._machine.read(self.address + field.offset, field.size), "little")

    def __setitem__(self, member: str, value: int) -> None:
        field = self._fields[member]
        self._machine.write(self.address + field.offset, value.to_bytes(field.size, "little"))

    @contextmanager
    def having(self, **members: int) -> Iterator[None]:
        """For a `with`: these members have these values; then what they had."""
        before = {name: self[name] for name in members}
        self.put(members)
        try:
            yield
        finally:
            self.put(before)

    def put(self, members: Mapping[str, int]) -> None:
        for name, value in members.items():
            self[name] = value


def task(k: Kernel) -> Struct:
    """The task that calls functions."""
    return Struct(k, "task_struct", k.cpus[0].task)


def cpu(k: Kernel) -> Struct:
    """The data of its CPU."""
    return Struct(k, "lab_pcpu", k.cpus[0].pcpu)
