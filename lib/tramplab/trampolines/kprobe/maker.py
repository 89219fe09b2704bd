"""Making kprobes: a struct for each function, in the table where all are found; an ops for those through ftrace, a breakpoint in
the text for the others, and a slot for the instruction that it replaces."""

from __future__ import annotations

from dataclasses import dataclass, field

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
#: The handler of one that stands for several at its address.
_AGGREGATE = "aggr_pre_handler"
#: KPROBE_FLAG_FTRACE (include/linux/kprobes.h).
_FTRACE = 8
#: One for each ISA.
MODULES: dict[str, KprobeArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


@dataclass
class _Made:
    """What the kprobes of an ops take, and the steps that make them.

    probes: address -> the kprobe that is found for it. listed: the steps that put these into the table. armed, back: breakpoints,
    and what they take the place of.
    """

    guest: Guest
    index: int
    steps: list[Step] = field(default_factory=list)
    probes: dict[int, int] = field(default_factory=dict)
    listed: list[Step] = field(default_factory=list)
    structs: dict[int, str] = field(default_factory=dict)
    generated: list[Generated] = field(default_factory=list)
    armed: list[Write] = field(default_factory=list)
    back: list[Write] = field(default_factory=list)
    taken: list[Free] = field(default_factory=list)
    counters: list[int] = field(default_factory=list)

    def heap(self, size: int, what: str = "") -> int:
        """Memory for a struct."""
        at = self.guest.heap.take(size)
        self.taken.append(Free(self.guest.heap, at, what or "a kprobe"))
        if what:
            self.structs[at] = f"kprobe[{self.index}]'s {what}"
        return at

    def slot(self) -> int:
        """Memory for the instruction that a breakpoint takes the place of."""
        at = self.guest.modules.take(SLOT)
        self.taken.append(Free(self.guest.modules, at, "a slot for the probed instruction"))
        return at

    def give_back(self) -> None:
        """All that was taken."""
        for step in self.taken:
            step.owner.give(step.what)
        for number in self.counters:
            self.guest.counters.give(number)


class Kprobes:
    """Registers them."""

    def __init__(self, guest: Guest) -> None:
        self._guest, self._image = guest, guest.image
        self._own = MODULES[guest.image.isa.name]
        self._table = Table(guest.image)
        self._made: dict[int, _Made] = {}  # by the index of an ops

    def serves(self, request: Request) -> bool:
        """A kprobe."""
        return isinstance(request, Kprobe)

    def check(self, request: Kprobe, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if kprobes do not go through ftrace here, or there is one already."""
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
        """The kernel's ops for kprobes, which is in its own data; with a post-handler the one that may change the ip. Of one by a
        breakpoint ftrace knows nothing."""
        go_to = self._image.address(request.go_to) if request.go_to else 0
        if request.breakpoint:
            return Registered(request, self._image.address("kprobe_trap"), 0, functions, go_to=go_to, breakpoint=True)
        flags = FL_ENABLED | (FL_SAVE_REGS if self._guest.features["regs"] else 0)
        flags |= FL_IPMODIFY if request.post or request.go_to else 0
        return Registered(request, self._image.address("kprobe_ftrace_handler"), flags, functions, go_to=go_to)

    def create(self, ops: Registered) -> list[Step]:
        """The structs and what they need, in the table; last the breakpoints, or the trampoline."""
        request, made = ops.request, _Made(self._guest, ops.index)
        event: dict[str, int] = {}
        try:
            if request.bpf:
                event, made.counters, made.steps = programs.programs(self._guest, made.heap, request)
            for function in ops.functions:
                self._probe(made, request, function, event)
            if not request.breakpoint and self._guest.features["per_ops_trampoline"]:
                made.steps += copied.create(self._image, self._guest.modules, ops)
        except TramplabError:
            for at in made.probes:
                self._table.remove(at)
            made.give_back()
            raise
        steps = made.steps
        if request.breakpoint:
            private = fields(self._image, "lab_private", {"go_to": ops.go_to})
            steps.append(block(private_of(self._image, ops.index), private, "it has seen no call"))
        steps += made.listed
        ops.structs, ops.generated = made.structs, (*ops.generated, *made.generated)
        self._made[ops.index] = made
        if made.armed:
            handler = self._image.address("kprobe_trap")
            steps.append(word(self._image.address("lab_trap_handler"), handler, "who is asked about breakpoints"))
            steps += self._own.write([*made.armed])
        return steps

    def free(self, ops: Registered) -> list[Step]:
        """Breakpoints go, then the structs leave the table, and when nobody can be in them any more, all is given back."""
        made = self._made.pop(ops.index, _Made(self._guest, ops.index))  # nothing where it could not be made
        steps = self._own.write([*made.back]) if made.back else []
        steps += [self._table.remove(at) for at in made.probes]
        steps += [Wait(Sync.RCU, "nobody is handling it any more")] if made.taken else []
        steps += made.taken
        steps += [Free(self._guest.counters, number, "a per-CPU counter") for number in made.counters]
        own = [g for g in ops.generated if g.name != NAME]
        return steps + [Free(self._guest.modules, g.address, "the trampoline of its ops") for g in own]

    # inside

    def _probe(self, made: _Made, request: Kprobe, function: str, event: dict[str, int]) -> None:
        """The kprobes of one function, and where they are several the one that stands for them."""
        at = self._address(request, function)
        private, flags = private_of(self._image, made.index), 0 if request.breakpoint else _FTRACE
        values = {"addr": at, "private": private, "flags": flags, **self._handlers(request)}
        if request.breakpoint:
            values |= self._stepped(made, function, at)
        several = request.several if isinstance(request, Kretprobe) else 1
        probe = 0
        for _ in range(several):
            older, probe = probe, made.heap(self._image.struct(_outer(request)).size)
            more = {programs.STRUCT: event} if request.bpf else {}
            if isinstance(request, Kretprobe):
                members, own = kretprobe.members(self._guest, made.heap, request, probe)
                more = {kretprobe.STRUCT: members, **more}
                made.steps += own
            made.structs[probe] = f"kprobe[{made.index}]"
            made.steps.append(block(probe, self._struct(at, {**values, "list": older}, more), "the kprobe"))
        if several > 1:
            older, probe = probe, made.heap(self._image.struct(KPROBE).size, "aggregate")
            values |= {"pre_handler": self._image.address(_AGGREGATE), "list": older}
            made.steps.append(block(probe, self._struct(at, values, {}), "the kprobe that stands for them"))
        made.listed.append(self._table.add(at, probe))
        made.probes[at] = probe

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
        """One kprobe, the first member of each of these structs, the smaller first, by what else they have."""
        data = fields(self._image, KPROBE, {**values, "next": self._table.first(at)})
        for name, members in outer.items():
            data += fields(self._image, name, members)[len(data) :]
        return data

    def _stepped(self, made: _Made, function: str, at: int) -> dict[str, int]:
        """How the instruction at an address is done, and the members of struct kprobe that say so."""
        i = decode.at(self._image.isa, at, self._text(function, at))
        place = made.slot()
        how = self._own.stepped(i, place)
        granule = len(how.breakpoint)
        made.armed.append(text(at, how.breakpoint, f"{function}: breakpoint, in place of {i.text}", granule))
        made.back.append(text(at, i.data[:granule], f"{function}: {i.text} is back", granule))
        values = {"opcode": int.from_bytes(i.data[:4], "little")}
        if how.simulate:
            return values | {"simulate": self._image.address(how.simulate)}
        made.steps.append(text(place, how.copy + how.behind, f"{function}: {i.text}, and a breakpoint behind it"))
        made.generated.append(Generated(place, len(how.copy + how.behind), NAME))
        return values | {"slot": place, "slot_end": place + len(how.copy), "resume": at + i.size}

    def _text(self, function: str, at: int) -> bytes:
        """What a site holds since boot, or what was compiled."""
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
