"""The slow path with one decision changed: which trampoline a function's site goes to. Everything else is the kernel's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import TramplabError
from ...ftrace.maker import Maker
from ...ftrace.ops import Registered, Request
from ...ftrace.records import IGNORE, MODIFY_CALL, Record
from ...ftrace.sharing import SharingSlowPath
from ...ftrace.steps import Free, Step, text
from ..guest import ROOM, Guest
from ..plain import Ops
from ..plain.maker import check_redirecting, registered
from ..saving import code, linked

#: The needs of an ops, each including the one before: the function's arguments, all of an ftrace_regs, all registers.
ORDER = ("live", "own-args", "own-regs")
#: The kernel's names of save sets -> the names here.
_SAME = {"args": "own-args", "regs": "own-regs"}


@dataclass(frozen=True)
class _Made:
    """A trampoline of one function: what it saves, the ops whose callback it calls (None: it calls the list function), its address,
    and its size in bytes."""

    save: str
    ops: Registered | None
    address: int
    size: int


class FittedOps:
    """The maker of ops without trampolines of their own: the slow path makes one trampoline for each function."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def serves(self, request: Request) -> bool:
        """Is it an ops that says what it needs, by a save set of the kernel's or of trampolines/saving?"""
        return isinstance(request, Ops) and _SAME.get(request.save, request.save) in ORDER

    def check(self, request: Ops, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if the release has no ftrace_regs to hand over, or for an ops that changes the ip."""
        check_redirecting(request)
        if request.ipmodify:
            raise TramplabError("a fitted trampoline is for ops that only look; take a kernel without slow_path=.")
        if not self._guest.features["args"]:
            raise TramplabError(f"a fitted trampoline hands over an ftrace_regs, which {self._guest.features} has not.")

    def make(self, request: Ops, functions: tuple[str, ...]) -> Registered:
        """The registration of an ops that has no trampoline of its own."""
        return registered(self._guest.image, request, functions)

    def create(self, ops: Registered) -> list[Step]:
        """No steps: the slow path makes the function's trampoline."""
        return []

    def free(self, ops: Registered) -> list[Step]:
        """No steps: the slow path frees the function's trampoline."""
        return []


class FittingSlowPath(SharingSlowPath):
    """A function with nothing but ops that say what they need goes to a trampoline of its own, the smallest that will do: it
    calls the only ops' callback, or the list function. All others go where the kernel sends them. One function at a time has
    such ops, as the room near the text is small."""

    def __init__(self, guest: Guest, makers: Sequence[Maker]) -> None:
        super().__init__(guest.image, guest.features, guest.heap, guest.sites, [FittedOps(guest), *makers])
        self._guest = guest
        self._made: dict[str, _Made] = {}
        self._moved: set[str] = set()

    def register(self, request: Request) -> tuple[Registered, list[Step]]:
        """Register as SharingSlowPath does; raises TramplabError also for an ops that says what it needs on a second function."""
        if self.makers[0].serves(request):
            others = {f for o in self.ops if self.makers[0].serves(o.request) for f in o.functions}
            if len(others | set(request.filter)) != 1 or request.notrace:
                raise TramplabError("fitted trampolines are for one function at a time: give the ops a filter of that one.")
        return super().register(request)

    def target(self, function: str) -> int:
        """The address that a function's site goes to: its fitted trampoline, or else the kernel's choice."""
        made = self._made.get(function)
        return made.address if made else super().target(function)

    def fitted(self, function: str) -> str:
        """The save set of a function's trampoline; "" if it has none of its own."""
        made = self._made.get(function)
        return made.save if made else ""

    def _settle(self, record: Record) -> str:
        """What a record's site needs; a site is rewritten also if only its trampoline is another one now."""
        action = super()._settle(record)
        return MODIFY_CALL if action == IGNORE and record.count and record.site.function in self._moved else action

    def _update(self, functions: tuple[str, ...]) -> list[Step]:
        """The steps that make the trampolines that fit now, bring the sites in line, and free the trampolines that they left."""
        made: list[Step] = []
        old: list[Step] = []
        self._moved = set()
        for function in functions:
            before, fit = self._made.get(function), self._fit(function)
            if (before and (before.save, before.ops)) == fit:
                continue
            self._moved.add(function)
            if before:
                del self._made[function]
                old += self._left(before)
            if fit:
                made.append(self._make(function, *fit))
        return made + super()._update(functions) + self._behind(old)

    def _fit(self, function: str) -> tuple[str, Registered | None] | None:
        """The smallest save set that serves all ops on a function, and the ops if it is the only one; None if the function has no
        ops, or one that does not say what it needs."""
        wanting = self.wanting(function)
        needs = [_SAME.get(save, save) for save in (getattr(o.request, "save", "") for o in wanting)]
        if not wanting or any(need not in ORDER for need in needs):
            return None
        return max(needs, key=ORDER.index), wanting[0] if len(wanting) == 1 else None

    def _make(self, function: str, save: str, ops: Registered | None) -> Step:
        """The step that makes a trampoline in the room near the text; raises TramplabError if that is full."""
        address: Any = self.image.address
        func = address("ftrace_ops_list_func") if not ops else address("ftrace_ops_assist_func") if ops.assisted else ops.func
        passed = ops.address if ops else address("ftrace_list_end")
        parts = code(self.image, self.features, save, (function,))
        size = len(linked(self.image.isa, parts, address(ROOM), passed, func))
        where = self._guest.near.take(size)
        self._made[function] = _Made(save, ops, where, size)
        whole = linked(self.image.isa, parts, where, passed, func)
        return text(where, whole, f"a trampoline for {function} that saves {save}")

    def _left(self, made: _Made) -> list[Step]:
        """The steps that free a trampoline's room."""
        return [text(made.address, bytes(made.size), "the room is empty again"), Free(self._guest.near, made.address, "its room")]
