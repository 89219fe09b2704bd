"""The check of abi.py with a kprobe on every function: through ftrace or by a breakpoint, alone or with an ops there besides.

Its handler writes down all registers that it is given, and uses up every one it may.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from support.abi import abi
from support.abi.abi_calls import FUNCTIONS
from tramplab import Kernel, Kprobe, Ops

#: hook -> what the kprobes are asked for, and whether an ops is there besides.
HOOKS: dict[str, tuple[dict[str, bool], bool]] = {
    "kprobe": ({}, False),
    "kprobe-post": ({"post": True}, False),
    "kprobe+ops": ({}, True),
    "kprobe-brk": ({"breakpoint": True}, False),
    "kprobe-brk-post": ({"breakpoint": True, "post": True}, False),
    "kprobe-brk+ops": ({"breakpoint": True}, True),
}
#: What an idle patch site writes, and what is written besides where it calls its trampoline.
SITE_WRITES = {"x86_64": set(), "arm64": {"x9"}, "riscv64": {"t0"}}
CALL_WRITES = {"x86_64": set(), "arm64": {"x30"}, "riscv64": {"ra", "t1"}}
_X86 = {"rip": "ip", "eflags": "flags"}


def slot(k: Kernel, register: str) -> int:
    """Where a register's word is in a struct pt_regs, in words."""
    fields = k.image.struct("pt_regs").fields
    if k.isa.name == "arm64":
        return fields["sp"].offset // 8 if register == "sp" else fields["regs"].offset // 8 + int(register[1:])
    if k.isa.name == "x86_64":
        register = _X86.get(register, register[1:] if register[1].isalpha() else register)
    return fields[register].offset // 8


@contextmanager
def hooked(lab: abi.Lab, hook: str) -> Iterator[KprobeHooked]:
    """Attach a hook's kprobe to every function, and an ops to all of them where the hook has one."""
    asked, shared = HOOKS[hook]
    probe = Kprobe(handler="lab_kprobe_observe", filter=FUNCTIONS, **asked)
    others = [Ops(filter=FUNCTIONS)] if shared else []
    with lab.kernel.attached(None, probe, *others) as registered, KprobeHooked(lab, hook, registered, shared).watched() as h:
        yield h


class KprobeHooked(abi.Hooked):
    """A lab with kprobes on its functions."""

    def __init__(self, lab: abi.Lab, hook: str, registered: tuple, shared: bool) -> None:
        super().__init__(lab, hook, registered)
        self.shared = shared
        k, image = self.kernel, self.kernel.image
        self.ops = []
        self.probe = registered[0]
        self.breaks = self.probe.request.breakpoint
        layout = image.struct("lab_kprobe_seen")
        self._observed, self._count = image.address("lab_kprobe_seen"), image.address("lab_kprobe_seen_count")
        self._words, self._at = layout.size // 8, {n: f.offset // 8 for n, f in layout.fields.items()}
        self._posts = image.address("lab_kprobe_posts")
        current = image.struct("lab_pcpu").fields["current_kprobe"].offset
        self._balanced += ((image.address("lab_boot_pcpu") + current, 8, "the CPU's current kprobe"),)
        maker = next(m for m in k.slowpath.makers if m.serves(self.probe.request))
        self.addresses = {f: maker._address(self.probe.request, f) for f in FUNCTIONS}

    @property
    def callbacks(self) -> set[str]:
        """A breakpoint's handler has interrupts off, whatever the function had."""
        return set() if self.breaks else {self.probe.request.handler}

    def _passed(self, function: str) -> tuple[str, ...]:
        """A breakpoint leaves every register as it was, but what the site writes; a site with an ops only what that one does."""
        if not self.breaks or self.shared:
            return super()._passed(function)
        wrote = SITE_WRITES[self.isa.name] if self.addresses[function] == self.lab.functions[function].address else set()
        return tuple(r for r in self.isa.registers if r not in self.isa.fixed and r not in wrote)

    def _through_regs_caller(self, wanting) -> bool:
        return not self.breaks and self.lab.place.had("regs")

    def _expected(self, state: abi.State) -> list[dict[str, object]]:
        call, isa = state.call, self.isa
        rows = [{"function": call.name, "args": [state.registers[r] for r in isa.args], "registers": self._told(state)}]
        rows += [{"function": name, "args": list(args)} for name, args in call.nested]
        if call.jumps:
            rows.append({"function": call.jumps[0], "args": list(call.jumps[1])})
        return rows

    def _told(self, state: abi.State) -> dict[str, int]:
        """What the handler is promised: every register where it is given a full pt_regs, else those of an ftrace_regs."""
        whole = {**state.registers, self.isa.sp: state.sp}
        isa = self.isa
        if self.breaks:  # behind the site an ops has left what it leaves
            behind = self.addresses[state.call.name] == self.lab.functions[state.call.name].site.body and self.shared
            return {r: v for r, v in whole.items() if not behind or r not in isa.scratch}
        full = self.lab.place.had("regs")
        wrote = SITE_WRITES[isa.name] | CALL_WRITES[isa.name]
        kept = {*whole} - wrote if full else {*isa.args, isa.sp, isa.fp}
        return {r: v for r, v in whole.items() if r in kept}

    def draw(self, seed: int, name: str | None = None) -> abi.State:
        self.machine.write_u64(self._posts, 0)
        return super().draw(seed, name)

    def _compare(self, expected: list[dict[str, object]], observed: list[tuple[int, ...]]) -> None:
        assert len(observed) == len(expected), f"{len(observed)} handlers ran, not {len(expected)}"
        k, regs = self.kernel, self._at["regs"]
        for row, words in zip(expected, observed, strict=True):
            address = self.addresses[row["function"]]
            seen = {n: words[self._at[n]] for n in ("addr", "ip", "kprobe", "running")}
            assert seen["addr"] == seen["ip"] == address, f"{row['function']}: {seen}, not {address:#x}"
            assert seen["running"] == seen["kprobe"] and self.probe.structs[seen["kprobe"]].startswith("kprobe[")
            given = dict(zip(self.isa.args, row["args"], strict=False)) | row.get("registers", {})
            wrong = [f"{r} is {words[regs + slot(k, r)]:#x}, not {v:#x}" for r, v in given.items() if words[regs + slot(k, r)] != v]
            assert not wrong, f"told of {row['function']}: {', '.join(wrong)}"
        posts = struct.unpack("<Q", self.machine.read(self._posts, 8))[0]
        assert posts == (len(expected) if self.probe.request.post else 0), f"{posts} post-handlers ran"
