"""The tables that fprobes which share an ops are found in: one by the functions' addresses, one by their own.

What a table is to hold is worked out as a whole, as words of memory; the steps from one state to the next are the words that
differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...emulate.image import Image
from ...ftrace.layout import Heap, bucket, fields
from ...ftrace.steps import Free, Step, block, pointer, word

#: Bits of the tables: of fprobes, and of functions where that has a fixed size (FPROBE_TABLE_BITS, FPROBE_IP_HASH_BITS).
TABLE_BITS, IP_BITS = 6, 8
#: A growing table: its first number of buckets, and the load at which it grows, in percent (lib/rhashtable.c).
FIRST_BUCKETS, FULL = 64, 75


@dataclass(frozen=True)
class Listed:
    """One fprobe: its address, that of its struct fprobe_hlist, and its functions' (address of the node, of the function)."""

    probe: int
    hlist: int
    nodes: tuple[tuple[int, int], ...]


class Tables:
    """Both tables of one guest, in the state that the last steps lead to. grows: does the table of functions grow?"""

    def __init__(self, image: Image, heap: Heap, grows: bool) -> None:
        self._image, self._heap, self._grows = image, heap, grows
        self._node, self._hlist = (image.struct(name).fields for name in ("fprobe_hlist_node", "fprobe_hlist"))
        self._listed: list[Listed] = []  # newest first
        self._words: dict[int, int] = {}
        self._buckets, self._size = 0, 0
        self._spare = (0, 0)  # address and buckets of a table that is not used yet

    def reserve(self, more: int) -> None:
        """Take the memory that the table of functions needs to grow for so many nodes more, if it has to; add() uses it. Raises
        TramplabError where there is not enough."""
        size = self._fitting(more)
        if self._grows and size > max(self._size, self._spare[1]):
            if self._spare[0]:
                self._heap.give(self._spare[0])
                self._spare = (0, 0)
            self._spare = self._heap.take(self._image.struct("bucket_table").size + 8 * size), size

    def add(self, listed: Listed) -> list[Step]:
        """The steps that put an fprobe in, for whose nodes there is room."""
        steps = self._grow(len(listed.nodes))
        self._listed.insert(0, listed)
        return steps + self._changes("the fprobe is found now", {at for at, _ in listed.nodes} | {listed.hlist})

    def remove(self, probe: int) -> list[Step]:
        """The steps that take an fprobe out. None if it is not in."""
        gone = [one for one in self._listed if one.probe == probe]
        self._listed = [one for one in self._listed if one.probe != probe]
        steps = self._changes("the fprobe is found no more", set())
        if not self._listed and self._buckets:
            table = word(self._table, 0, "the table of functions: none")
            steps += [table, Free(self._heap, self._buckets, "the table of functions")]
            self._buckets, self._size, self._words = 0, 0, {}
        return steps if gone else []

    # inside

    @property
    def _table(self) -> int:
        return self._image.address("fprobe_ip_table")

    def _fitting(self, more: int) -> int:
        """The number of buckets of a table for so many nodes more."""
        wanted, size = sum(len(one.nodes) for one in self._listed) + more, FIRST_BUCKETS
        while wanted * 100 > size * FULL:
            size *= 2
        return size

    def _grow(self, more: int) -> list[Step]:
        """The steps that make a table with room for so many nodes more; its buckets are filled before it comes into use."""
        if not self._grows or self._fitting(more) <= self._size:
            return []
        old, (self._buckets, self._size), self._spare = self._buckets, self._spare, (0, 0)
        words = self._contents()
        first, last = self._head(0), self._head(self._size)
        heads = b"".join(pointer(words[at]) for at in range(first, last, 8))
        made = fields(self._image, "bucket_table", {"size": self._size}) + heads
        steps: list[Step] = [block(self._buckets, made, f"a table of functions, {self._size} buckets")]
        moved = {at: v for at, v in words.items() if not first <= at < last and self._words.get(at, 0) != v}
        steps += self._written(moved, "the chain it is in now")
        self._words = words
        steps.append(word(self._table, self._buckets, "the table of functions"))
        return [*steps, Free(self._heap, old, "the table that was there")] if old else steps

    def _changes(self, why: str, first: set[int]) -> list[Step]:
        """The steps from what is in memory to what is to be there; first those for these structs, which nobody reaches yet."""
        now = self._contents()
        changed = {at: value for at, value in now.items() if self._words.get(at, 0) != value}
        self._words = now
        size = max(self._image.struct(name).size for name in ("fprobe_hlist_node", "fprobe_hlist"))
        private = {at: v for at, v in changed.items() if any(start <= at < start + size for start in first)}
        return self._written(private, why) + self._written({at: v for at, v in changed.items() if at not in private}, why)

    @staticmethod
    def _written(words: dict[int, int], why: str) -> list[Step]:
        return [word(at, value, why) for at, value in sorted(words.items())]

    def _head(self, number: int) -> int:
        """The address of a bucket of the table of functions."""
        if self._grows:
            return self._buckets + self._image.struct("bucket_table").fields["buckets"].offset + 8 * number
        return self._table + 8 * number

    def _contents(self) -> dict[int, int]:
        """Address -> value of every word that leads somewhere."""
        return {**dict(self._functions()), **dict(self._probes())}

    def _functions(self) -> Iterator[tuple[int, int]]:
        """(address, value) of the words of the table of functions. Where it grows, a function's newest node is in the bucket's
        chain and the others hang on that node; else all are in the chain."""
        size = self._size if self._grows else 1 << IP_BITS
        chains: dict[int, dict[int, list[int]]] = {n: {} for n in range(size)}
        for one in reversed(self._listed):
            for node, ip in one.nodes:
                n = bucket(ip, 32) & size - 1 if self._grows else bucket(ip, IP_BITS)
                chains[n].setdefault(ip, []).insert(0, node)
        following, same = self._node["next"].offset, self._node["same"].offset
        for n, by_ip in chains.items():
            lists = list(reversed(by_ip.values()))
            end = self._head(n) | 1 if self._grows else 0  # an odd word says which chain has ended
            chain = [nodes[0] for nodes in lists] if self._grows else [node for nodes in lists for node in nodes]
            yield self._head(n), chain[0] if chain else end
            yield from zip((node + following for node in chain), [*chain[1:], end], strict=False)
            if self._grows:
                for nodes in lists:
                    yield from zip((node + same for node in nodes), [*nodes[1:], 0], strict=True)

    def _probes(self) -> Iterator[tuple[int, int]]:
        """(address, value) of the words of the table of fprobes."""
        base = self._image.address("fprobe_table")
        chains: dict[int, list[int]] = {n: [] for n in range(1 << TABLE_BITS)}
        for one in self._listed:
            chains[bucket(one.probe, TABLE_BITS)].append(one.hlist)
        for n, chain in chains.items():
            places = [base + 8 * n, *(at + self._hlist["next"].offset for at in chain)]
            yield from zip(places, [*chain, 0], strict=True)
