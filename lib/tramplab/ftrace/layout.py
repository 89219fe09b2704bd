"""Laying the slow path's objects out in guest memory: ops, hashes, the table of direct calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack as in_bytes

from ..base.errors import TramplabError
from ..build.dwarf import Struct
from ..emulate.image import Image
from .ops import Registered
from .steps import Free, Step, Write, block, word

GOLDEN_RATIO = 0x61C8864680B583EB  # hash_64() of the kernel and of guest/core/hash.h
ENTRY, MAX_BITS = "ftrace_func_entry", 12


class Heap:
    """Hands out stretches of guest memory, smallest free one first, so that the same requests give the same places."""

    def __init__(
        self,
        base: int,
        size: int,
        full: str = "the guest's heap is full: ask for fewer ops, functions, tasks or calls, or for a smaller pool or data.",
    ) -> None:
        self._free, self._full = [(base, size)], full
        self._taken: dict[int, int] = {}

    def take(self, size: int) -> int:
        """The address of so many bytes, aligned to 16; raises TramplabError when there is no room."""
        size = (size + 15) & ~15
        for i, (start, room) in enumerate(self._free):
            if room >= size:
                self._free[i : i + 1] = [(start + size, room - size)] if room > size else []
                self._taken[start] = size
                return start
        raise TramplabError(self._full)

    def taken(self, what: int) -> int:
        """Bytes of the stretch that was handed out at an address."""
        return self._taken[what]

    def give(self, what: int) -> None:
        """Take back the memory that was handed out at an address."""
        self._free.append((what, self._taken.pop(what)))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for start, room in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((start, room))
        self._free = merged


def bucket(address: int, bits: int) -> int:
    """The bucket of a function in a hash of 1 << bits."""
    return (address * GOLDEN_RATIO & (1 << 64) - 1) >> (64 - bits) if bits else 0


def bits_of(entries: int) -> int:
    """Bits of the number of buckets that the kernel chooses for so many entries: the power of two at or below half of them."""
    return min((entries // 2).bit_length(), MAX_BITS)


def pack(struct: Struct, values: Mapping[str, int]) -> bytes:
    """The bytes of a struct with these members set and the rest zero."""
    packed = bytearray(struct.size)
    for name, value in values.items():
        f = struct.fields[name]
        packed[f.offset : f.offset + f.size] = (value & (1 << 8 * f.size) - 1).to_bytes(f.size, "little")
    return bytes(packed)


def fields(image: Image, struct: str, values: dict[str, int]) -> bytes:
    """The bytes of one of the image's structs, with these members set and the rest zero."""
    return pack(image.struct(struct), values)


def hash_table(
    image: Image, heap: Heap, entries: dict[int, int], bits: int | None = None
) -> tuple[dict[str, int], bytes, int]:
    """A ftrace_hash for function address -> direct target (0 if none): its members, the bytes of its block, and the block's
    address. bits: of the number of buckets, by default as in bits_of()."""
    bits = bits_of(len(entries)) if bits is None else bits
    entry = image.struct(ENTRY)
    order = sorted(("next", "ip", "direct"), key=lambda name: entry.fields[name].offset)  # its three words
    head = 8 << bits
    base = heap.take(head + entry.size * len(entries))
    table, rows = [0] * (1 << bits), []
    for i, (address, direct) in enumerate(sorted(entries.items())):
        b = bucket(address, bits)
        row = {"next": table[b], "ip": address, "direct": direct}
        rows += [row[name] for name in order]
        table[b] = base + head + entry.size * i
    members = {"size_bits": bits, "buckets": base, "count": len(entries)}
    return members, in_bytes(f"<{len(table) + len(rows)}Q", *table, *rows), base


def private_of(image: Image, index: int) -> int:
    """The address of the struct lab_private that goes with a place in the pool of ops."""
    return image.address("lab_ops_private") + index * image.struct("lab_private").size


