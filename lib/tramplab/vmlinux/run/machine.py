"""A real kernel in the machine: its booted text, a CPU, room for what is registered, and calls of its functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext

from ...base.errors import TramplabError
from ...emulate.engine import PAGE
from ...emulate.image import Symbol
from ...emulate.machine import RECORD, Machine
from ...emulate.memory.memory import Area
from ...emulate.places import Places
from ...ftrace import arch
from ...ftrace.layout import Heap
from ...ftrace.ops import Generated
from ...ftrace.releases import Features
from ...ftrace.site import Site
from ...ftrace.steps import Step, Write
from ...isa.x86_64 import JMP
from ...lab.run import Run
from ...lab.view import View
from ..booted import CHECKED, FIRST_BYTES, Booted, boot, compiled
from ..booted.mitigations import NONE, RETURN_THUNKS
from ..open import variables
from ..open.features import features
from ..open.image import TRAMPOLINES, Opened
from ..open.traceable import forbidden, untraced
from . import arguments, cfi, passed, state
from .early import Traced, returning

#: A function of the kernel's own that its tests of BPF trampolines trace: int bpf_fentry_test1(int a), which returns a + 1.
FUNCTION = "bpf_fentry_test1"
#: The first of these that an image has is traced where nobody names one: a kernel without BPF or network has no such test.
USUAL = (FUNCTION, "vfs_read", "schedule")
#: Functions whose bodies are run: they take numbers and call nothing. The second returns the sum of an int and a u64.
WHOLE = (FUNCTION, "bpf_fentry_test2")
_GAP = 16 << 20  # bytes from the image's end to the module area, in multiples of which it begins
_RET = b"\xc3"  # x86-64's (Intel SDM vol. 2, RET)
_MODULES, _HEAP, _STACK, _OWN, _FAR = 64 * PAGE, 1024 * PAGE, 8 * PAGE, 16 * PAGE, 16 * PAGE
#: Offsets from the module area of data, of the stack, and of code that a call of 128 MiB does not reach. The stack's upper half is
#: where a task's would be: at an exception arm64 and riscv64 tell a full one by bit 14 of sp.
_HEAP_AT, _STACK_AT, _FAR_AT = 8 << 20, (14 << 20) + 4 * PAGE, 256 << 20


class RealMachine:
    """One real kernel, booted as far as calls of a function need.

    opened: the image. mitigations: see booted.mitigations. What is attached, and what calls write, is taken back by reset().
    """

    def __init__(self, opened: Opened, mitigations: str = NONE) -> None:
        self.opened, self.isa, self.mitigations = opened, opened.isa, mitigations
        self.booted: Booted = boot(opened, mitigations)
        end = max(s.address + s.size for s in opened.image.segments)
        modules = (-(-end // _GAP) + 1) * _GAP
        self._areas = {
            "modules": Area(modules, _MODULES, executable=True),  # near has the first half
            "own": Area(modules + _MODULES, _OWN, executable=True),
            "far": Area(modules + _FAR_AT, _FAR, executable=True),
        }
        heap = Area(modules + _HEAP_AT, _HEAP)
        stacks = (Area(modules + _STACK_AT, _STACK),)
        beside = (self._areas["own"], self._areas["far"], *arguments.areas(self.isa))
        places = Places(modules + _MODULES - 16, self._areas["modules"], heap, stacks, more=beside)
        self.machine = Machine(self.booted.image, places, RECORD)
        self.checks_calls = opened.has(CHECKED)
        self.made: list[Generated] = []
        if self.checks_calls:
            cfi.give_types(self.machine, self._areas["own"], lambda at: _name(self.made, at) is not None)
        self.heap = Heap(heap.address, heap.size, "there is no room left for what is registered: attach fewer ops.")
        self.cpu = state.boot(opened, self.machine, self.heap)
        self.features: Features = features(opened, self.booted.shape)
        self._variables: dict[str, int] = {}
        self.list_end = state.pointer(opened, self.machine.read_u64(self.data("ftrace_ops_list")))
        self.near = self._near()
        self.entered = 0
        self.at_body: list[dict[str, int]] = []
        self.stacked_at_body: list[list[int]] = []
        self._watches = ExitStack()
        self._taken: list[int] = []
        self._room: dict[str, int] = {}
        self.machine.name_of = self.name_of
        self.machine.keep()

    # what the image has

    @property
    def usual(self) -> str:
        """The function that is traced where nobody names one."""
        return next((name for name in USUAL if self.opened.has(name)), FUNCTION)

    @property
    def call_ops(self) -> bool:
        """Is there a pointer to the callsite's ops beside each function?"""
        return bool(self.features["call_ops"])

    def address(self, symbol: str) -> int:
        """The address of a function; raises TramplabError with near matches."""
        return self.opened.address(symbol)

    def data(self, name: str) -> int:
        """The address of a variable, also in an image that does not name its data; raises TramplabError where it cannot be
        found."""
        if name not in self._variables:
            self._variables[name] = variables.variable(self.opened, name)
        return self._variables[name]

    def function(self, name: str, whole: bool | None = None) -> Traced:
        """A traced function. whole: is its body run, or does it return at once (see early)? None: only that of a function of WHOLE.
        Raises TramplabError for one that is unknown or not traced."""
        symbol = self.opened.image.symbols.get(name)
        site = self._site(symbol) if symbol else None
        if symbol is None or site is None:
            raise untraced(self.opened, name, lambda s: self._site(s) is not None)
        second = site.body + self.machine.instruction_at(site.body).size
        return Traced(name, site, symbol.address, symbol.size, name in WHOLE if whole is None else whole, second)

    @property
    def leave(self) -> Callable[[int], bytes] | None:
        """address -> the bytes of a return there; None where it is the ISA's own. x86-64's with mitigations is a jump to its
        thunk."""
        thunk = RETURN_THUNKS.get(self.mitigations)
        return functools.partial(_jump, self.address(thunk)) if thunk and self.opened.has(thunk) else None

    # memory

    def write_u64(self, address: int, value: int) -> None:
        """Change a word of data; reset() puts back what was there."""
        self.write(address, (value & (1 << 64) - 1).to_bytes(8, "little"))

    def write(self, address: int, data: bytes) -> None:
        """Change text or data; reset() puts back what was there."""
        (self.machine.poke if self.machine.is_text(address) else self.machine.write)(address, data)

    def block(self, data: bytes) -> int:
        """Room for data, filled with it; gives its address."""
        address = self.room(len(data))
        self.machine.write(address, data)
        return address

    def room(self, size: int) -> int:
        """Room for so many bytes of data; gives its address."""
        address = self.heap.take(max(16, size))
        self._taken.append(address)
        return address

    def words(self, *values: int) -> int:
        """Room for words of 8 bytes; gives its address."""
        return self.block(b"".join((v & (1 << 64) - 1).to_bytes(8, "little") for v in values))

    def code(self, make: Callable[[int], bytes], name: str, where: str = "modules") -> int:
        """Room for code, filled with what make(address) gives; where: "modules", in which a return at the end is the kernel's (see
        leave), as a JIT has it; "own" (counted as callback); or "far"."""
        area = self._areas[where]
        address = self._room.get(where, area.address + (_MODULES // 2 if where == "modules" else 0)) + 15 & ~15
        address += cfi.ROOM if self.checks_calls and where == "own" else 0
        data = make(address)
        if where == "modules" and self.leave and data.endswith(_RET):
            data = data[:-1] + self.leave(address + len(data) - 1)
        if address + len(data) > area.end - 16:
            raise TramplabError("there is no room left for code: attach fewer ops.")
        self._room[where] = address + len(data)
        self.machine.poke(address, data)
        self.made.append(Generated(address, len(data), name))
        return address

    def empty_hash(self) -> int:
        """The hash that an ops without names to leave out points to."""
        if self.opened.has("empty_hash"):
            return self.opened.address("empty_hash")
        return self.block(bytes(self.opened.struct("ftrace_hash").size))

    def apply(self, steps: list[Step]) -> None:
        """Carry out what a plan writes; there is nobody to wait for."""
        for step in steps:
            if isinstance(step, Write):
                self.write(step.address, step.data)

    def reset(self) -> None:
        """Take back all that was attached, and all that calls wrote, also those that failed."""
        self.machine.put_back()
        for address in self._taken:
            self.heap.give(address)
        self._taken.clear()
        self.made.clear()
        self._room.clear()
        self.near = self._near()
        self._watches.close()

    def watch(self, address: int, call: Callable[[], None]) -> None:
        """Call call() before the instruction at an address is executed, until reset()."""
        self._watches.enter_context(self.machine.watching(address, call))

    # sites

    def call_from_site(self, site: Site, target: int) -> None:
        """Make a patch site call an address; raises TramplabError where it does not reach."""
        modes = arch.of(self.isa)
        if not modes.reaches(site, target, self.features, self.address):
            raise TramplabError(f"the patch site of {site.function} does not reach {target:#x}.")
        self.write(site.ip, modes.call_bytes(site, target, self.features, self.address))

    def reaches(self, site: Site, target: int) -> bool:
        """Can a patch site call an address itself?"""
        return arch.of(self.isa).reaches(site, target, self.features, self.address)

    def repoint(self, label: str, target: int) -> None:
        """Make the call at a label in a common trampoline lead elsewhere."""
        self.apply(arch.of(self.isa).patch_call(self.address(label), target, "", None))

    # calls

    def call(self, function: Traced, registers: dict[str, int]) -> Run:
        """Call a function as its callers do, with these registers and passed.stacked(), and watch. entered then says how often it
        was; at_body has the registers with which its body was reached, each time, and stacked_at_body those words. Raises
        GuestFault, StepLimit."""
        isa, stack = self.isa, passed.stacked(self.opened, function.name)
        self.entered = 0
        self.at_body.clear()
        self.stacked_at_body.clear()
        with (
            self.machine.watching(function.address, self._enter),
            self.machine.watching(function.site.body, lambda: self._arrived(len(stack))),
            nullcontext() if function.whole else returning(self.machine, function, self.at_body, self.leave),
        ):
            raw = self.machine.call(function.address, {isa.fp: self.machine.stack_top - 32, **registers}, stack)
            executed = self.machine.instructions(raw.tally.issued)
        made = tuple(self.made)
        view = View(isa, str(self), lambda at: _name(made, at) or self._symbol(at), self._component(function), lambda: executed)
        return Run(function, view, raw, ())

    def __str__(self) -> str:
        return f"{self.isa.name} {self.opened.version}"

    def name_of(self, address: int) -> str | None:
        """symbol+offset of an address, what was made for hooks included."""
        return _name(self.made, address) or self._symbol(address)

    def handlers(self, function: Traced) -> list[int]:
        """The addresses of own code, of all that was made, that a hook of this function calls."""
        component = self._component(function)
        return sorted({made.address for made in self.made if component(made.address) == "callback"})

    # inside

    def _arrived(self, stacked: int) -> None:
        """Called at a function's body: keep registers, and the words that its caller put on the stack."""
        self.at_body.append(self.machine.registers())
        first = self.at_body[-1][self.isa.sp] + self.isa.call_pushes
        self.stacked_at_body.append([self.machine.read_u64(first + 8 * n) for n in range(stacked)])

    def _near(self) -> Heap:
        return Heap(self._areas["modules"].address, _MODULES // 2, "there is no room left for trampolines: attach fewer ops.")

    def _enter(self) -> None:
        self.entered += 1

    def _symbol(self, address: int) -> str | None:
        return self.opened.image.where(address)

    def _site(self, symbol: Symbol) -> Site | None:
        """The patch site of a function, which must be idle; None if it has none that may be traced."""
        (first, last), entry = self.opened.text, symbol.address
        if not first <= entry < last or forbidden(self.opened, entry):
            return None
        at = compiled(self.isa.name, self.machine.read(entry, FIRST_BYTES), entry, self.booted.shape)
        return None if at is None else arch.of(self.isa).site(symbol.name, entry, at, self.features)

    def _component(self, function: Traced) -> Callable[[int], str]:
        site, end = function.site, function.end
        made = tuple(self.made)
        own_area, areas = self._areas["own"], (self._areas["modules"], self._areas["far"])

        @functools.cache
        def component(pc: int) -> str:
            if site.entry <= pc < site.body:
                return "site"
            if site.body <= pc < end:
                return "function"
            if own_area.address <= pc < own_area.end:
                return "callback"
            if any(a.address <= pc < a.end for a in areas):
                return "callback" if (_name(made, pc) or "").startswith("direct_target") else "trampoline"
            return "trampoline" if TRAMPOLINES.match((self._symbol(pc) or "").split("+")[0]) else "core"

        return component


def _name(made: Iterable[Generated], address: int) -> str | None:
    for g in made:
        if g.address <= address < g.address + g.size:
            return f"{g.name}+{address - g.address:#x}" if address > g.address else g.name
    return None


def _jump(target: int, address: int) -> bytes:
    return JMP.encode(address, target)
