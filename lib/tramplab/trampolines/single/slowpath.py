"""The slow path with one ops for all direct calls: it is registered with the first one and leaves with the last."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...base.errors import TramplabError
from ...ftrace.layout import fields, hash_table
from ...ftrace.maker import Maker, maker_of
from ...ftrace.ops import FL_DYNAMIC, Registered, Request, selected
from ...ftrace.records import Record
from ...ftrace.sharing import SharingSlowPath
from ...ftrace.steps import POINTER, Free, Step, Sync, Wait, block, word
from ..direct import Direct
from ..guest import Guest
from .ways import Way

#: The one ops' direct_call: anything but 0, so that ftrace_caller recognises it.
MARK = 1
#: More entries than these give direct_functions no more buckets (hash_add() of the series, v6:
#: 20251230145010.103439-5-jolsa@kernel.org).
MOST_COUNTED = 32


class SingleSlowPath(SharingSlowPath):
    """Direct calls are members of one ops, which is not dynamic, so that nobody waits for its end (ftrace_shutdown).

    In the order of update_ftrace_direct_add() and _del(): what comes is in direct_functions before a site changes, and what goes
    leaves it behind. The old table is freed by call_rcu_tasks(), for which nobody waits. What attach() gives for a direct call is
    the member: it is in no list, and has the place of the one ops.
    """

    def __init__(self, guest: Guest, makers: Sequence[Maker], way: Way) -> None:
        super().__init__(guest.image, guest.features, guest.heap, guest.sites, makers)
        self._way = way
        self._single: Registered | None = None
        self._members: dict[str, Registered] = {}  # by function
        self._table: tuple[int, ...] = ()
        self._beside: dict[str, int] = {}

    # changes

    def register(self, request: Request) -> tuple[Registered, list[Step]]:
        """Register as SharingSlowPath does; a direct call joins the one ops."""
        if not isinstance(request, Direct):
            return super().register(request)
        members, steps = self.add([request])
        return members[0], steps

    def unregister(self, ops: Registered) -> list[Step]:
        """Unregister as SharingSlowPath does; a direct call leaves the one ops."""
        return self.remove([ops]) if isinstance(ops.request, Direct) else super().unregister(ops)

    def add(self, requests: Sequence[Direct]) -> tuple[list[Registered], list[Step]]:
        """Attach several direct calls in one update; raises TramplabError as register() does, and nothing has changed then."""
        members: list[Registered] = []
        for request in requests:
            functions = selected(request, tuple(self.records))
            maker = maker_of(request, self.makers)
            maker.check(request, functions)
            members.append(maker.make(request, functions))
            self._check(members[-1])
        added = [f for m in members for f in m.functions]
        twice = next((f for f in added if added.count(f) > 1), None)
        if twice:
            raise TramplabError(f"{twice} is in two of these direct calls; a function can have one.")
        self._members |= {f: m for m in members for f in m.functions}
        first = self._single is None
        single = self._single or self._made(members[0])
        single.functions = tuple(self._members)
        steps, old = self._published()
        if first:
            single.request = dataclasses.replace(members[0].request, filter=single.functions)
            steps += self.memory.writes(single, self._head(), self._ips, True)
            self.ops.insert(0, single)
            steps.append(word(self.image.address("ftrace_ops_list"), single.address, "the one ops joins the list"))
        else:
            filtered, left = self.memory.refilter(single, self._ips)
            steps, old = steps + filtered, old + left
        for m in members:
            m.index, m.address = single.index, single.address
        for f in added:
            self.records[f].add(single)
        return members, steps + self._update(tuple(added)) + self._later(old)

    def remove(self, members: Sequence[Registered]) -> list[Step]:
        """Detach several direct calls in one update; raises TramplabError if one of them is not attached."""
        single = self._single
        for m in members:
            if single is None or any(self._members.get(f) is not m for f in m.functions):
                raise TramplabError(f"that direct call (of {', '.join(m.functions)}) is not attached, or not any more.")
        if single is None:
            return []
        gone = [f for m in members for f in m.functions]
        for f in gone:
            del self._members[f]
        single.functions = tuple(self._members)
        steps, old = self._unlisted(single) if not self._members else self.memory.refilter(single, self._ips)
        for f in gone:
            self.records[f].remove(single, self.wanting(f))
        steps = steps + self._update(tuple(gone))
        published, left = self._published()
        return steps + published + self._later(old + left)

    # inside

    @property
    def _ips(self) -> dict[str, int]:
        return {f: r.site.ip for f, r in self.records.items()}

    def _made(self, first: Registered) -> Registered:
        """The one ops, with its place in the guest's pool; like a first direct call, but not dynamic."""
        self._single = dataclasses.replace(first, flags=first.flags & ~FL_DYNAMIC, direct=MARK)
        self._single.index, self._single.address = self.memory.claim()
        return self._single

    def _unlisted(self, single: Registered) -> tuple[list[Step], list[Step]]:
        """The step that takes the one ops from the list, and those that free what it had."""
        at = self.ops.index(single)
        after = self.ops[at + 1].address if at + 1 < len(self.ops) else self.image.address("ftrace_list_end")
        self.ops.remove(single)
        holder = self.memory.next_field(self.ops[at - 1].address) if at else self.image.address("ftrace_ops_list")
        self._single = None
        return [word(holder, after, "the one ops leaves the list")], self.memory.free(single)

    def _published(self) -> tuple[list[Step], list[Step]]:
        """The steps that publish direct_functions as it is to be, and those that free the one that was there."""
        old: list[Step] = [Free(self._heap, at, "the direct_functions that were there") for at in self._table]
        entries = {self.records[f].site.ip: m.direct for f, m in self._members.items()}
        at = self.image.address("direct_functions")
        if not entries:
            self._table = ()
            return [word(at, self.image.address("lab_empty_hash"), "direct_functions: none")], old
        bits = min(len(entries), MOST_COUNTED).bit_length()
        members, data, base = hash_table(self.image, self._heap, entries, bits)
        struct = self._heap.take(self.image.struct("ftrace_hash").size)
        self._table = base, struct
        return [
            block(base, data, "buckets and entries of a new direct_functions"),
            block(struct, fields(self.image, "ftrace_hash", members), "the new direct_functions"),
            word(at, struct, "direct_functions: the new one"),
        ], old

    @staticmethod
    def _later(frees: list[Step]) -> list[Step]:
        """Steps that free memory when all tasks have left it, without a wait; none if nothing is to be freed."""
        return [Wait(Sync.CALL_RCU_TASKS, "nobody still reads what was replaced"), *frees] if frees else []

    def _check(self, ops: Registered) -> None:
        """Raise TramplabError as SharingSlowPath does, and for a direct call whose request is not a Direct."""
        if ops.is_direct and not isinstance(ops.request, Direct):
            kind = type(ops.request).__name__
            raise TramplabError(f"one ops for all direct calls takes requests of the type Direct, not {kind}.")
        super()._check(ops)

    def _direct_table(self) -> tuple[list[Step], list[Step]]:
        """No steps: an ops that comes or goes changes no direct call."""
        return [], []

    def _direct(self, function: str) -> int:
        return self._members[function].direct

    def _alone(self, record: Record) -> bool:
        """Has a function a direct call and nothing else?"""
        return record.has("DIRECT_EN")

    def _literal_value(self, record: Record) -> tuple[int, str]:
        """The value of a callsite's word, and why: as in the kernel, or the target of a direct call that is alone, made odd."""
        if self._way.odd and self._alone(record):
            return self._direct(record.site.function) | 1, "the direct call's target, odd"
        return super()._literal_value(record)

    def _literal(self, record: Record) -> list[Step]:
        """The steps that write the callsite's word, and after it the target's own word, if there is one: a new target is called
        once both are new."""
        steps, site = super()._literal(record), record.site
        if not self._way.beside or site.literal is None:
            return steps
        target = self._direct(site.function) if self._alone(record) else 0
        if self._beside.get(site.function, 0) != target:
            self._beside[site.function] = target
            why = "the direct call's target" if target else "no direct call of its own"
            steps += self.arch.write_word(site.literal - POINTER, target, f"{site.function}: {why}")
        return steps
