"""A call of a helper on one path: are its arguments what it takes, and what becomes of the context among them?"""

from __future__ import annotations

from dataclasses import dataclass

from . import helpers
from .helpers import ADDRESS, CONTEXTS, KEY, KEY_SIZE, MAP, NUMBER, READ, SIZE, VALUE, VALUE_SIZE, WRITTEN, Helper
from .refusal import ESCAPE, INVALID, VARIABLE, Refusal
from .refusal import NUMBER as AS_NUMBER
from .state import State
from .values import UNKNOWN, Context, Found, Map, Scalar, Stack, Value, called

_LARGEST = 1 << 20


@dataclass(frozen=True)
class Handed:
    """The context is handed to a helper."""

    helper: Helper
    role: str


@dataclass(frozen=True)
class Through:
    """A helper reads memory that it is given by an address within the context: which bytes of it."""

    helper: Helper
    offset: int
    size: int


def call(helper: Helper, at: int, state: State) -> tuple[State, list[Handed | Through]]:
    """The state behind a call, and what was done with the context; Refusal where an argument is not what it must be."""
    uses: list[Handed | Through] = []
    values = [state.of(1 + n) for n in range(len(helper.takes))]
    for n, (kind, value) in enumerate(zip(helper.takes, values, strict=True)):
        if kind in CONTEXTS:
            _whole(helper, value)
            uses.append(Handed(helper, kind))
        elif isinstance(value, Context):
            uses.append(_through(helper, n, value, values))
        elif kind in (NUMBER, SIZE):
            if not isinstance(value, Scalar):
                raise Refusal(INVALID, f"hands {helper.name} {called(value)} as a number")
        elif kind == MAP:
            if not isinstance(value, Map):
                raise Refusal(INVALID, f"hands {helper.name} {called(value)} as a map")
        elif kind != ADDRESS or not isinstance(value, Scalar):
            state = _memory(helper, n, value, values, state)
    registers = list(state.registers)
    registers[:6] = [Found(at) if helper.finds else UNKNOWN] + [None] * 5
    return State(tuple(registers), state.written, state.slots), uses


def _whole(helper: Helper, value: Value) -> None:
    """Raise Refusal unless a helper gets the context as it was."""
    if not isinstance(value, Context):
        raise Refusal(INVALID, f"hands {helper.name} {called(value)} as its context")
    if value.offset != 0:
        raise Refusal(VARIABLE, f"hands {helper.name} the context at an offset")


def _through(helper: Helper, argument: int, value: Context, values: list[Value]) -> Through:
    """What a helper reads that gets the context's address in place of memory; raises Refusal for any other kind of argument."""
    kind = helper.takes[argument]
    if kind in (NUMBER, SIZE):
        raise Refusal(AS_NUMBER, f"hands {helper.name} the context's address as a number")
    if kind == WRITTEN:
        raise Refusal(INVALID, f"has {helper.name} write into the context")
    if kind not in (READ, ADDRESS, KEY, VALUE):
        raise Refusal(ESCAPE, f"hands {helper.name} the context as a {kind}")
    if value.offset is None:
        raise Refusal(VARIABLE, f"has {helper.name} read the context at an offset that is not a constant")
    return Through(helper, value.offset, _size(helper, argument, values))


def _size(helper: Helper, argument: int, values: list[Value]) -> int:
    """How many bytes of an argument a helper reads or writes."""
    by = helper.sized(argument)
    if by is None:
        return KEY_SIZE if helper.takes[argument] == KEY else VALUE_SIZE
    size = values[by]
    if not isinstance(size, Scalar) or size.value is None:
        raise Refusal(INVALID, f"hands {helper.name} a size that is not a constant")
    if not 0 < size.value <= _LARGEST:
        raise Refusal(INVALID, f"hands {helper.name} a size of {size.value}")
    return size.value


def _memory(helper: Helper, argument: int, value: Value, values: list[Value], state: State) -> State:
    """Memory of the program's own, for a helper to read or write."""
    size = _size(helper, argument, values)
    if isinstance(value, Stack):
        if helper.takes[argument] == WRITTEN:
            return state.filled(value.offset, size)
        state.readable(value.offset, size)
        return state
    if not isinstance(value, Found) or not value.checked:
        raise Refusal(INVALID, f"hands {helper.name} {called(value)} as memory")
    if not 0 <= value.offset <= helpers.VALUE_SIZE - size:
        raise Refusal(INVALID, f"hands {helper.name} {size} bytes at {value.offset} of a map's value")
    return state
