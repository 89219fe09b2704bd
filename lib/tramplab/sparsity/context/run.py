"""An interpreter for the subset: what a program computes and what it tells the world, on a context of given bytes.

An access to memory that there is not is an error, and so is a loop. Two runs are alike if their outcomes are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from ...base.arguments import whole
from ...base.errors import TramplabError
from . import arithmetic, helpers
from .encoding import ALU64, CALL, EXIT, JMP, LD, LDX, MAP, MEMSX, ST, STX, Program
from .helpers import ADDRESS, CONTEXTS, IDENTITY, KEY, KEY_SIZE, READ, SIZE, VALUE, VALUE_SIZE, WRITTEN, Helper
from .state import STACK_SIZE

#: Addresses of what a program can reach; nothing is at others.
CONTEXT, FRAME, MAPS = 0xFFFF_C900_0000_1000, 0xFFFF_C900_0002_0000, 0xFFFF_8880_1000_0000
_MASK = (1 << 64) - 1
#: Bytes that memory() gives at once.
_MOST = 1 << 20


@dataclass
class Outcome:
    """The result of a run.

    result: r0 at the exit.
    told: every call of a helper with a visible effect, in order: its name, its numbers, and the bytes that were passed to it.
    maps: map -> key -> value.
    touched: offsets of the bytes of the context that were loaded, or copied by a helper; not compared.
    """

    result: int = 0
    told: list[tuple[str, tuple[int | bytes, ...]]] = field(default_factory=list)
    maps: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set, compare=False)


class Fault(TramplabError):
    """An access to memory that there is not."""


def run(program: Program, context: bytes, kernel: Callable[[int, int], bytes] | None = None, address: int = CONTEXT) -> Outcome:
    """Run a program on a context. kernel: what lies at addresses that are neither the program's nor the context's, as helpers read
    it (address, size); as long as it says the same, helpers do. address: where the context lies."""
    return _Run(program, context, kernel or memory, address).run()


def memory(address: int, size: int) -> bytes:
    """Kernel memory: bytes that are always the same and follow from nothing else than their addresses."""
    size = whole(size, "size", 0, _MOST)
    places = (at & _MASK for at in range(address, address + size))
    return b"".join(hashlib.blake2b(at.to_bytes(8, "little"), digest_size=1).digest() for at in places)


class _Run:
    def __init__(self, program: Program, context: bytes, kernel: Callable[[int, int], bytes], address: int) -> None:
        self.program, self.kernel, self.context, self.home = program, kernel, context, address
        self.stack = bytearray(STACK_SIZE)
        self.values: dict[tuple[int, bytes], tuple[int, bytearray]] = {}
        self.registers = [0] * 11
        self.registers[1], self.registers[10] = address, FRAME
        self.outcome = Outcome()
        self.at = 0

    def run(self) -> Outcome:
        for _ in range(len(self.program) + 1):
            i = self.program[self.at] if self.at < len(self.program) else None
            if i is None:
                raise TramplabError(f"the program continues at {self.at}, where it has no instruction.")
            if i.opcode == JMP | EXIT:
                self.outcome.result = self.registers[0]
                for (number, key), (_, held) in sorted(self.values.items()):
                    self.outcome.maps.setdefault(number, {})[key] = bytes(held)
                return self.outcome
            self.at += 2 if i.wide else 1
            r = self.registers
            second = r[i.src] if i.by_register else i.imm & _MASK
            if i.kind == LD:
                r[i.dst] = MAPS + i.imm if i.src == MAP else i.imm
            elif i.kind == LDX:
                r[i.dst] = arithmetic.loaded(self._load(r[i.src] + i.off & _MASK, i.size), i.mode == MEMSX)
            elif i.kind in (ST, STX):
                value = i.imm if i.kind == ST else r[i.src]
                self._store(r[i.dst] + i.off & _MASK, (value & (1 << 8 * i.size) - 1).to_bytes(i.size, "little"))
            elif i.opcode == JMP | CALL:
                self._call(helpers.helper(i.imm, self.at - 1))
            elif i.jump is not None:
                bits = 64 if i.kind == JMP else 32
                if i.condition is None or arithmetic.holds(i.condition, r[i.dst], second, bits):
                    self.at += i.jump
            else:
                extend = i.off if i.operation == "=" else 0
                r[i.dst] = arithmetic.operate(i.operation, r[i.dst], second, 64 if i.kind == ALU64 else 32, extend)
        raise TramplabError("the program does not end; the rewriter's subset has no loops.")

    def _place(self, address: int, size: int) -> tuple[bytes | bytearray, int]:
        """The memory that holds an access whole, and where in it; Fault if none does."""
        areas: list[tuple[int, bytes | bytearray]] = [(self.home, self.context), (FRAME - STACK_SIZE, self.stack)]
        for base, data in (*areas, *self.values.values()):
            if base <= address <= address + size <= base + len(data):
                return data, address - base
        raise Fault(f"{size} bytes at {address:#x} are no memory of the program's, nor of its context.")

    def _load(self, address: int, size: int) -> bytes:
        data, at = self._place(address, size)
        if data is self.context:
            self.outcome.touched.update(range(at, at + size))
        return bytes(data[at : at + size])

    def _store(self, address: int, new: bytes) -> None:
        data, at = self._place(address, len(new))
        if not isinstance(data, bytearray):
            raise Fault(f"{len(new)} bytes at {address:#x} are the context's, which is read-only.")
        data[at : at + len(new)] = new

    def _peek(self, address: int, size: int) -> bytes:
        """What a helper finds that reads an address on trust."""
        try:
            return self._load(address, size)
        except Fault:
            return self.kernel(address, size)

    def _call(self, helper: Helper) -> None:
        given = [self.registers[1 + n] for n in range(len(helper.takes))]
        shown: list[int | bytes] = []
        for n, (kind, value) in enumerate(zip(helper.takes, given, strict=True)):
            by = helper.sized(n)
            size = KEY_SIZE if kind == KEY else VALUE_SIZE if kind == VALUE else given[by] if by is not None else 0
            if kind in (KEY, VALUE, READ):
                shown.append(self._load(value, size))
            elif kind in CONTEXTS:
                shown.append(b"" if kind == IDENTITY else self.context)
            elif kind not in (WRITTEN, ADDRESS):  # what is copied from where is seen in what becomes of it
                shown.append(value)
        self.outcome.told.append((helper.name, tuple(shown)))
        self.registers[0] = self._result(helper, given)
        for n in range(1, 6):
            self.registers[n] = 0xDEAD_0000 + n

    def _result(self, helper: Helper, given: list[int]) -> int:
        if helper.name == "bpf_map_lookup_elem":
            key = (given[0] - MAPS, self._load(given[1], KEY_SIZE))
            if key not in self.values and key[1][0] % 4 == 0:  # not every key is there
                return 0
            return self.values.setdefault(key, (MAPS + 0x1000 * (1 + len(self.values)), bytearray(VALUE_SIZE)))[0]
        if helper.name == "bpf_map_update_elem":
            key = (given[0] - MAPS, self._load(given[1], KEY_SIZE))
            base = self.values[key][0] if key in self.values else MAPS + 0x1000 * (1 + len(self.values))
            self.values[key] = (base, bytearray(self._load(given[2], VALUE_SIZE)))
            return 0
        if WRITTEN in helper.takes:
            to, size = given[helper.takes.index(WRITTEN)], given[helper.takes.index(SIZE)]
            self._store(to, self._peek(given[2], size) if helper.takes[2] == ADDRESS else self.kernel(size, size))
            return 0
        return int.from_bytes(self.kernel(helper.number, 8), "little")
