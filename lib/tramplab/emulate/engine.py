"""The emulator: one CPU's registers over mapped memory. The only module that knows Unicorn.

Two rules of this engine are enforced by those who use it (see book/method.md): text is only ever written through
Machine.poke(), which also drops the translations of it, and kernel addresses need the virtual TLB.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import unicorn
from unicorn import (
    UC_HOOK_CODE,
    UC_HOOK_INSN_INVALID,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
    UC_HOOK_MEM_READ,
    UC_HOOK_MEM_WRITE,
    UcError,
)
from unicorn.unicorn_py3.unicorn import uclib

from ..base.errors import TramplabError, unknown
from ..isa import Isa
from .memory.pages import Pages
from .memory.ram import Ram

#: The smallest unit of memory that can be mapped, in bytes.
PAGE = 4096
_MASK = (1 << 64) - 1
_ACCESSES = {
    unicorn.UC_MEM_READ_UNMAPPED: "read of",
    unicorn.UC_MEM_WRITE_UNMAPPED: "write to",
    unicorn.UC_MEM_WRITE_PROT: "forbidden write to",
    unicorn.UC_MEM_FETCH_UNMAPPED: "jump to",
    unicorn.UC_MEM_FETCH_PROT: "jump to",
}
#: The events that can be hooked: every instruction, every access of data.
CODE, ACCESS = UC_HOOK_CODE, UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE
_THP_DISABLE = 41  # of prctl(2)


def small_pages() -> None:
    """Make this process, and those that it starts from now on, get memory by the page.

    Unicorn wants huge pages for the code that it translates to. Of two megabytes that are cleared at once, a kernel that is
    called a few times fills a few pages: for a process that makes thousands of kernels that is a twentieth of its time. Nothing
    else changes, and where the system is not Linux nothing at all.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_THP_DISABLE, 1, 0, 0, 0)


class Stopped(Exception):
    """Raised where the CPU cannot go on, with the engine's own words."""


