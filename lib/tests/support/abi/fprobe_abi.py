"""The check of abi.py with fprobes on every function: what their handlers see at the entry, and at the return.

A hooked return is seen by who comes later: a function that another one has jumped to finds the return trampoline's address where
its caller's was.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from support.abi import abi
from support.abi.abi_calls import FUNCTIONS, weigh
from support.abi.abi_places import Place
from tramplab import Fprobe, Ops
from tramplab.isa import ISAS
from tramplab.trampolines.fprobe.handlers import handlers as handlers_of

#: hook -> the handlers of each fprobe, (entry, exit), in the order they are attached; and whether an ops is there besides.
HOOKS: dict[str, tuple[tuple[tuple[bool, bool], ...], bool]] = {
    "fprobe": (((True, False),), False),
    "fprobe-exit": (((False, True),), False),
    "fprobe-both": (((True, True),), False),
    "fprobe-both-x2": (((True, True), (True, True)), False),
    "fprobe-mixed": (((False, True), (True, False), (True, True)), False),
    "fprobe-both+ops": (((True, True),), True),
}
#: Places where fprobes are on return hooks. They differ in the trampoline at the entry, where nodes come from, and the guard.
ON_RETURN_HOOKS = tuple(
    Place(isa, release, tuple(overrides.items()))
    for isa, release, overrides in (
        ("x86_64", "v5.18", {}),
        ("x86_64", "v6.12", {}),
        ("x86_64", "v7.2", {"rethook": "shadow"}),
        ("x86_64", "v6.12", {"frame_pointer": True, "fprobe_guard": False}),
        ("arm64", "v6.1", {"rethook": "freelist"}),
        ("arm64", "v6.4", {"rethook": "objpool"}),
        ("arm64", "v7.2", {"rethook": "shadow"}),
        ("riscv64", "v6.4", {}),
        ("riscv64", "v6.9", {}),
        ("riscv64", "v6.12", {"rethook": "freelist"}),
        ("riscv64", "v7.2", {"rethook": "shadow", "fprobe_guard": False}),
    )
)
#: Each with another trampoline: riscv64's site, and what x86-64's return_to_handler stores.
_RELEASES = {"x86_64": ("v6.16", "v6.18", "v7.2"), "arm64": ("v6.16", "v7.2"), "riscv64": ("v6.14", "v6.16", "v7.2")}
#: Places where they are on the function graph tracer. They differ in x86-64's static call, the table that grows with the ops of
#: those that only see entries, and on riscv64 in whether a site knows its ops.
ON_GRAPH_TRACER = tuple(Place(isa, release, ()) for isa in ISAS for release in _RELEASES[isa])


@contextmanager
def hooked(lab: abi.Lab, hook: str) -> Iterator[FprobeHooked]:
    """Attach a hook's fprobes to every function, and an ops to all of them where the hook has one."""
    probes, shared = HOOKS[hook]
    requests = [Fprobe(entry=entry, exit=left, observe=True, filter=FUNCTIONS) for entry, left in probes]
    others = [Ops(callback="lab_observe_clobber", filter=FUNCTIONS)] if shared else []
    with lab.kernel.attached(None, *requests, *others) as registered, FprobeHooked(lab, hook, registered).watched() as h:
        yield h


class FprobeHooked(abi.Hooked):
    """A lab with fprobes on its functions."""

    def __init__(self, lab: abi.Lab, hook: str, registered: tuple) -> None:
        super().__init__(lab, hook, registered)
        image, self.graph = self.kernel.image, self.kernel.features["rethook"] == "fgraph"
        self.ops = [o for o in self.kernel.slowpath.counted if o in registered]  # in the order of their calls
        self.leaving = [o for o in self.ops if isinstance(o.request, Fprobe) and o.request.exit]
        self._returned, self._left = image.address("lab_returned"), image.address("lab_returned_count")
        self._trampoline = image.address("return_to_handler" if self.graph else "arch_rethook_trampoline")
        task = image.struct("task_struct").fields
        hooked = (("curr_ret_stack", 4, "the shadow stack"),) if self.graph else (("rethooks", 8, "the list of hooked returns"),)
        self._balanced += tuple((image.address("init_task") + task[name].offset, size, what) for name, size, what in hooked)
        self._probe = image.struct("fprobe").fields

    @property
    def callbacks(self) -> set[str]:
        handlers = {name for o in self.ops if isinstance(o.request, Fprobe) for name in handlers_of(o.request).values()}
        return handlers | {o.request.callback for o in self.ops if isinstance(o.request, Ops)}

    def draw(self, seed: int, name: str | None = None) -> abi.State:
        """Nothing has returned yet."""
        self.machine.write_u64(self._left, 0)
        return super().draw(seed, name)

    def _passed(self, function: str) -> tuple[str, ...]:
        """Without the way back, which leads to the return trampoline."""
        hidden = {self.isa.link} if self.leaving else set()
        return tuple(r for r in super()._passed(function) if r not in hidden)

    def _saves_regs(self, ops) -> bool:
        return ops.saves_regs

    def _wanting(self, function: str) -> list:
        return self.ops

    def _own_set(self, function: str) -> None:
        return None

    def _expected(self, state: abi.State) -> list[dict[str, object]]:
        rows = super()._expected(state)
        if state.call.jumps and self.leaving:  # the caller of what was jumped to
            for row in rows[len(rows) // 2 :]:
                row["parent_ip"] = self._trampoline
        seen = {o.address for o in self.ops if not isinstance(o.request, Fprobe) or o.request.entry}
        return [row for row in rows if row["op"] in seen]

    def _compare(self, expected: list[dict[str, object]], observed: list[tuple[int, ...]]) -> None:
        super()._compare(expected, observed)
        for o in self.leaving:
            missed = self.machine.read_u64(o.address + self._probe["nmissed"].offset)
            assert not missed, f"{missed} calls found no node: some did not go back to the pool"

    def check(self, seed: int, name: str | None = None) -> None:
        """The same, and what the handlers at the return saw."""
        super().check(seed, name)
        state = self.draw(seed, name)  # what was returned is still there, only its count is not
        call, site = state.call, lambda function: self.lab.functions[function].site.ip
        first = call.values[0] if call.values else None
        left = [(site(n), back, weigh(*a)) for (n, a), back in zip(call.nested, self._returns_to, strict=False)]
        if call.jumps:  # the graph tracer has a frame for each of the two, and the inner one leads to the outer one's
            left.append((site(call.jumps[0]), self._trampoline if self.graph else self.machine.return_to, first))
        left.append((site(call.name), self.machine.return_to, first))
        in_order = self.leaving if self.graph else self.leaving[::-1]  # a node is put in front of those that are there
        wanted = [(ip, back, o.address, value) for ip, back, value in left for o in in_order]
        size = self.kernel.image.struct("lab_returned").size
        words = struct.unpack(f"<{len(wanted) * size // 8}Q", self.machine.read(self._returned, len(wanted) * size))
        seen = [words[i : i + 4] for i in range(0, len(words), 4)]
        for (*told, value), (ip, back, probe, returned) in zip(wanted, seen, strict=True):
            assert told == [ip, back, probe], f"{state}\nat the return of {call.name}: {(ip, back, probe)}, not {told}"
            assert value in (None, returned), f"{state}\nat the return of {call.name}: {returned:#x}, not {value:#x}"
