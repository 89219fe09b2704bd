"""One emulated CPU with a lab kernel loaded. The only module that knows Unicorn.

Two rules of this engine are enforced here (see book/method.md): text is only ever written through poke(), which also
drops the translations of it, and kernel addresses need the virtual TLB.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import unicorn
from unicorn import UC_HOOK_CODE, UC_HOOK_MEM_INVALID, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UcError
from unicorn.unicorn_py3.unicorn import uclib

from ..errors import TramplabError, unknown
from . import decode, trouble
from .image import Image
from .meter import CMeter, PyMeter, Tally, library

PAGE = 4096
STACK_SIZE = 4 * PAGE
MODULE_SIZE = 16 * PAGE
HEAP_SIZE = 64 * PAGE
#: Offsets from the ISA's module_base.
HEAP_OFFSET, STACK_OFFSET = 0x800000, 0xC00000
DEFAULT_BUDGET = 2_000_000
MAX_EVENTS = 200_000
NONE, COUNT, RECORD = METERS = ("none", "count", "record")


@dataclass(frozen=True)
class RawRun:
    """One call, before anybody interprets it.

    registers: after the return. tally: per instruction. events: a recording (else empty), see meter.EVENT.
    """

    registers: dict[str, int]
    tally: Tally
    events: np.ndarray


_ACCESSES = {
    unicorn.UC_MEM_READ_UNMAPPED: "read of",
    unicorn.UC_MEM_WRITE_UNMAPPED: "write to",
    unicorn.UC_MEM_WRITE_PROT: "forbidden write to",
    unicorn.UC_MEM_FETCH_UNMAPPED: "jump to",
    unicorn.UC_MEM_FETCH_PROT: "jump to",
}


class _Batch:
    """Reads many registers in one call of the engine's library: ten times as fast as one by one."""

    def __init__(self, ids: list[int]) -> None:
        self._ids = (ctypes.c_int * len(ids))(*ids)
        self._values = (ctypes.c_uint64 * len(ids))()
        size = ctypes.sizeof(ctypes.c_uint64)
        self._places = (ctypes.c_void_p * len(ids))(
            *(ctypes.addressof(self._values) + size * i for i in range(len(ids)))
        )

    def read(self, uc: unicorn.Uc) -> list[int]:
        """The values, in the order of the ids."""
        status = uclib.uc_reg_read_batch(uc._uch, self._ids, self._places, len(self._ids))
        if status:
            raise TramplabError(f"the emulator refused to read registers (error {status}).")
        return list(self._values)


