"""The lab kernel's part of a native run: the content of memory, and the bytes of it that each hook changes.

Everything is made by the code that emulated runs use. A kernel is booted for user space in the emulator, the hook is
attached there, and what then differs from the idle kernel is the hook, as bytes; the emulated call of that very kernel is
what the native call must agree with. What calls change is in no list: the child keeps each page before the first write to it,
and puts the idle kernel's back before it attaches the next hook.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..base.arguments import whole
from ..base.errors import TramplabError
from ..emulate.machine import RECORD
from ..emulate.memory.memory import differences
from ..ftrace.ops import Request
from ..isa import Isa
from ..lab import hooks
from ..lab.kernel import Kernel
from ..lab.measure import FUNCTIONS
from ..lab.run import Run
from ..lab.view import Function
from ..trampolines import shapes
from ..trampolines.plain import Ops
from ..trampolines.sketch import Sketch

#: Calls go through the loop in the guest, which passes the arguments that travel in registers everywhere.
MAX_ARGS = 6
BASELINE = "none"

#: Further ones, on x86-64: trampolines that call what does nothing, as Andy Lutomirski asked to have them timed in October 2019 ->
#: the hook that calls what counts. The direct call of ten instructions is the other side's, and no hook of the lab's.
EMPTY = {
    "empty-ten": "",
    "empty-live": "ops-live",
    "empty-clobbered": "ops-clobbered",
    "empty-ops": "ops",
    "empty-ops-regs": "ops-regs",
}
_NOTHING = "ftrace_stub"

Attach = Callable[[Kernel, Function], AbstractContextManager]


@dataclass(frozen=True)
class Region:
    """A stretch of the guest's memory: its address, whether it is text, and what the idle kernel has there."""

    address: int
    text: bool
    data: bytes


@dataclass(frozen=True)
class State:
    """One hook in memory.

    name: the hook's.
    patches: (address, bytes with the hook), where the idle kernel has others.
    watched: addresses of the words that callbacks count in.
    value, seen: what the emulated call returned, and what it added to those words.
    code: a digest of what it executed, see executed().
    where: address -> symbol+offset.
    """

    name: str
    patches: tuple[tuple[int, bytes], ...]
    watched: tuple[int, ...]
    value: int
    seen: tuple[int, ...]
    code: str
    where: Callable[[int], str | None]


@dataclass(frozen=True)
class NativeKernel:
    """An idle kernel in user space and the states to run it in; the first state is the baseline, with nothing attached."""

    isa: Isa
    release: str
    function: str
    regions: tuple[Region, ...]
    states: tuple[State, ...]
    task: int
    cpu: int
    stack: int
    repeat: int
    chain: int


def boot(isa: Isa, release: str, **overrides: Any) -> Kernel:
    """A lab kernel that is built for a process, booted in the emulator."""
    return Kernel(isa.in_user_space, release, meter=RECORD, **overrides)


def subject(isa: Isa, release: str, variants: dict[str, Attach], args: int) -> NativeKernel:
    """Boot, attach and call in the emulator, once per variant; a baseline is put first.

    Each variant gets a kernel of its own, so what it changes does not depend on the others. Raises TramplabError for what
    the release cannot do.
    """
    args = whole(args, "args")
    if not 0 <= args <= MAX_ARGS:
        raise TramplabError(f"a native call passes 0 to {MAX_ARGS} arguments, not {args}.")
    idle = boot(isa, release)
    regions = tuple(_regions(idle))
    every = {BASELINE: hook(BASELINE), **variants}
    states = tuple(_state(boot(isa, release), regions, name, attach, args) for name, attach in every.items())
    image, machine = idle.image, idle.machine
    return NativeKernel(
        isa,
        release,
        FUNCTIONS[args],
        regions,
        states,
        task=image.address("init_task"),
        cpu=image.address("lab_boot_pcpu"),
        stack=machine.stack_top - 64,
        repeat=image.address("lab_repeat"),
        chain=image.address("lab_chain"),
    )


def hook(spec: str) -> Attach:
    """A hook by name, or NAME:K for K callbacks; raises TramplabError for an unknown one."""
    if spec in EMPTY:
        return lambda kernel, function: kernel.attached(function, _empty(EMPTY[spec]))
    name, callbacks = hooks.parted(spec)
    if not re.fullmatch(r"[^:]+(:[0-9]{1,4})?", spec):
        raise TramplabError(f"a hook is written NAME or NAME:CALLBACKS, e.g. ops:10, not {spec!r}.")
    chosen = hooks.get(name)
    requests = hooks.requests(chosen, callbacks)
    if chosen.traps:
        raise TramplabError(f"{name} is a breakpoint, which the lab takes in the emulator only; choose another hook.")

    @contextmanager
    def attach(kernel: Kernel, function: Function) -> Iterator[None]:
        hooks.require(chosen, kernel.features)
        with kernel.attached(function, *requests):
            yield

    return attach


def _empty(hook: str) -> Request:
    """What a hook asks for, calling what does nothing."""
    if not hook:
        return Sketch(program=_NOTHING)
    (asked,) = hooks.requests(hooks.get(hook), 1)
    assert isinstance(asked, Ops)
    return replace(asked, callback=_NOTHING)


def shape(chosen: shapes.Shape) -> Attach:
    """A trampoline of a given shape."""
    return lambda kernel, function: kernel.attached(function, chosen)


def _state(kernel: Kernel, regions: tuple[Region, ...], name: str, attach: Attach, args: int) -> State:
    function = kernel.function(FUNCTIONS[args])
    kernel.apply(kernel.slowpath.arch.patch_call(kernel.image.address("lab_repeat_call"), function.address, "the loop"))
    with attach(kernel, function):
        read = kernel.machine.read
        patches = [
            (r.address + start, now[start:end])
            for r in regions
            for now in (read(r.address, len(r.data)),)
            for start, end in differences(r.data, now)
        ]
        watched = [kernel.image.address(s) for s in ("lab_direct_hits", "lab_observed_count")]
        watched += [kernel.slowpath.memory.hits(o.index) for o in kernel.slowpath.counted]
        run = kernel.call(function, *range(1, args + 1))
        seen = tuple(kernel.machine.read_u64(w) for w in watched)
        return State(name, tuple(patches), tuple(watched), run.value, seen, executed(run), kernel.names())


def executed(run: Run) -> str:
    """What a recorded call executed, as 16 hex digits: every instruction in order, by its mnemonic and the sizes of its loads and
    stores. Addresses, registers and constants are left out: they differ with where the linker puts things."""
    kinds = {pc: i.mnemonic for pc, i in run.instructions.items()}
    lines = ("".join([kinds[s.pc], *(f" {'s' if store else 'l'}{size}" for _, size, store in s.accesses)]) for s in run.steps)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _regions(kernel: Kernel) -> Iterator[Region]:
    """All memory of an idle kernel."""
    machine = kernel.machine
    spans = [(s.address, s.size, s.executable) for s in kernel.image.segments]
    areas = (machine.places.modules, machine.places.heap, machine.stack)
    spans += [(a.address, a.size, a.executable) for a in areas]
    for address, size, text in spans:
        yield Region(address, text, machine.read(address, size))
