"""Making kprobes: a struct for each function, in the table where all are found; an ops for those through ftrace, a breakpoint in
the text for the others, and a slot for the instruction that it replaces."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...emulate import decode
from ...ftrace import arch
from ...ftrace.layout import fields, private_of
from ...ftrace.ops import FL_ENABLED, FL_IPMODIFY, FL_SAVE_REGS, Generated, Registered, Request
from ...ftrace.releases import history
from ...ftrace.steps import Free, Step, Sync, Wait, Write, block, text, word
from ..guest import Guest
from ..plain import copied
from . import arm64, kretprobe, programs, riscv64, x86_64
from .kretprobe import Kretprobe
from .protocol import NAME, SLOT, KprobeArch
from .request import Kprobe
from .table import Table

KPROBE = "kprobe"
#: The handler of a kprobe that stands for several at its address.
_AGGREGATE = "aggr_pre_handler"
#: KPROBE_FLAG_FTRACE (include/linux/kprobes.h).
_FTRACE = 8
#: The module of each ISA.
MODULES: dict[str, KprobeArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


class Kprobes:
    """The maker of kprobes and kretprobes."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._image = guest, guest.image
        self._own = MODULES[guest.image.isa.name]
        self._table = Table(guest.image)
        self._probed: dict[int, tuple[int, ...]] = {}  # index of an ops -> where its kprobes are
        self._breakpoints: dict[int, list[Write]] = {}  # index of an ops -> the writes that put back what a breakpoint replaced
        self._taken: dict[int, list[Free]] = {}
        self._counters: dict[int, list[int]] = {}

    def serves(self, request: Request) -> bool:
        """Is it a kprobe or a kretprobe?"""
        return isinstance(request, Kprobe)

    def check(self, request: Kprobe, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if kprobes do not go through ftrace here, or a function has one already."""
        features = self._guest.features
        if not request.breakpoint and not features["kprobes_on_ftrace"]:
            when = history(features.isa, "kprobes_on_ftrace")
            raise TramplabError(
                f"{features} has no kprobes through ftrace; {features.isa} has them {when}; breakpoint=True asks for one by a "
                "breakpoint, and kprobes_on_ftrace=True builds what no kernel had."
            )
        if isinstance(request, Kretprobe):
            kretprobe.check(self._guest, request)
        instead = kretprobe.TOGETHER if isinstance(request, Kretprobe) else ""
        for f in functions:
            self._table.require_free(self._address(request, f), instead)

    def make(self, request: Kprobe, functions: tuple[str, ...]) -> Registered:
        """The registration: the kernel's ops for kprobes, which is in its own data; with a post-handler the one that may change the
        ip. Of a kprobe by a breakpoint ftrace knows nothing."""
        go_to = self._image.address(request.go_to) if request.go_to else 0
        if request.breakpoint:
            return Registered(request, self._image.address("kprobe_trap"), 0, functions, go_to=go_to, breakpoint=True)
        flags = FL_ENABLED | (FL_SAVE_REGS if self._guest.features["regs"] else 0)
        flags |= FL_IPMODIFY if request.post or request.go_to else 0
        return Registered(request, self._image.address("kprobe_ftrace_handler"), flags, functions, go_to=go_to)

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make the structs, put them into the table, and last write the breakpoints, or the trampoline."""
        taken: list[Free] = []
        made: list[Generated] = []
        structs: dict[int, str] = {}

        def heap(size: int, what: str = "") -> int:
            at = self._guest.heap.take(size)
            taken.append(Free(self._guest.heap, at, what or "a kprobe"))
            if what:
                structs[at] = f"kprobe[{ops.index}]'s {what}"
            return at

        def slot(size: int) -> int:
            at = self._guest.modules.take(size)
            taken.append(Free(self._guest.modules, at, "a slot for the probed instruction"))
            return at

        counters: list[int] = []
        request = ops.request
        event: dict[str, int] = {}
        several = request.several if isinstance(request, Kretprobe) else 1
        steps: list[Step] = []
        armed: list[Write] = []
        back: list[Write] = []
        probes: dict[int, int] = {}
        listed: list[Step] = []
        try:
            if request.bpf:
                event, counters, steps = programs.programs(self._guest, heap, request)
            for f in ops.functions:
                at = self._address(request, f)
                flags = 0 if request.breakpoint else _FTRACE
                values = {"addr": at, "private": private_of(self._image, ops.index), "flags": flags, **self._handlers(request)}
                if request.breakpoint:
                    values |= self._stepped(f, at, slot, made, steps, armed, back)
                older = 0
                for _ in range(several):
                    probe = heap(self._image.struct(_outer(request)).size)
                    more = {programs.STRUCT: event} if request.bpf else {}
                    if isinstance(request, Kretprobe):
                        members, own = kretprobe.members(self._guest, heap, request, probe)
                        more = {kretprobe.STRUCT: members, **more}
                        steps += own
                    structs[probe] = f"kprobe[{ops.index}]"
                    steps.append(block(probe, self._struct(at, {**values, "list": older}, more), "the kprobe"))
                    older = probe
                if several > 1:
                    probe = heap(self._image.struct(KPROBE).size, "aggregate")
                    values |= {"pre_handler": self._image.address(_AGGREGATE), "list": older}
                    steps.append(block(probe, self._struct(at, values, {}), "the kprobe that stands for them"))
                listed.append(self._table.add(at, probe))
                probes[at] = probe
            if not request.breakpoint and self._guest.features["per_ops_trampoline"]:
                steps += copied.create(self._image, self._guest.modules, ops)
        except TramplabError:
            for at in probes:
                self._table.remove(at)
            for step in taken:
                step.owner.give(step.what)
            for number in counters:
                self._guest.counters.give(number)
            raise
        if request.breakpoint:
            private = fields(self._image, "lab_private", {"go_to": ops.go_to})
            steps.append(block(private_of(self._image, ops.index), private, "it has seen no call"))
        steps += listed
        ops.structs = structs
        ops.generated = (*ops.generated, *made)
        self._probed[ops.index], self._breakpoints[ops.index] = tuple(probes), back
        self._taken[ops.index], self._counters[ops.index] = taken, counters
        if armed:
            handler = self._image.address("kprobe_trap")
            steps.append(word(self._image.address("lab_trap_handler"), handler, "who is asked about breakpoints"))
            steps += self._own.write([*armed])
        return steps

    def free(self, ops: Registered) -> list[Step]:
        """The steps that remove the breakpoints, take the structs out of the table, and free all when nobody can be in them."""
        steps: list[Step] = []
        if back := self._breakpoints.pop(ops.index, []):
            steps += self._own.write([*back])
        steps += [self._table.remove(at) for at in self._probed.pop(ops.index, ())]
        taken = self._taken.pop(ops.index, [])
        if taken:
            steps.append(Wait(Sync.RCU, "nobody is handling it any more"))
        steps += taken
        steps += [Free(self._guest.counters, number, "a per-CPU counter") for number in self._counters.pop(ops.index, ())]
        own = [g for g in ops.generated if g.name != NAME]
        return steps + [Free(self._guest.modules, g.address, "the trampoline of its ops") for g in own]

    # inside

    def _address(self, request: Kprobe, function: str) -> int:
        site = self._guest.sites[function]
        return self._own.place(site) if request.breakpoint else site.ip

    def _handlers(self, request: Kprobe) -> dict[str, int]:
        if isinstance(request, Kretprobe):
            return {"pre_handler": self._image.address(kretprobe.handlers(request)["pre_handler"])}
        before = "kprobe_dispatcher" if request.bpf else request.handler
        found = {"pre_handler": self._image.address(before)}
        return found | ({"post_handler": self._image.address("lab_kprobe_post")} if request.post else {})

    def _struct(self, at: int, values: dict[str, int], outer: dict[str, dict[str, int]]) -> bytes:
        """The bytes of a kprobe inside the structs that begin with it.

        values: members of struct kprobe.
        outer: struct -> its members besides the one inside it, the smallest struct first.
        """
        data = fields(self._image, KPROBE, {**values, "next": self._table.first(at)})
        for name, members in outer.items():
            data += fields(self._image, name, members)[len(data) :]
        return data

    def _stepped(
        self,
        function: str,
        at: int,
        slot: programs.Take,
        made: list[Generated],
        steps: list[Step],
        armed: list[Write],
        back: list[Write],
    ) -> dict[str, int]:
        """The members of struct kprobe for the probed instruction at an address.

        made, steps: get the slot with a copy of the instruction, unless it is simulated.
        armed, back: get the writes of the breakpoint, and of what it replaces.
        """
        i = decode.at(self._image.isa, at, self._text(function, at))
        place = slot(SLOT)
        how = self._own.stepped(i, place)
        granule = len(how.breakpoint)
        armed.append(text(at, how.breakpoint, f"{function}: breakpoint, in place of {i.text}", granule))
        back.append(text(at, i.data[:granule], f"{function}: {i.text} is back", granule))
        values = {"opcode": int.from_bytes(i.data[:4], "little")}
        if how.simulate:
            return values | {"simulate": self._image.address(how.simulate)}
        steps.append(text(place, how.copy + how.behind, f"{function}: {i.text}, and a breakpoint behind it"))
        made.append(Generated(place, len(how.copy + how.behind), NAME))
        return values | {"slot": place, "slot_end": place + len(how.copy), "resume": at + i.size}

    def _text(self, function: str, at: int) -> bytes:
        """The bytes at an address: those that a site holds since boot, or that were compiled."""
        site, image = self._guest.sites[function], self._image
        for step in arch.of(image.isa).boot(site, self._guest.features, image.address):
            if isinstance(step, Write) and step.address == at:
                return step.data
        (segment,) = (s for s in image.segments if s.address <= at < s.address + s.size)
        return segment.data[at - segment.address :][: image.isa.max_insn]


def _outer(request: Kprobe) -> str:
    """The largest struct that begins with the kprobe."""
    if request.bpf:
        return programs.STRUCT
    return kretprobe.STRUCT if isinstance(request, Kretprobe) else KPROBE