class Engine:
    """One emulated CPU of an ISA and the memory under it."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        arch, mode, model = isa.unicorn
        make: Any = unicorn.Uc  # whose stubs lack methods that it has
        self._uc = make(getattr(unicorn, arch), getattr(unicorn, mode))
        if model:
            self._uc.ctl_set_cpu_model(model)
        self._uc.ctl_set_tlb_mode(unicorn.UC_TLB_VIRTUAL)
        self._ram = Ram()
        self._ids = _general(isa)
        self._batch = _Batch(tuple(self._ids.values()))
        self._binding: Any = type(self._uc)
        self._invalid: tuple[str, int] | None = None
        self._ran = False
        self._uc.hook_add(UC_HOOK_MEM_INVALID, self._on_invalid)

    # memory

    def map(self, address: int, size: int, *, writable: bool, executable: bool) -> None:
        """Make memory readable, and what else is asked for; whole pages."""
        rights = unicorn.UC_PROT_READ
        if writable:
            rights |= unicorn.UC_PROT_WRITE
        if executable:
            rights |= unicorn.UC_PROT_EXEC
        self._uc.mem_map_ptr(address, size, rights, self._ram.add(address, size))

    def read(self, address: int, size: int) -> bytes:
        """The bytes in memory; raises TramplabError where nothing is mapped, as write() does."""
        return _read(self.isa, self._ram, address, size)

    def reader(self) -> Callable[[int, int], bytes]:
        """A function that reads memory as read() does, and does not keep this CPU or its hooks alive."""
        return functools.partial(_read, self.isa, self._ram)

    def write(self, address: int, data: bytes) -> None:
        """Change memory; translations of text that was there stay."""
        try:
            self._ram.write(address & _MASK, data)
        except LookupError:
            raise _unmapped(self.isa, address) from None

    def keep(self) -> Pages:
        """Copy each page before it is first written to, from now on; all memory has to be mapped. Code that was translated before
        this call does not do so."""
        pages = Pages(self._ram)
        self.hook_c(UC_HOOK_MEM_WRITE, *pages.hook())
        return pages

    def forget(self, address: int, size: int) -> None:
        """Drop the translations of a stretch of text; before the first run there are none."""
        if self._ran:
            self._uc.ctl_remove_cache(address, address + size)

    def forget_all(self) -> None:
        """Drop all translations: also of what has no size, and those made before a hook was added."""
        if self._ran:
            self._uc.ctl_flush_tb()

    # registers

    def register_id(self, name: str) -> int:
        """The engine's number of a register (general or special, e.g. GS_BASE)."""
        return _register_id(self.isa.unicorn_prefix, name)

    def set_register(self, name: str, value: int) -> None:
        """Set a register, general or special, by its name."""
        number = self.register_id(name)
        if _is_word(self._binding, number):
            self._batch.write(self._uc, [(number, value & _MASK)])
        else:
            self._uc.reg_write(number, value & _MASK)

    def set_general(self, values: Mapping[str, int]) -> None:
        """Set general registers, or the program counter, by their names, in order; raises TramplabError for another name."""
        for name in values:
            if name not in self._ids:
                raise unknown(f"{self.isa.name} register", name, self._ids)
        self._batch.write(self._uc, [(self._ids[name], value & _MASK) for name, value in values.items()])

    def register(self, name: str) -> int:
        """The value of a register, general or special, by its name."""
        number = self.register_id(name)
        if not _is_word(self._binding, number):
            return self._uc.reg_read(number) & _MASK
        word = ctypes.c_uint64()
        if status := uclib.uc_reg_read(self._uc._uch, number, ctypes.byref(word)):
            raise TramplabError(f"the emulator refused to read {name} (error {status}).")
        return word.value

    def registers(self) -> dict[str, int]:
        """All general registers and the program counter, as they are now."""
        return dict(zip(self._ids, self._batch.read(self._uc), strict=True))

    def system(self, number: tuple[int, int, int, int, int]) -> int:
        """The value of an arm64 system register that the engine has no name for. number: crn, crm, op0, op1, op2."""
        return self._uc.reg_read(self.register_id("cp_reg"), number) & _MASK

    def set_system(self, number: tuple[int, int, int, int, int], value: int) -> None:
        """Set a system register; number: as for system()."""
        self._uc.reg_write(self.register_id("cp_reg"), (*number, value & _MASK))

    def save(self) -> object:
        """All registers, special ones too, to be restored later; memory is no part of it."""
        return self._uc.context_save()

    def restore(self, context: object) -> None:
        """Give all registers the values that save() kept."""
        self._uc.context_restore(context)

    # running

    def start(self, pc: int, until: int) -> None:
        """Run from pc until the pc is `until`, a hook stops it, or it cannot continue, which raises Stopped."""
        self._invalid, self._ran = None, True
        try:
            self._uc.emu_start(pc, until)
        except UcError as e:
            raise Stopped(str(e)) from None

    def stop(self) -> None:
        """Stop, from inside a hook: the instruction it was called for is not executed any more."""
        self._uc.emu_stop()

    @property
    def invalid_access(self) -> tuple[str, int] | None:
        """The kind of the access that ended the last run ("read of", "jump to", ...) and its address; None if none did."""
        return self._invalid

    def hook(self, kind: int, call: Callable) -> Callable[[], None]:
        """Call a Python function for each event of a kind; returns the function that ends this."""
        handle = self._uc.hook_add(kind, call)
        return lambda: self._uc.hook_del(handle)

    def hook_c(self, kind: int, call: ctypes.c_void_p, state: ctypes.c_void_p) -> Callable[[], None]:
        """Call a compiled function, without going through Python; the binding offers no way, so its library is called as the
        binding itself does."""
        handle = ctypes.c_size_t()
        everywhere = ctypes.c_uint64(1), ctypes.c_uint64(0)
        status = uclib.uc_hook_add(self._uc._uch, ctypes.byref(handle), kind, call, state, *everywhere)
        if status:
            raise TramplabError(f"the emulator refused the counting hook (error {status}); is unicorn 2.1.4 installed?")
        return lambda: uclib.uc_hook_del(self._uc._uch, handle)

    def hook_at(self, address: int, call: Callable[[], None]) -> Callable[[], None]:
        """Call a function before the instruction at one address; returns the function that ends this."""
        handle = self._uc.hook_add(UC_HOOK_CODE, lambda *_: call(), begin=address, end=address)
        return lambda: self._uc.hook_del(handle)

    def hook_reads(self, start: int, end: int, call: Callable[[int], None]) -> None:
        """Call call(address) before each load from these addresses, the last one included: it finds what the function writes."""
        self._uc.hook_add(UC_HOOK_MEM_READ, lambda _uc, _kind, address, *_: call(address & _MASK), begin=start, end=end)

    def hook_traps(self, interrupt: Callable[[int], None], unknown: Callable[[], bool]) -> None:
        """Call interrupt(number) for every interrupt that the engine takes, and unknown() for instructions that it does not know,
        which says whether that was expected."""
        self._uc.hook_add(UC_HOOK_INTR, lambda _uc, number, _data: interrupt(number))
        self._uc.hook_add(UC_HOOK_INSN_INVALID, lambda _uc, _data: unknown())

    @staticmethod
    def addresses() -> tuple[int, int]:
        """The addresses of the library's functions that stop the CPU and read one register, for compiled hooks."""
        return Engine.function("emu_stop"), Engine.function("reg_read")

    @staticmethod
    def function(name: str) -> int:
        """The address of a function of the library, for compiled hooks: "reg_read" is uc_reg_read."""
        return ctypes.cast(getattr(uclib, f"uc_{name}"), ctypes.c_void_p).value or 0

    @property
    def handle(self) -> ctypes.c_void_p:
        """The library's handle of this CPU, for compiled hooks."""
        return self._uc._uch

    # inside

    def _on_invalid(self, _uc: object, kind: int, address: int, _size: int, _value: int, _data: object) -> bool:
        self._invalid = (_ACCESSES.get(kind, "forbidden access to"), address & _MASK)
        return False


