"""The verifier's state on one path: registers, and the stack by bytes and by slots."""

from __future__ import annotations

from dataclasses import dataclass

from .refusal import ESCAPE, INVALID, VARIABLE, Refusal
from .values import UNKNOWN, Context, Found, Scalar, Stack, Value, called

#: Bytes of a program's stack.
STACK_SIZE = 512
FRAME, CONTEXT = 10, 1


@dataclass(frozen=True)
class State:
    """What the verifier knows at one instruction of one path.

    registers: r0 to r10.
    written: the bytes of the stack that were written, negative as they lie below the frame pointer.
    slots: the values of whole 8-byte slots that are known to be more than numbers.
    """

    registers: tuple[Value, ...] = (None, Context(), *(None,) * 8, Stack())
    written: frozenset[int] = frozenset()
    slots: tuple[tuple[int, Value], ...] = ()

    def of(self, register: int) -> Value:
        """The value of a register; raises Refusal if it was never written."""
        if self.registers[register] is None:
            raise Refusal(INVALID, f"r{register} was never written")
        return self.registers[register]

    def put(self, register: int, value: Value) -> State:
        """The state with another value in a register; raises Refusal for the frame pointer."""
        if register == FRAME:
            raise Refusal(INVALID, "the frame pointer is read-only")
        registers = (*self.registers[:register], value, *self.registers[register + 1 :])
        return State(registers, self.written, self.slots)

    def without_null(self, lookup: int, found: bool) -> State:
        """The state once it is known whether a lookup found anything: in every register and slot that holds its result."""

        def known(value: Value) -> Value:
            if isinstance(value, Found) and value.lookup == lookup and not value.checked:
                return Found(lookup, value.offset, True) if found else Scalar(0)
            return value

        slots = tuple((at, known(value)) for at, value in self.slots)
        return State(tuple(map(known, self.registers)), self.written, slots)

    def store(self, offset: int, size: int, value: Value) -> State:
        """The state with a value on the stack; a pointer is there as a whole or not at all."""
        span = _span(offset, size)
        if size == 8:
            kept = value
        elif isinstance(value, Scalar):
            kept = UNKNOWN
        else:
            raise Refusal(ESCAPE if isinstance(value, Context) else INVALID, f"stores {size} bytes of {called(value)}'s address")
        first = offset - offset % 8
        slots = dict(self.slots)
        slots.pop(first, None)
        if kept != UNKNOWN:
            slots[first] = kept
        return State(self.registers, self.written | set(span), tuple(sorted(slots.items(), key=lambda s: s[0])))

    def load(self, offset: int, size: int) -> Value:
        """The value that a load from the stack gives."""
        if not self.written.issuperset(_span(offset, size)):
            raise Refusal(INVALID, "reads bytes of the stack that were never written")
        kept = dict(self.slots).get(offset - offset % 8, UNKNOWN)
        if size == 8:
            return kept
        if not isinstance(kept, Scalar):
            kind = ESCAPE if isinstance(kept, Context) else INVALID
            raise Refusal(kind, f"reads {size} of the 8 bytes of {called(kept)}'s address")
        return UNKNOWN

    def readable(self, offset: int, size: int) -> None:
        """Raise Refusal if a helper may not read these bytes of the stack."""
        if not -STACK_SIZE <= offset <= offset + size <= 0:
            raise Refusal(INVALID, f"{size} bytes at {offset} are not on the stack")
        if not self.written.issuperset(range(offset, offset + size)):
            raise Refusal(INVALID, "hands a helper bytes of the stack that were never written")
        for at, value in self.slots:
            if at < offset + size and offset < at + 8 and not isinstance(value, Scalar):
                kind = ESCAPE if isinstance(value, Context) else INVALID
                raise Refusal(kind, f"hands a helper {called(value)}'s address, which it copies")

    def filled(self, offset: int, size: int) -> State:
        """The state after a helper has written these bytes."""
        if not -STACK_SIZE <= offset <= offset + size <= 0:
            raise Refusal(INVALID, f"{size} bytes at {offset} are not on the stack")
        slots = tuple((at, value) for at, value in self.slots if not (at < offset + size and offset < at + 8))
        return State(self.registers, self.written | set(range(offset, offset + size)), slots)


def _span(offset: int, size: int) -> range:
    """The bytes of an aligned access."""
    if offset % size or not -STACK_SIZE <= offset <= -size:
        raise Refusal(INVALID, f"{size} bytes at {offset} are not on the stack, or not aligned")
    return range(offset, offset + size)


def moved(value: Value, by: Value, sign: int) -> Value:
    """A pointer and a number; Refusal where that is not allowed. Of the context, a variable offset is refused where it is used."""
    amount = by.value if isinstance(by, Scalar) else None
    if not isinstance(by, Scalar):
        raise Refusal(INVALID, f"adds {called(by)} to {called(value)}")
    if isinstance(value, Context):
        if amount is None or value.offset is None:
            return Context(None)
        offset = value.offset + sign * _near(amount)
        if abs(offset) >= 1 << 29:
            raise Refusal(VARIABLE, "an offset from the context of 512 MiB or more")
        return Context(offset)
    if isinstance(value, Stack | Found) and amount is not None:
        if isinstance(value, Found) and not value.checked:
            raise Refusal(INVALID, "adds to what may be null")
        offset = value.offset + sign * _near(amount)
        return Stack(offset) if isinstance(value, Stack) else Found(value.lookup, offset, True)
    raise Refusal(INVALID, f"adds a variable to {called(value)}")


def _near(amount: int) -> int:
    """A 64-bit number with its sign."""
    return amount - (1 << 64) if amount >> 63 else amount
