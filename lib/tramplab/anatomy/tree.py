"""A recorded call as boxes: one for each time that execution is in a function, those that it calls on top of it.

A call instruction goes one level deeper, and so does an exception, which ends with an instruction of its own. A call ends where
execution goes to the address behind it with its stack pointer, however it gets there: a trampoline may leave by a jump, and return
to the caller of the function that called it. A jump into another function is a call as well if execution comes back behind it, as
where the trampoline of an fexit program runs the function on arm64; if it does not, the two are one behind the other on one level,
as after a tail call. A name that execution runs into, or jumps behind, is no function but a label in the one that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..estimate.returnstack import events, replay
from ..lab.call import RecordedCall
from ..lab.run import Run

#: Instructions that raise an exception, and that return from one.
RAISES = frozenset({"brk", "ebreak", "c.ebreak", "int3"})
RETURNS = frozenset({"eret", "sret", "iretq"})
#: Instructions that jump in any case, also to what lies behind them.
_JUMPS = frozenset({"jmp", "b", "j", "c.j"})
CALL, JUMP, EXCEPTION = "call", "jump", "exception"


@dataclass(eq=False)
class Box:
    """A stretch of a call in one function.

    name: the function.
    component: the part of the kernel that it belongs to, see Run.component_of.
    start: number of its first step.
    depth: 0 for the traced function.
    own: steps in the function itself.
    mispredicted: how many of these are mispredicted returns.
    inner: boxes of what it calls, in order.
    """

    name: str
    component: str
    start: int
    depth: int
    own: int = 0
    mispredicted: int = 0
    inner: list[Box] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Steps from its first to its last, those of what it calls included."""
        return self.own + sum(box.length for box in self.inner)

    def every(self) -> list[Box]:
        """This box and all inner ones, at any depth, in the order in which they begin."""
        return [self, *(deeper for box in self.inner for deeper in box.every())]


@dataclass
class _Level:
    """A level of the call stack.

    how: CALL, JUMP or EXCEPTION, which led to it.
    behind, sp: the address behind the instruction that did, and the stack pointer there.
    boxes: all of the level, of which only the last one is not complete.
    """

    how: str
    behind: int
    sp: int
    boxes: list[Box] = field(default_factory=list)


def boxes(call: Run | RecordedCall, component_of: Callable[[int], str]) -> tuple[Box, ...]:
    """The boxes of depth 0 of a call, in order. component_of: address -> a part of the kernel, such as "trampoline"."""
    call = RecordedCall.of(call)
    calls = {event.step for event in events(call) if event.link.pushes}
    places = _places(call, component_of, calls)
    missed = {miss.step for miss in replay(call).where}
    levels, sps = [_Level(CALL, call.returns_to, 0)], call.recording.sp.tolist()
    ways = zip(call.recording.pc.tolist(), sps, call.destinations(), [*sps[1:], sps[0]], strict=True)
    for step, (pc, sp, went, sp_there) in enumerate(ways):
        level, (name, component) = levels[-1].boxes, places[pc]
        if not level or (level[-1].name, level[-1].component) != (name, component):
            level.append(Box(name, component, step, 0))
        level[-1].own += 1
        level[-1].mispredicted += step in missed
        instruction = call.instructions[pc]
        behind = pc + instruction.size
        if step in calls:
            levels.append(_Level(CALL, behind, sp))
        elif instruction.mnemonic in RAISES:
            levels.append(_Level(EXCEPTION, behind, sp))
        elif instruction.mnemonic in RETURNS:
            _end(levels, [level.how == EXCEPTION for level in levels])
        elif went != behind:
            ends = [level.how != EXCEPTION and level.behind == went and level.sp <= sp_there for level in levels]
            if not _end(levels, ends) and went in places and places[went][0] != name:
                levels.append(_Level(JUMP, behind, sp))
    while len(levels) > 1:
        _take_down(levels)
    return tuple(_deepened(levels[0].boxes, 0))


def _places(call: RecordedCall, component_of: Callable[[int], str], calls: set[int]) -> dict[int, tuple[str, str]]:
    """The function and the component of each address."""
    symbols = {pc: call.where(pc).split("+") for pc in call.instructions}
    places = {pc: (name, component_of(pc)) for pc, (name, *_) in symbols.items()}
    labels: dict[tuple[str, str], tuple[str, str]] = {}
    returns = {event.step for event in events(call) if event.link.pops}
    seen = list(dict.fromkeys(places[pc] for pc in call.recording.pc.tolist()))

    def function(place: tuple[str, str]) -> tuple[str, str]:
        while place in labels:
            place = labels[place]
        return place

    for step, (pc, went) in enumerate(zip(call.recording.pc.tolist(), call.destinations(), strict=True)):
        mnemonic, behind = call.instructions[pc].mnemonic, pc + call.instructions[pc].size
        to = behind if step in calls else went
        if to not in places or step in returns or mnemonic in RAISES | RETURNS:
            continue
        if len(symbols[to]) > 1 or (to == behind and mnemonic not in _JUMPS):
            first, second = sorted((function(places[pc]), function(places[to])), key=seen.index)
            if first != second and first[1] == second[1]:
                labels[second] = first
    return {pc: function(place) for pc, place in places.items()}


def _end(levels: list[_Level], ends: list[bool]) -> bool:
    """Take down the levels from the innermost one on that ends, other than the lowest; False if none does."""
    inner = next((n for n in range(len(levels) - 1, 0, -1) if ends[n]), None)
    if inner is None:
        return False
    while len(levels) > inner:
        _take_down(levels, ended=len(levels) == inner + 1)
    return True


def _take_down(levels: list[_Level], ended: bool = False) -> None:
    """Take down the innermost level. ended: does execution come back behind what led to it? Else a jump was a tail call."""
    top = levels.pop()
    below = levels[-1].boxes
    (below if top.how == JUMP and not ended else below[-1].inner).extend(top.boxes)


def _deepened(level: Iterable[Box], depth: int) -> Iterable[Box]:
    """The boxes with their depths set, and with those of all inner boxes."""
    for box in level:
        box.depth = depth
        box.inner = list(_deepened(box.inner, depth + 1))
        yield box