def _read(isa: Isa, ram: Ram, address: int, size: int) -> bytes:
    try:
        return ram.read(address & _MASK, size)
    except LookupError:
        raise _unmapped(isa, address) from None


def _unmapped(isa: Isa, address: int) -> TramplabError:
    return TramplabError(f"nothing is mapped at {address:#x} in the {isa.name} guest.")


@functools.cache
def _register_id(prefix: str, name: str) -> int:
    return getattr(getattr(unicorn, f"{prefix}_const"), f"UC_{prefix.upper()}_REG_{name.upper()}")


@functools.cache
def _is_word(binding: Any, number: int) -> bool:
    """Does the binding take a register for 8 bytes or less, as it does unless told otherwise? Then the library is asked at once,
    in less than half the time."""
    return issubclass(binding._select_reg_class(number), ctypes.c_uint64)


@functools.cache
def _general(isa: Isa) -> dict[str, int]:
    """The engine's numbers of the general registers and the program counter."""
    return {name: _register_id(isa.unicorn_prefix, name) for name in (*isa.registers, isa.pc)}


class _Batch:
    """Reads and writes many registers in one call of the engine's library: ten times as fast as one by one. It has room for as
    many as it reads."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        self._ids = (ctypes.c_int * len(ids))(*ids)
        self._some = (ctypes.c_int * len(ids))()
        self._values = (ctypes.c_uint64 * len(ids))()
        size = ctypes.sizeof(ctypes.c_uint64)
        self._places = (ctypes.c_void_p * len(ids))(*(ctypes.addressof(self._values) + size * i for i in range(len(ids))))

    def read(self, uc: unicorn.Uc) -> list[int]:
        """The values, in the order of the ids."""
        status = uclib.uc_reg_read_batch(uc._uch, self._ids, self._places, len(self._ids))
        if status:
            raise TramplabError(f"the emulator refused to read registers (error {status}).")
        return list(self._values)

    def write(self, uc: unicorn.Uc, values: list[tuple[int, int]]) -> None:
        """Set registers: (id, value) of each."""
        for n, (number, value) in enumerate(values):
            self._some[n], self._values[n] = number, value
        status = uclib.uc_reg_write_batch(uc._uch, self._some, self._places, len(values))
        if status:
            raise TramplabError(f"the emulator refused to write registers (error {status}).")