class OpsMemory:
    """The memory of each registered ops' structs, and the writes that make them."""

    def __init__(self, image: Image, heap: Heap) -> None:
        self.image, self.heap = image, heap
        pool = image.structs["ftrace_ops"].size
        room = image.symbol("lab_ops_pool").size // pool
        self._free = list(range(room))
        self._blocks: dict[int, list[int]] = {}

    def claim(self) -> tuple[int, int]:
        """A free place in the pool: (index, address of the struct ftrace_ops)."""
        if not self._free:
            raise TramplabError(
                f"the guest has room for {self.image.symbol('lab_ops_pool').size // self.image.struct('ftrace_ops').size} ops."
            )
        index = self._free.pop(0)
        return index, self.image.address("lab_ops_pool") + index * self.image.struct("ftrace_ops").size

    def free(self, ops: Registered) -> list[Step]:
        """The steps that free an ops' hashes and its place in the pool."""
        blocks = self._blocks.pop(ops.index, ())
        return [*(Free(self.heap, at, "a hash of the ops") for at in blocks), Free(self, ops.index, "the ops itself")]

    def give(self, what: int) -> None:
        """Take back a place in the pool."""
        self._free.append(what)
        self._free.sort()

    def hits(self, index: int) -> int:
        """The address of an ops' own counter."""
        return self.private(index) + self.image.struct("lab_private").fields["hits"].offset

    def private(self, index: int) -> int:
        """The address of the struct lab_private that an ops' `private` points at."""
        return private_of(self.image, index)

    def writes(self, ops: Registered, next_ops: int, ips: dict[str, int], direct_in_ops: bool) -> list[Write]:
        """The writes that make an ops' structs, in memory that nobody reads before the ops joins the list."""
        image = self.image
        hashes = image.address("lab_ops_hash_pool") + ops.index * image.struct("ftrace_ops_hash").size
        steps: list[Write] = []
        members = {}
        for member, names in (("filter_hash", ops.request.filter), ("notrace_hash", ops.request.notrace)):
            if names:
                members[member] = self._hash(ops, names, ips, steps)
        steps.append(block(hashes, fields(image, "ftrace_ops_hash", members), "the ops' filter and notrace hashes"))
        values = {
            "func": ops.func,
            "next": next_ops,
            "flags": ops.flags,
            "private": self.hits(ops.index),
            "saved_func": ops.func,
            "func_hash": hashes,
            "trampoline": ops.trampoline,
            "trampoline_size": ops.trampoline_size,
            "direct_call": ops.direct if direct_in_ops else 0,
        }
        steps.append(word(self.hits(ops.index), 0, "the ops has seen no call"))
        if ops.go_to:
            places = image.struct("lab_private").fields
            at = self.private(ops.index) + places["go_to"].offset
            steps.append(word(at, ops.go_to, f"its callback sends calls to {image.where(ops.go_to)}"))
            stack, node = (self.private(ops.index) + places[name].offset for name in ("func_stack", "stack_node"))
            steps.append(word(stack, node, "a live patch has one replacement of the function"))
            steps.append(word(node, stack, "which is the first and the last"))
        steps.append(block(ops.address, fields(image, "ftrace_ops", values), "the ops itself"))
        return steps

    def next_field(self, address: int) -> int:
        """The address of an ops' `next` member."""
        return address + self.image.struct("ftrace_ops").fields["next"].offset

    def refilter(self, ops: Registered, ips: dict[str, int]) -> tuple[list[Step], list[Step]]:
        """The steps that give a registered ops the filter hash of its functions, and those that free the old one."""
        old: list[Step] = [Free(self.heap, at, "the filter hash that was there") for at in self._blocks.pop(ops.index)]
        new: list[Write] = []
        struct = self._hash(ops, ops.functions, ips, new)
        hashes = self.image.address("lab_ops_hash_pool") + ops.index * self.image.struct("ftrace_ops_hash").size
        at = hashes + self.image.struct("ftrace_ops_hash").fields["filter_hash"].offset
        return [*new, word(at, struct, "the ops' filter hash")], old

    def _hash(self, ops: Registered, names: Iterable[str], ips: dict[str, int], out: list[Write]) -> int:
        members, data, base = hash_table(self.image, self.heap, {ips[n]: 0 for n in names})
        owned = self._blocks.setdefault(ops.index, [])
        owned.append(base)
        struct = self.heap.take(self.image.struct("ftrace_hash").size)
        owned.append(struct)
        out.append(block(base, data, "buckets and entries of a hash"))
        out.append(block(struct, fields(self.image, "ftrace_hash", members), "the hash"))
        return struct
