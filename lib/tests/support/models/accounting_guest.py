"""The state of a guest as its memory has it: structs walked, hashes read, patch sites decoded by hand."""

import itertools

from support.models.accounting_model import HEAP_SIZE, MASK, POOL_SIZE, Facts
from tramplab import Kernel

# --- Reading the guest


def sext(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1) - (1 << bits if value >> bits - 1 & 1 else 0)


def auipc_pair(first: int, second: int, at: int, register: int) -> int | None:
    """Where an AUIPC/JALR pair through one register goes; None if the words are no such pair."""
    if first & 0xFFF != register << 7 | 0x17 or second & 0xFFFFF != register << 15 | register << 7 | 0x67:
        return None
    return at + sext(first & 0xFFFFF000, 32) + sext(second >> 20, 12) & MASK


class Guest:
    """Reads a kernel's memory as the emulated CPU would see it."""

    def __init__(self, k: Kernel, facts: Facts) -> None:
        self.k, self.facts, self.m = k, facts, k.machine
        self.address = k.image.address
        self.ops_fields = {n: f.offset for n, f in k.image.struct("ftrace_ops").fields.items()}

    def words(self, at: int, count: int) -> list[int]:
        data = self.m.read(at, 4 * count)
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, 4 * count, 4)]

    def long(self, symbol: str) -> int:
        return self.m.read_u64(self.address(symbol))

    # sites

    def site(self, function: str, jumped: bool = False) -> int | None:
        """Where a function's site goes: 0 if nowhere, None if its bytes are neither a call, or on x86-64 a jump, nor idle."""
        entry = self.k.function(function).address
        if self.facts.isa == "x86_64":
            data = self.m.read(entry, 9)
            at = entry
            if data[:4] == bytes.fromhex("f30f1efa"):
                at, data = entry + 4, data[4:]
            return self.x86_call(at, data[:5], 0xE9 if jumped else 0xE8)
        if self.facts.isa == "arm64":
            first, second = self.words(entry, 2)
            return self.arm64_call(entry + 4, second) if first == 0xAA1E03E9 else None
        if self.facts.version <= (6, 2):
            w = self.words(entry, 4)
            if w == [0x13] * 4:
                return 0
            return auipc_pair(w[1], w[2], entry + 4, 1) if (w[0], w[3]) == (0xFE113C23, 0xFF813083) else None
        first, second = self.words(entry, 2)
        idle = first & 0xFFF == 0x297 if self.facts.call_ops else first == 0x13
        if idle and second == 0x13:
            return 0
        return auipc_pair(first, second, entry, 5)

    def x86_call(self, at: int, data: bytes, opcode: int = 0xE8) -> int | None:
        if data == bytes.fromhex("0f1f440000"):
            return 0
        return at + 5 + int.from_bytes(data[1:5], "little", signed=True) & MASK if data[0] == opcode else None

    def arm64_call(self, at: int, w: int) -> int | None:
        if w == 0xD503201F:
            return 0
        return at + 4 * sext(w, 26) & MASK if w >> 26 == 0x25 else None

    def reaches(self, function: str, target: int) -> bool:
        """Can the site go there by itself?"""
        entry = self.k.function(function).address
        if self.facts.isa == "arm64":
            return -(1 << 27) <= target - (entry + 4) < 1 << 27
        if self.facts.isa == "riscv64" and self.facts.call_ops:
            upper = sext(self.words(entry, 1)[0] & 0xFFFFF000, 32)
            return -2048 <= target - (entry + upper) <= 2047
        return abs(target - entry) < (1 << 31) - 4096

    def literal(self, function: str) -> int:
        return self.m.read_u64(self.k.function(function).address - 8)

    # the common trampolines

    def common_calls(self) -> dict[str, int]:
        """What each call inside a common trampoline goes to."""
        out = {}
        for label in ("ftrace_call", "ftrace_regs_call"):
            if label in self.k.image.symbols:
                at = self.address(label)
                if self.facts.isa == "x86_64":
                    out[label] = self.x86_call(at, self.m.read(at, 5))
                elif self.facts.isa == "arm64":
                    out[label] = self.arm64_call(at, *self.words(at, 1))
                else:
                    out[label] = auipc_pair(*self.words(at, 2), at, 1)
        return out

    def calls_inside(self, start: int, size: int) -> set[int]:
        """Where the calls in a made trampoline may go; on x86-64, where any byte may start one, also what are none."""
        data = self.m.read(start, size)
        if self.facts.isa == "x86_64":
            return {self.x86_call(start + n, data[n : n + 5]) for n in range(size - 4) if data[n] == 0xE8}
        words = self.words(start, size // 4)
        if self.facts.isa == "arm64":
            return {self.arm64_call(start + 4 * n, w) for n, w in enumerate(words) if w >> 26 == 0x25}
        pairs = enumerate(itertools.pairwise(words))
        return {auipc_pair(*pair, start + 4 * n, 1) for n, pair in pairs} - {None}

    # the list

    def list_of_ops(self) -> list[dict[str, int]]:
        """Every ops on ftrace_ops_list, in order, as its members."""
        out, at, end = [], self.long("ftrace_ops_list"), self.address("ftrace_list_end")
        while at != end:
            members = {n: self.m.read_u64(at + o) for n, o in self.ops_fields.items()}
            out.append({"address": at, **members})
            at = members["next"]
            assert len(out) <= POOL_SIZE, "the list does not end"
        return out

    def hash(self, table: int) -> set[int] | None:
        """The function addresses in a ftrace_hash; None stands for no restriction. Each lies in the bucket that the
        kernel's hash puts it in."""
        if not table:
            return None
        h = {n: self.m.read_u64(table + f.offset) for n, f in self.k.image.struct("ftrace_hash").fields.items()}
        entry = {n: f.offset for n, f in self.k.image.struct("ftrace_func_entry").fields.items()}
        ips = set()
        for bucket in range(1 << h["size_bits"]):
            at = self.m.read_u64(h["buckets"] + 8 * bucket)
            while at:
                ip = self.m.read_u64(at + entry["ip"])
                product = ip * 0x61C8864680B583EB & MASK
                assert (product >> 64 - h["size_bits"] if h["size_bits"] else 0) == bucket
                assert ip not in ips
                ips.add(ip)
                at = self.m.read_u64(at + entry["next"])
        assert len(ips) == h["count"]
        return ips

    def ip(self, function: str) -> int:
        """What a function's calls are known by."""
        entry = self.k.function(function).address
        if self.facts.isa == "x86_64":
            return entry + 4 if self.m.read(entry, 4) == bytes.fromhex("f30f1efa") else entry
        if self.facts.isa == "arm64":
            return entry + 4
        return entry + 4 if self.facts.call_ops else entry

    # everything

    def text(self) -> list[bytes]:
        return [self.m.read(s.address, s.size) for s in self.k.image.segments if s.executable]

    def memory(self) -> dict[int, bytes]:
        """Text, data and heap, but for what a call counts."""
        spans = [(s.address, s.size) for s in self.k.image.segments] + [(self.m.places.heap.address, HEAP_SIZE)]
        out = {at: self.m.read(at, size) for at, size in spans}
        for counter in ("lab_ops_private", "lab_direct_hits"):
            s = self.k.image.symbol(counter)
            base = next(at for at, size in spans if at <= s.address < at + size)
            start = s.address - base
            out[base] = out[base][:start] + bytes(s.size) + out[base][start + s.size :]
        return out

    def everything(self) -> list:
        """All that a refused registration must leave as it is, in the guest and outside."""
        memory = [self.m.read(s.address, s.size) for s in self.k.image.segments]
        memory += [self.m.read(self.m.places.heap.address, HEAP_SIZE), self.m.read(self.k.isa.module_base, 16 * 4096)]
        records = {n: r.flags for n, r in self.k.slowpath.records.items()}
        return [memory, records, list(self.k.slowpath.ops)]
