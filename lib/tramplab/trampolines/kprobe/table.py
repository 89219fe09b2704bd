"""The table of kprobes: buckets of chains, by the address of the probed instruction."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...emulate.image import Image
from ...ftrace.layout import bucket
from ...ftrace.steps import Step, word

#: KPROBE_HASH_BITS of kernel/kprobes.c and of guest/include/kprobe.h.
BITS = 6


class Table:
    """The content of the guest's kprobe_table. The newest kprobe of a chain is first."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._chains: dict[int, list[int]] = {}  # bucket -> structs
        self._at: dict[int, int] = {}  # probed address -> struct

    def require_free(self, address: int, instead: str = "") -> None:
        """Raise TramplabError if there is a kprobe at an address. instead: further words of the error."""
        if address in self._at:
            where = self._image.where(address) or f"{address:#x}"
            raise TramplabError(f"{where} has a kprobe, and the lab puts one at an address: detach() that one first{instead}.")

    def first(self, address: int) -> int:
        """The first kprobe in the chain that an address belongs to, which a new one has as its next."""
        chain = self._chains.get(bucket(address, BITS))
        return chain[0] if chain else 0

    def add(self, address: int, probe: int) -> Step:
        """The step that puts a kprobe into the table, whose next is first() already."""
        self._at[address] = probe
        self._chains.setdefault(bucket(address, BITS), []).insert(0, probe)
        return word(self._head(address), probe, "it can be found by its address")

    def remove(self, address: int) -> Step:
        """The step that takes the kprobe at an address out of the table."""
        probe, chain = self._at.pop(address), self._chains[bucket(address, BITS)]
        n = chain.index(probe)
        chain.remove(probe)
        before = chain[n - 1] + self._image.struct("kprobe").fields["next"].offset if n else self._head(address)
        return word(before, chain[n] if n < len(chain) else 0, "it is found no more")

    def _head(self, address: int) -> int:
        return self._image.address("kprobe_table") + 8 * bucket(address, BITS)