class Machine:
    """An emulated CPU. meter: "none", "count" or "record"; python_meter forces the slow fallback."""

    def __init__(self, image: Image, meter: str = COUNT, python_meter: bool = False) -> None:
        self.image, self.isa = image, image.isa
        isa = self.isa
        arch, mode, model = isa.unicorn
        self._uc = unicorn.Uc(getattr(unicorn, arch), getattr(unicorn, mode))
        if model:
            self._uc.ctl_set_cpu_model(model)
        self._uc.ctl_set_tlb_mode(unicorn.UC_TLB_VIRTUAL)
        self._constants = getattr(unicorn, f"{isa.unicorn_prefix}_const")
        self._ids = {r: self.register_id(r) for r in (*isa.registers, isa.pc)}
        self._batch = _Batch(list(self._ids.values()))
        self._invalid: tuple[str, int] | None = None
        self._decoded: dict[int, decode.Instruction] = {}  # of text as it is now; only poke() changes that
        self._pages: dict[int, bytes] = {}  # of text, likewise
        self.name_of = image.where  # whoever generates code replaces it by one that knows that code too
        self.heap, self.stack_top = isa.module_base + HEAP_OFFSET, isa.module_base + STACK_OFFSET + STACK_SIZE
        low = self.stack_top - STACK_SIZE
        self.stack_guard = (low - PAGE, low)
        self.return_to = image.address("lab_return")
        self._map()
        self._uc.hook_add(UC_HOOK_MEM_INVALID, self._on_invalid)
        self._make_meter(python_meter)
        self._hooks: list = []
        self.meter = NONE
        self.set_meter(meter)

    # memory

    def poke(self, address: int, data: bytes) -> None:
        """Write text: the bytes, and away with every translation of what was there."""
        if not data:
            return
        bits = int.from_bytes(self.read(address, len(data)), "little") ^ int.from_bytes(data, "little")
        self._write(address, data)
        self._uc.ctl_remove_cache(address, address + len(data))
        if bits:  # from the first byte that changes to the last; what is the same byte by byte is decoded already
            first, last = address + ((bits & -bits).bit_length() - 1) // 8, address + (bits.bit_length() - 1) // 8
            for pc in range(first - self.isa.max_insn + 1, last + 1):
                self._decoded.pop(pc, None)
            for page in range(first & -PAGE, last + 1, PAGE):
                self._pages.pop(page, None)

    def write(self, address: int, data: bytes) -> None:
        """Write data; refuses text, which must go through poke()."""
        if self.is_text(address):
            raise TramplabError(f"{address:#x} is text; it must be written through poke().")
        self._write(address, data)

    def is_text(self, address: int) -> bool:
        """Does an address lie in executable memory?"""
        return any(base <= address < base + size for base, size in self.text)

    def read(self, address: int, size: int) -> bytes:
        try:
            return bytes(self._uc.mem_read(address, size))
        except UcError:
            raise TramplabError(f"nothing is mapped at {address:#x} in the {self.isa.name} guest.") from None

    def read_u64(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def write_u64(self, address: int, value: int) -> None:
        self.write(address, (value & (1 << 64) - 1).to_bytes(8, "little"))

    # registers

    def register_id(self, name: str) -> int:
        """The engine's number of a register (general or special, e.g. GS_BASE)."""
        prefix = f"UC_{self.isa.unicorn_prefix.upper()}_REG_"
        return getattr(self._constants, prefix + name.upper())

    def set_register(self, name: str, value: int) -> None:
        self._uc.reg_write(self.register_id(name), value & (1 << 64) - 1)

    def register(self, name: str) -> int:
        return self._uc.reg_read(self.register_id(name)) & (1 << 64) - 1

    def registers(self) -> dict[str, int]:
        """All general registers and the program counter, as they are now."""
        return dict(zip(self._ids, self._batch.read(self._uc), strict=True))

    # running

    def set_meter(self, kind: str) -> None:
        """Choose what is observed from the next call on: "none", "count" or "record"."""
        if kind not in METERS:
            raise unknown("meter", kind, METERS)
        if kind == self.meter:
            return
        for hook in self._hooks:
            hook()
        self._hooks = []
        if kind == COUNT:
            self._hook(UC_HOOK_CODE, "count")
        elif kind == RECORD:
            self._hook(UC_HOOK_CODE, "record")
            self._hook(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, "access")
        self._uc.ctl_flush_tb()  # translations made before a hook was added do not call it
        self.meter = kind

    def call(
        self, address: int, registers: dict[str, int], stack: list[int] = (), budget: int = DEFAULT_BUDGET
    ) -> RawRun:
        """Call the function at an address and run until it returns to lab_return.

        registers: name -> value, set before the call (the rest keep their values). stack: 8-byte words above the return
        address. Raises GuestFault or StepLimit; memory keeps what the guest did until then.
        """
        self.enter(registers, stack)
        return self.run(address, self.return_to, budget)

    def enter(self, registers: dict[str, int], stack: list[int] = ()) -> None:
        """Set registers and stack as a caller does who is to be returned to at lab_return; see call."""
        sp = registers.get(self.isa.sp, self.stack_top - 64)
        words = list(stack)
        sp -= 8 * len(words)
        sp &= ~15
        if self.isa.link is None:
            words.insert(0, self.return_to)
            sp -= 8
        self._write(sp, b"".join((w & (1 << 64) - 1).to_bytes(8, "little") for w in words))
        for name, value in registers.items():
            if name not in self._ids:
                raise unknown(f"{self.isa.name} register", name, self._ids)
            self._uc.reg_write(self._ids[name], value & (1 << 64) - 1)
        if self.isa.link is not None:
            self._uc.reg_write(self._ids[self.isa.link], self.return_to)
        self._uc.reg_write(self._ids[self.isa.sp], sp)

    def run(self, start: int, until: int, budget: int = DEFAULT_BUDGET) -> RawRun:
        """Run from start until pc == until, with the registers as they are."""
        self._invalid = None
        self._meter.begin(start, budget, MAX_EVENTS if self.meter == RECORD else 0)
        try:
            self._uc.emu_start(start, until)
        except UcError as e:
            # a translation of nothing has no size, so dropping it by address would miss it
            self._uc.ctl_flush_tb()
            raise trouble.fault(self, str(e)) from None
        pc = self.register(self.isa.pc)
        tally = self._meter.end(pc) if self.meter != NONE else Tally({}, False)
        if tally.stopped:
            raise trouble.endless(self, until, budget)
        if pc != until:
            raise trouble.halted(self)
        return RawRun(self.registers(), tally, self.events())

    def step(self, until: int, pc: int | None = None) -> bool:
        """Go on by one instruction, from pc or from where the CPU is; False if it cannot. Needs a meter, whose budget ends it.

        The engine's own count is of no use: it does not end code that was translated, and chained to itself, before.
        """
        pc = self.register(self.isa.pc) if pc is None else pc
        self._meter.begin(pc, 1, MAX_EVENTS if self.meter == RECORD else 0, clear=False)
        try:
            self._uc.emu_start(pc, until)
        except UcError:
            return False
        return True

    def events(self) -> np.ndarray:
        """What the last run or step recorded, see meter.EVENT; nothing without the meter "record"."""
        return self._meter.events() if self.meter == RECORD else np.zeros(0)

    @property
    def last_issued(self) -> int | None:
        """The address of the last instruction issued in this run; None if none was, or nothing is metered."""
        return self._meter.last if self.meter != NONE else None

    @property
    def invalid_access(self) -> tuple[str, int] | None:
        """What kind of access ended the last run ("read of", "jump to", ...) and its address; None if none did."""
        return self._invalid

    def instructions(self, addresses: Iterable[int]) -> dict[int, decode.Instruction]:
        """What memory holds at these addresses now, decoded."""
        known = self._decoded
        return {pc: known.get(pc) or self.instruction_at(pc) for pc in addresses}

    def instruction_at(self, pc: int) -> decode.Instruction:
        """Decode what memory holds at pc now."""
        found = self._decoded.get(pc)
        if found is None:
            end = next((b + n for b, n in self.text if b <= pc < b + n), None)
            size = min(self.isa.max_insn, end - pc if end else self.isa.max_insn)
            data = self._text(pc, size) if end else self.read(pc, size)
            found = decode.at(self.isa, pc, data)
            if end:
                self._decoded[pc] = found
        return found

    # inside

    def _text(self, address: int, size: int) -> bytes:
        """Bytes of text; pages are read whole, which for many instructions is a few calls of the engine instead of many."""
        page = address & -PAGE
        if address + size > page + PAGE:
            return self.read(address, size)
        if page not in self._pages:
            self._pages[page] = self.read(page, PAGE)
        return self._pages[page][address - page : address - page + size]

    def _map(self) -> None:
        spans: dict[int, int] = {}
        for s in self.image.segments:
            perms = unicorn.UC_PROT_READ | (unicorn.UC_PROT_EXEC if s.executable else 0)
            perms |= unicorn.UC_PROT_WRITE if s.writable else 0
            for page in range(s.address & -PAGE, s.address + s.size, PAGE):
                spans[page] = spans.get(page, 0) | perms
        for page, perms in spans.items():
            self._uc.mem_map(page, PAGE, perms)
        for s in self.image.segments:
            self._write(s.address, s.data)
        base = self.isa.module_base
        self._uc.mem_map(base, MODULE_SIZE, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        data = unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE
        self._uc.mem_map(self.heap, HEAP_SIZE, data)
        self._uc.mem_map(self.stack_top - STACK_SIZE, STACK_SIZE, data)  # both neighbours stay unmapped: guard pages
        self.text = [(s.address, s.size) for s in self.image.segments if s.executable] + [(base, MODULE_SIZE)]

    def _write(self, address: int, data: bytes) -> None:
        try:
            self._uc.mem_write(address, data)
        except UcError:
            raise TramplabError(f"nothing is mapped at {address:#x} in the {self.isa.name} guest.") from None

    def _make_meter(self, python: bool) -> None:
        lib = None if python else library()
        sp_id = self._ids[self.isa.sp]
        if lib is None:
            self._meter = PyMeter(self.text, self._uc.emu_stop, lambda: self._uc.reg_read(sp_id) & (1 << 64) - 1)
            return
        stop = ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value
        read = ctypes.cast(uclib.uc_reg_read, ctypes.c_void_p).value
        self._meter = CMeter(lib, self.text, stop, read, sp_id)

    def _hook(self, kind: int, which: str) -> None:
        if isinstance(self._meter, PyMeter):
            handle = self._uc.hook_add(kind, getattr(self._meter, f"on_{which}"))
            self._hooks.append(lambda: self._uc.hook_del(handle))
            return
        # the binding offers no way to register a C callback, so its library is called as the binding itself does
        handle = ctypes.c_size_t()
        status = uclib.uc_hook_add(
            self._uc._uch,
            ctypes.byref(handle),
            kind,
            getattr(self._meter, f"{which}_hook"),
            self._meter.state,
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )
        if status:
            raise TramplabError(f"the emulator refused the counting hook (error {status}); is unicorn 2.1.4 installed?")
        self._hooks.append(lambda: uclib.uc_hook_del(self._uc._uch, handle))

    def _on_invalid(self, _uc, kind: int, address: int, _size: int, _value: int, _data) -> bool:
        self._invalid = (_ACCESSES.get(kind, "forbidden access to"), address & (1 << 64) - 1)
        return False
