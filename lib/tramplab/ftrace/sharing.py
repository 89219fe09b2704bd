"""Requests that are no ops of their own: they share one, or ftrace does not know them.

An ops that is shared is registered with the first one, its filter follows them, and it leaves with the last. So it is with fprobes
from v6.14 on. What a request has of its own is put where the shared ops' callback finds it when the sites lead there, as
register_fprobe_ips() does, and is taken away again before they change. A breakpoint in the text is in no list and no record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..base.errors import TramplabError
from ..emulate.image import Image
from .layout import Heap
from .maker import Maker, maker_of
from .ops import Registered, Request, selected
from .releases import Features
from .site import Site
from .slowpath import SlowPath
from .steps import Free, Step, Sync, Wait


class Sharer(Maker, Protocol):
    """A maker whose requests share an ops: what they register has `shares`."""

    def enter(self, member: Registered) -> list[Step]:
        """The steps after which the shared ops' callback finds a member."""
        ...

    def leave(self, member: Registered) -> list[Step]:
        """The steps after which the shared ops' callback no longer finds a member."""
        ...


class SharingSlowPath(SlowPath):
    """The slow path with requests that share an ops, and breakpoints; each counts its calls in a place of its own."""

    def __init__(
        self, image: Image, features: Features, heap: Heap, sites: Mapping[str, Site], makers: Sequence[Maker]
    ) -> None:
        super().__init__(image, features, heap, sites, makers)
        self._hosts: dict[type[Request], Registered] = {}
        self._joined: dict[type[Request], list[Registered]] = {}  # newest first
        self.breakpoints: list[Registered] = []  # newest first

    # changes

    def register(self, request: Request) -> tuple[Registered, list[Step]]:
        """Register a request as SlowPath does; one that shares an ops joins it, and a breakpoint is in no list, record or site."""
        maker = maker_of(request, self.makers)
        functions = selected(request, tuple(self.records))
        maker.check(request, functions)
        made = maker.make(request, functions)
        if made.breakpoint:
            return made, self._unknown_to_ftrace(made, maker)
        return super().register(request) if made.shares is None else self._join(made, made.shares, maker)

    def unregister(self, ops: Registered) -> list[Step]:
        """Unregister as SlowPath does; a request that shares an ops leaves it."""
        if ops in self.breakpoints:
            self.breakpoints.remove(ops)
            return [*maker_of(ops.request, self.makers).free(ops), *self.memory.free(ops)]
        return self._leave(ops, ops.shares) if ops.shares is not None else super().unregister(ops)

    # answers

    @property
    def counted(self) -> list[Registered]:
        """The registrations with counters of calls: every ops, newest first, with the members of a shared ops in its place; then
        those that ftrace does not know."""
        registrations: list[Registered] = []
        for ops in self.ops:
            registrations += self._joined.get(type(ops.request), [ops])
        return [*registrations, *self.breakpoints]

    @property
    def everyone(self) -> list[Registered]:
        """Every ops, every request that shares one, and the breakpoints, which ftrace does not know."""
        return [*self.ops, *(m for members in self._joined.values() for m in members), *self.breakpoints]

    # inside

    def _awaited(self, ops: Registered) -> Sync:
        """What frees wait for: nothing for a shared ops, which is the core kernel's own and not freed (ftrace_shutdown); a replaced
        hash of it is freed later (free_ftrace_hash_rcu)."""
        return Sync.CALL_RCU if ops in self._hosts.values() else super()._awaited(ops)

    def _join(self, member: Registered, shared: Request, maker: Maker) -> tuple[Registered, list[Step]]:
        """Register a member: the shared ops lets its functions through, then the callback finds the member."""
        kind = type(shared)
        member.index, member.address = self.memory.claim()
        try:
            creating = maker.create(member)
            steps = self._widen(kind, shared, member.functions)
        except TramplabError:
            self._give_back(member, maker)
            raise
        self._joined.setdefault(kind, []).insert(0, member)
        return member, creating + steps + self._sharer(member).enter(member)

    def _leave(self, member: Registered, shared: Request) -> list[Step]:
        kind, maker = type(shared), self._sharer(member)
        members = self._joined.get(kind, [])
        if member not in members:
            raise TramplabError(f"that request (for {', '.join(member.functions)}) is not registered, or not any more.")
        members.remove(member)
        steps = maker.leave(member) + self._narrow(kind, members)
        frees = [*maker.free(member), Free(self.memory, member.index, "its place")]
        if not members:
            del self._joined[kind]
        return [*steps, Wait(Sync.CALL_RCU, "nobody still reads what was taken away"), *frees]

    def _widen(self, kind: type[Request], shared: Request, functions: tuple[str, ...]) -> list[Step]:
        """Let the shared ops, registered if nobody had it, let these functions through as well."""
        host = self._hosts.get(kind)
        if host is None:
            self._hosts[kind], steps = super().register(dataclasses.replace(shared, filter=functions))
            return steps
        new = tuple(f for f in functions if f not in host.functions)
        if not new:
            return []
        self._check(dataclasses.replace(host, functions=new))
        host.functions += new
        steps, old = self._refiltered(host)
        for f in new:
            self.records[f].add(host)
        return steps + self._update(new) + self._behind(old, Sync.CALL_RCU)

    def _narrow(self, kind: type[Request], members: Sequence[Registered]) -> list[Step]:
        """Narrow the shared ops to the functions that are still wanted, and unregister it when there are none."""
        host = self._hosts[kind]
        if not members:
            steps = super().unregister(host)
            del self._hosts[kind]
            return steps
        gone = tuple(f for f in host.functions if not any(m.wants(f) for m in members))
        if not gone:
            return []
        host.functions = tuple(f for f in host.functions if f not in gone)
        steps, old = self._refiltered(host)
        for f in gone:
            self.records[f].remove(host, self.wanting(f))
        return steps + self._update(gone) + self._behind(old, Sync.CALL_RCU)

    def _refiltered(self, host: Registered) -> tuple[list[Step], list[Step]]:
        return self.memory.refilter(host, {f: r.site.ip for f, r in self.records.items()})

    def _unknown_to_ftrace(self, ops: Registered, maker: Maker) -> list[Step]:
        """Take a breakpoint: it has a place in the pool for its counter, and no list, record or site changes."""
        ops.index, ops.address = self.memory.claim()
        try:
            steps = maker.create(ops)
        except TramplabError:
            self._give_back(ops, maker)
            raise
        self.breakpoints.insert(0, ops)
        return steps

    def _sharer(self, member: Registered) -> Sharer:
        maker: Any = maker_of(member.request, self.makers)
        return maker
