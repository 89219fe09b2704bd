"""dyn_ftrace records: one per patch site, its flags and how many ops want it.

The rules are those of kernel/trace/ftrace.c (v5.17 to v7.2; flags and counter width per release in data/releases.yml),
written down as facts in the docstrings and implemented independently.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.errors import TramplabError
from .ops import Registered
from .site import Site

#: Bit numbers in dyn_ftrace.flags. The counter of ops sits below the lowest one that a release has.
BITS = {
    "ENABLED": 31,
    "REGS": 30,
    "REGS_EN": 29,
    "TRAMP": 28,
    "TRAMP_EN": 27,
    "IPMODIFY": 26,
    "DISABLED": 25,
    "DIRECT": 24,
    "DIRECT_EN": 23,
    "CALL_OPS": 22,
    "CALL_OPS_EN": 21,
    "TOUCHED": 20,
    "MODIFIED": 19,
}
_MASK = {name: 1 << bit for name, bit in BITS.items()}
IGNORE, MAKE_CALL, MODIFY_CALL, MAKE_NOP = "ignore", "make call", "modify call", "make nop"


@dataclass(eq=False)
class Record:
    """A site's dyn_ftrace record.

    flags: the whole word, counter included.
    counter_bits: the release's.
    call_ops: whether this kernel is built with CALL_OPS; without, its flag is never set.
    """

    site: Site
    counter_bits: int
    call_ops: bool
    flags: int = 0

    @property
    def count(self) -> int:
        """The number of ops that want this function."""
        return self.flags & ((1 << self.counter_bits) - 1)

    def has(self, name: str) -> bool:
        """Is a flag set?"""
        return bool(self.flags & _MASK[name])

    def put(self, name: str, on: bool) -> None:
        """Set or clear a flag, if the release has it."""
        if BITS[name] < self.counter_bits:
            return  # this release has no such flag
        self.flags = self.flags | _MASK[name] if on else self.flags & ~_MASK[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The flags that are set, highest bit first."""
        return tuple(n for n in BITS if BITS[n] >= self.counter_bits and self.has(n))

    def check(self, direct: bool, ipmodify: bool = False, shares: bool = False) -> None:
        """Raise TramplabError if one more ops cannot be counted, or a second direct call or change of the ip is asked for.

        Only one ops may change where a function goes on (IPMODIFY, commit f8b8be8a310a: -EBUSY). A direct call shares with it
        if its owner knows how to, which `shares` says (commit 53cd885bc5c3; up to v5.19 direct calls had the flag themselves).
        """
        if ipmodify and self.has("IPMODIFY"):
            raise TramplabError(
                f"an ops changes the ip of {self.site.function} already; only one may (-EBUSY): detach it first."
            )
        if not shares and ((ipmodify and self.has("DIRECT")) or (direct and self.has("IPMODIFY"))):
            raise TramplabError(
                f"{self.site.function} cannot have both a direct call and an ops that changes the ip (-EBUSY), unless the direct "
                "call has an ops_func, as BPF's have since v6.0: detach the one first."
            )
        if self.count == (1 << self.counter_bits) - 1:
            raise TramplabError(f"{self.site.function}: the record's counter of {self.counter_bits} bits is full.")
        if direct and self.has("DIRECT"):
            raise TramplabError(f"{self.site.function} has a direct call already; a function can have one.")

    def add(self, ops: Registered, shares: bool = False) -> None:
        """Count an ops that comes to want this function; shares: see check()."""
        self.check(ops.is_direct, ops.ipmodify, shares)
        self.flags += 1
        if ops.ipmodify:
            self.put("IPMODIFY", True)
        if ops.is_direct:
            self.put("DIRECT", True)
        self.put("TRAMP", self.count == 1 and bool(ops.trampoline))
        if ops.saves_regs:
            self.put("REGS", True)
        self._update_call_ops(ops)

    def remove(self, ops: Registered, others: list[Registered]) -> None:
        """Count an ops less. others: the registered ops that still want this function."""
        self.flags -= 1
        if ops.ipmodify:
            self.put("IPMODIFY", False)
        if ops.is_direct:
            self.put("DIRECT", False)
        if self.has("REGS") and ops.saves_regs and not any(o.saves_regs for o in others):
            self.put("REGS", False)
        self.put("TRAMP", self.count == 1 and bool(others[0].trampoline))
        self._update_call_ops(ops)

    def _update_call_ops(self, ops: Registered) -> None:
        """Set the flag with one ops left and no assist needed; `ops`, which is asked for that, is the one that comes or *goes*."""
        self.put("CALL_OPS", self.call_ops and self.count == 1 and not ops.assisted)

    def settle(self) -> str:
        """Turn what is wanted into what is enabled (the _EN flags) and say what the patch site needs.

        DIRECT_EN and CALL_OPS_EN hold only while one ops wants the function.
        """
        alone = self.count == 1
        if not self.count:
            if not self.has("ENABLED"):
                return IGNORE
            kept = {n for n in ("DISABLED", "TOUCHED", "MODIFIED") if self.has(n)}
            self.flags = 0
            for name in kept:
                self.put(name, True)
            return MAKE_NOP
        wanted = {
            "REGS_EN": self.has("REGS"),
            "TRAMP_EN": self.has("TRAMP"),
            "DIRECT_EN": self.has("DIRECT") and alone,
            "CALL_OPS_EN": self.has("CALL_OPS") and alone,
        }
        present = [n for n in wanted if BITS[n] >= self.counter_bits]
        changed = any(self.has(n) != wanted[n] for n in present)
        if self.has("ENABLED") and not changed:
            return IGNORE
        was_enabled = self.has("ENABLED")
        for name in present:
            self.put(name, wanted[name])
        self.put("ENABLED", True)
        self.put("TOUCHED", True)
        if self.has("DIRECT"):
            self.put("MODIFIED", True)
        return MODIFY_CALL if was_enabled else MAKE_CALL
