"""The verifier: every path through a program, and what each instruction does with the context on any of them.

For this purpose only: it makes no program safe to run, it says which of them could be rewritten. Jumps go forward, so that every
path ends. It is stricter than the kernel's with the context's address, which a privileged program may compare, return and keep in a
map there: a later reader of the map would take it for a pt_regs. It is stricter with sizes for helpers, which must be constants,
and with stores into the context, which the kernel refuses only when a program is attached, as programs of uprobes may
(<20250916215301.664963-2-jolsa@kernel.org>). It is less strict in one thing: a constant added to the context pointer is allowed,
which the kernel refuses (`check_ptr_off_reg()` in kernel/bpf/verifier.c).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.errors import TramplabError
from . import arithmetic, helpers
from .encoding import ALU64, CALL, EXIT, JMP, MAP, ST, Instruction, Program
from .helping import Handed, Through, call
from .refusal import ESCAPE, INVALID, NUMBER, OUTSIDE, STORE, VARIABLE, Refusal, Refused
from .state import State, moved
from .text import shown
from .values import UNKNOWN, Context, Found, Map, Scalar, Stack, Value, called

#: States that are looked at before it is given up.
MOST = 100_000
_MASK = (1 << 64) - 1
#: The kernel verifier's limits on the constants of some operations, by the bits of the operation.
_BOUNDED: dict[str, Callable[[int, int], bool]] = {
    **dict.fromkeys(("/=", "%=", "s/=", "s%="), lambda imm, bits: imm != 0),
    **dict.fromkeys(("<<=", ">>=", "s>>="), lambda imm, bits: 0 <= imm < bits),
}


@dataclass(frozen=True)
class Read:
    """A load from the context.

    moved: how far the pointer in the register was moved before the instruction adds its own offset.
    offset, size: the bytes of pt_regs that are read.
    """

    moved: int
    offset: int
    size: int


@dataclass(frozen=True)
class Elsewhere:
    """A load of the instruction from memory that is not the context, on another path."""


Use = Read | Elsewhere | Handed | Through
#: Slot of an instruction -> its uses on all paths.
Uses = dict[int, set[Use]]


def verify(program: Program, size: int) -> Uses | Refused:
    """The uses that a program makes of a context of this many bytes, or why it is refused in any case.

    Raises TramplabError for helpers outside the subset, if there are too many paths, and if there is no instruction.
    """
    if not program or program[0] is None:
        raise TramplabError("a program begins with an instruction.")
    return _Verifier(program, size).run()


class _Verifier:
    def __init__(self, program: Program, size: int) -> None:
        self.program, self.size = program, size
        self.uses: Uses = {}

    def run(self) -> Uses | Refused:
        todo, seen = [(0, State())], set()
        while todo:
            at, state = todo.pop()
            if (at, state) in seen:
                continue
            seen.add((at, state))
            if len(seen) > MOST:
                raise TramplabError(f"the program has more than {MOST} states on its paths; make it shorter.")
            i = self.program[at]
            assert i is not None  # a jump there is refused where it is
            try:
                todo += [(self._target(at, to), then) for to, then in self._step(at, i, state)]
            except Refusal as e:
                return e.at(at, shown(i))
        return self.uses

    def _target(self, at: int, to: int) -> int:
        if to <= at:
            raise Refusal(INVALID, "jumps back")
        if to >= len(self.program):
            raise Refusal(INVALID, "the program ends without exit")
        if self.program[to] is None:
            raise Refusal(INVALID, "jumps into an instruction")
        return to

    def _step(self, at: int, i: Instruction, state: State) -> list[tuple[int, State]]:
        """(slot, state) of each instruction where the path goes on; none from an exit."""
        match i.kind:
            case 0:
                value = Map(i.imm) if i.src == MAP else Scalar(i.imm)
                return [(at + 2, state.put(i.dst, value))]
            case 1:
                return [(at + 1, state.put(i.dst, self._load(at, i, state)))]
            case 2 | 3:
                return [(at + 1, self._store(i, state))]
            case 4 | 7:
                return [(at + 1, state.put(i.dst, self._operate(i, state)))]
        if i.opcode == JMP | CALL:
            after, uses = call(helpers.helper(i.imm, at), at, state)
            for use in uses:
                self.uses.setdefault(at, set()).add(use)
            return [(at + 1, after)]
        if i.opcode == JMP | EXIT:
            result = state.of(0)
            if not isinstance(result, Scalar):
                raise Refusal(NUMBER if isinstance(result, Context) else INVALID, f"returns {called(result)}'s address")
            return []
        if i.condition is None:
            return [(at + 1 + (i.jump or 0), state)]
        return self._branch(at, i, state)

    def _load(self, at: int, i: Instruction, state: State) -> Value:
        base = state.of(i.src)
        if isinstance(base, Context):
            self.uses.setdefault(at, set()).add(self._read(base, i))
            return UNKNOWN
        self.uses.setdefault(at, set()).add(Elsewhere())
        if isinstance(base, Stack):
            return state.load(base.offset + i.off, i.size)
        _within_value(base, i.off, i.size)
        return UNKNOWN

    def _read(self, base: Context, i: Instruction) -> Read:
        """A load from the context: within it, and aligned, as the kernel asks of a kprobe program."""
        if base.offset is None:
            raise Refusal(VARIABLE, "reads the context at an offset that is not a constant")
        offset = base.offset + i.off
        if not 0 <= offset <= self.size - i.size:
            raise Refusal(OUTSIDE, f"reads {i.size} bytes at {offset} of a context of {self.size}")
        if offset % i.size:
            raise Refusal(OUTSIDE, f"reads {i.size} bytes at {offset}, which is not aligned")
        return Read(base.offset, offset, i.size)

    def _store(self, i: Instruction, state: State) -> State:
        base = state.of(i.dst)
        value = Scalar(i.imm & _MASK) if i.kind == ST else state.of(i.src)
        if isinstance(base, Context):
            raise Refusal(STORE, "stores into the context, which a kprobe program may only read")
        if isinstance(base, Stack):
            return state.store(base.offset + i.off, i.size, value)
        _within_value(base, i.off, i.size)
        if not isinstance(value, Scalar):
            kind = ESCAPE if isinstance(value, Context) else INVALID
            raise Refusal(kind, f"stores {called(value)}'s address into {called(base)}")
        return state

    def _operate(self, i: Instruction, state: State) -> Value:
        operation, bits = i.operation, 64 if i.kind == ALU64 else 32
        second = state.of(i.src) if i.by_register else Scalar(i.imm & _MASK)
        first = UNKNOWN if operation == "=" else state.of(i.dst)
        if operation == "=" and bits == 64 and not i.off:
            return second
        if not i.by_register and operation in _BOUNDED and not _BOUNDED[operation](i.imm, bits):
            raise Refusal(INVALID, f"{operation} {i.imm} of {bits} bits is nothing that a constant may ask for")
        if not isinstance(first, Scalar) and operation in ("+=", "-=") and bits == 64:
            return moved(first, second, 1 if operation == "+=" else -1)
        if isinstance(first, Scalar) and operation == "+=" and bits == 64 and not isinstance(second, Scalar):
            return moved(second, first, 1)
        for value in (first, second):
            if not isinstance(value, Scalar):
                kind = NUMBER if isinstance(value, Context) else INVALID
                raise Refusal(kind, f"calculates with {called(value)}'s address")
        constants = [v.value for v in (first, second) if isinstance(v, Scalar) and v.value is not None]
        if len(constants) < 2 and not (operation == "=" and isinstance(second, Scalar) and second.value is not None):
            return UNKNOWN
        extend = i.off if operation == "=" else 0
        return Scalar(arithmetic.operate(operation, constants[0], constants[-1], bits, extend))

    def _branch(self, at: int, i: Instruction, state: State) -> list[tuple[int, State]]:
        """(slot, state) of both ways, or of the one that is taken where that is known."""
        first, second = state.of(i.dst), state.of(i.src) if i.by_register else Scalar(i.imm & _MASK)
        assert i.condition is not None
        over, away = at + 1, at + 1 + i.off
        if isinstance(first, Found) and second == Scalar(0) and i.condition in ("==", "!=") and i.kind == JMP:
            null, not_null = (away, over) if i.condition == "==" else (over, away)
            branch = (not_null, state.without_null(first.lookup, True))
            return [branch] if first.checked else [(null, state.without_null(first.lookup, False)), branch]
        for value in (first, second):
            if not isinstance(value, Scalar):
                kind = NUMBER if isinstance(value, Context) else INVALID
                raise Refusal(kind, f"compares {called(value)}'s address")
        assert isinstance(first, Scalar) and isinstance(second, Scalar)
        if first.value is not None and second.value is not None:
            taken = arithmetic.holds(i.condition, first.value, second.value, 64 if i.kind == JMP else 32)
            return [(away if taken else over, state)]
        if i.kind == JMP and second.value is not None and i.condition in ("==", "!="):
            same = state.put(i.dst, second)
            return [(away, same if i.condition == "==" else state), (over, same if i.condition == "!=" else state)]
        return [(away, state), (over, state)]


def _within_value(base: Value, off: int, size: int) -> None:
    """An access to memory that is neither the context nor the stack: it must be a map's value."""
    if not isinstance(base, Found) or not base.checked:
        raise Refusal(INVALID, f"the address is {called(base)}")
    offset = base.offset + off
    if offset % size or not 0 <= offset <= helpers.VALUE_SIZE - size:
        raise Refusal(INVALID, f"{size} bytes at {offset} are not in a map's value of {helpers.VALUE_SIZE}, or not aligned")


