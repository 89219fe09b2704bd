"""The check of abi.py with a kretprobe on every function: through ftrace or by a breakpoint, with a handler at the entry too, or
with an ops there besides.

Its handlers write down all registers that they are given, and use up every one they may. The one at the entry leaves a word for the
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.abi import abi
from support.abi.abi_calls import FUNCTIONS, weigh
from support.abi.kprobe_abi import KprobeHooked, slot
from tramplab import Kretprobe, Ops
from tramplab.trampolines.kprobe.kretprobe import handlers

#: hook -> what the kretprobes are asked for, and whether an ops is there besides.
HOOKS: dict[str, tuple[dict[str, object], bool]] = {
    "kretprobe": ({}, False),
    "kretprobe-both": ({"entry": True, "data": 8}, False),
    "kretprobe-both+ops": ({"entry": True, "data": 24}, True),
    "kretprobe-several": ({"entry": True, "data": 8, "several": 3}, False),
    "kretprobe-brk-several": ({"breakpoint": True, "entry": True, "data": 8, "several": 2}, False),
    "kretprobe-brk": ({"breakpoint": True, "maxactive": 1}, False),
    "kretprobe-brk-both": ({"breakpoint": True, "entry": True, "data": 8, "maxactive": 1}, False),
    "kretprobe-brk+ops": ({"breakpoint": True}, True),
}


@contextmanager
def hooked(lab: abi.Lab, hook: str) -> Iterator[KretprobeHooked]:
    """Attach a hook's kretprobe to every function, and an ops to all of them where the hook has one."""
    asked, shared = HOOKS[hook]
    probe = Kretprobe(observe=True, filter=FUNCTIONS, **asked)
    others = [Ops(filter=FUNCTIONS)] if shared else []
    with lab.kernel.attached(None, probe, *others) as registered, KretprobeHooked(lab, hook, registered, shared).watched() as h:
        yield h


class KretprobeHooked(KprobeHooked):
    """A lab with kretprobes on its functions."""

    def __init__(self, lab: abi.Lab, hook: str, registered: tuple, shared: bool) -> None:
        super().__init__(lab, hook, registered, shared)
        k, image = self.kernel, self.kernel.image
        layout = image.struct("lab_kretprobed")
        self._observed, self._count = image.address("lab_kretprobed"), image.address("lab_kretprobed_count")
        self._words, self._at = layout.size // 8, {n: f.offset // 8 for n, f in layout.fields.items()}
        self.own = k.features["kretprobe"] == "own"
        self._trampoline = image.address("__kretprobe_trampoline" if self.own else "arch_rethook_trampoline")
        task = image.struct("task_struct").fields["kretprobe_instances" if self.own else "rethooks"].offset
        self._balanced += ((image.address("init_task") + task, 8, "the list of hooked returns"),)
        self._fields = image.struct("kretprobe").fields

    @property
    def callbacks(self) -> set[str]:
        return set() if self.breaks else set(handlers(self.probe.request).values()) - {"pre_handler_kretprobe"}

    def _passed(self, function: str) -> tuple[str, ...]:
        """Without the way back, which leads to the return trampoline."""
        return tuple(r for r in super()._passed(function) if r != self.isa.link)

    def _expected(self, state: abi.State) -> list[dict[str, object]]:
        """One row per handler, in order. Of several on a function the first one at the entry finds the way back, and is the last
        at the return; to the others it is the trampoline."""
        call, isa, several = state.call, self.isa, self.probe.request.several
        both, back = self.probe.request.entry, self.machine.return_to
        first = call.values[0] if call.values else None
        kept = {r: state.registers[r] for r in isa.callee_saved if r in state.registers}

        def entered(name: str, ret_addr: int, registers: dict[str, int]) -> list[dict[str, object]]:
            found = [ret_addr, *[self._trampoline] * (several - 1)]
            return [{"function": name, "entered": 1, "ret_addr": way, "registers": registers} for way in found] * both

        def left(name: str, ret_addr: int, value: int | None, registers: dict[str, int]) -> list[dict[str, object]]:
            found = [*[ret_addr if self.own else self._trampoline] * (several - 1), ret_addr]
            return [{"function": name, "entered": 0, "ret_addr": way, "value": value, "registers": registers} for way in found]

        rows = entered(call.name, back, self._told(state))
        for (name, args), behind in zip(call.nested, self._returns_to, strict=False):
            given = dict(zip(isa.args, args, strict=False))
            rows += [*entered(name, behind, given), *left(name, behind, weigh(*args), {})]
        if call.jumps:  # both return at once, the one that was jumped to first; its way back is the trampoline
            name, args = call.jumps
            rows += entered(name, self._trampoline, dict(zip(isa.args, args, strict=False)))
            rows += left(name, back if self.own else self._trampoline, first, kept)
        return [*rows, *left(call.name, back, first, kept)]

    def _told(self, state: abi.State) -> dict[str, int]:
        return {r: v for r, v in super()._told(state).items() if r != self.isa.link}

    def _compare(self, expected: list[dict[str, object]], observed: list[tuple[int, ...]]) -> None:
        assert len(observed) == len(expected), f"{len(observed)} handlers ran, not {len(expected)}"
        k, at, notes = self.kernel, self._at, []
        for row, words in zip(expected, observed, strict=True):
            seen = {n: words[at[n]] for n in ("addr", "entered", "ret_addr", "value", "kretprobe", "running", "data")}
            where = f"{row['function']}, {'entry' if row['entered'] else 'return'}"
            assert seen["addr"] == self.addresses[row["function"]], f"{where}: {seen}"
            assert seen["entered"] == row["entered"], f"{where}: {seen}"
            assert seen["ret_addr"] == row["ret_addr"], f"{where}: {seen}, not {row['ret_addr']:#x}"
            assert row.get("value") in (None, seen["value"]), f"{where}: {seen['value']:#x}, not {row['value']:#x}"
            assert self.probe.structs[seen["kretprobe"]] == f"kprobe[{self.probe.index}]"
            for_all = row["entered"] and self.probe.request.several > 1
            running = self.probe.structs.get(seen["running"], "")
            assert running.endswith("aggregate") if for_all else seen["running"] == seen["kretprobe"], f"{where}: {seen}"
            if row["entered"] or k.features["return_save"] == "regs":
                given = {r: words[at["regs"] + slot(k, r)] for r in row["registers"]}
                wrong = [f"{r} is {given[r]:#x}, not {v:#x}" for r, v in row["registers"].items() if given[r] != v]
                assert not wrong, f"{where}: {', '.join(wrong)}"
            if self.probe.request.data and row["entered"]:
                notes.append(seen["data"])
            elif self.probe.request.data:
                assert seen["data"] == notes.pop(), f"{where}: this is not what this call's handler left at the entry"
        assert not notes
        missed = [k.machine.read(at + self._fields["nmissed"].offset, 4) for at, n in self.probe.structs.items() if n.endswith("]")]
        assert not any(map(any, missed)), "a call found no instance: some did not go back to the pool"
