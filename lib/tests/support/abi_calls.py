"""The traced functions in Python: what a call of each must give back, leave in memory, and call in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.abi import Lab

MASK = (1 << 64) - 1
WEIGHTS = (3, 5, 7, 11, 13, 17, 19, 23)


def weigh(*args: int) -> int:
    """What no_args to eight_args compute, but for no_args' constant."""
    return sum(a * w for a, w in zip(args, WEIGHTS, strict=False)) & MASK


@dataclass
class Call:
    """One call of a traced function and what it must do.

    values: the return registers' contents, in order. words: memory words it must leave, address -> value. nested: the
    traced functions it calls, with their arguments. jumps: the same for one it leaves to by a jump.
    """

    name: str
    args: tuple[int, ...]
    values: tuple[int, ...]
    result_at: int | None = None
    words: dict[int, int] = field(default_factory=dict)
    nested: tuple[tuple[str, tuple[int, ...]], ...] = ()
    jumps: tuple[str, tuple[int, ...]] | None = None


def _plain(name: str, count: int):
    def make(word: Callable[[], int], lab: Lab) -> Call:
        args = tuple(word() for _ in range(count))
        return Call(name, args, (weigh(*args),))

    return make


def _no_args(word, lab) -> Call:
    sink = word()
    lab.machine.write_u64(lab.sink, sink)
    return Call("no_args", (), (sink + 41 & MASK,))


def _pointer_args(word, lab) -> Call:
    source, target = (lab.scratch + 8 * (word() % lab.SCRATCH_WORDS) for _ in range(2))
    value = word()
    lab.machine.write_u64(source, value)
    tripled = value * WEIGHTS[0] & MASK
    left = tripled if source == target else value
    return Call("pointer_args", (source, target), (left + tripled & MASK,), words={target: tripled, source: left})


def _calls_others(word, lab) -> Call:
    a, b, c = word(), word(), word()
    left = weigh(a, b)
    inner = (c, left, a)
    nested = (("two_args", (a, b)), ("three_args", inner))
    return Call("calls_others", (a, b, c), (left * WEIGHTS[3] + weigh(*inner) & MASK,), nested=nested)


def _tail_call(word, lab) -> Call:
    a, b = word(), word()
    return Call("tail_call", (a, b), (weigh(b, a),), jumps=("two_args", (b, a)))


def _struct_return(word, lab) -> Call:
    a, b = word(), word()
    return Call("struct_return", (a, b), (a * 3 + b & MASK, b * 5 + a & MASK))


def _big_struct_return(word, lab) -> Call:
    a, b = word(), word()
    at = lab.scratch + 8 * (word() % (lab.SCRATCH_WORDS - 2))
    words = {at: a * 3 + b & MASK, at + 8: b * 5 + a & MASK, at + 16: a - b & MASK}
    # x86-64 also returns the pointer; the other two conventions leave the register undefined
    return Call("big_struct_return", (a, b), (at,) if lab.isa.name == "x86_64" else (), result_at=at, words=words)


MAKERS: dict[str, Callable[[Callable[[], int], Lab], Call]] = {
    "no_args": _no_args,
    **{
        f"{n}_arg{'s' if i else ''}": _plain(f"{n}_arg{'s' if i else ''}", i + 1)
        for i, n in enumerate("one two three four five six seven eight".split())
    },
    "pointer_args": _pointer_args,
    "calls_others": _calls_others,
    "tail_call": _tail_call,
    "struct_return": _struct_return,
    "big_struct_return": _big_struct_return,
    "struct_arg": _plain("struct_arg", 3),  # a struct of two words and a scalar travel as three words
}
#: Every function the states call.
FUNCTIONS = tuple(MAKERS)
#: Words that each function takes in registers, as far as they reach; a pointer to a large result comes on top.
WORDS = {name: n for n, name in enumerate(FUNCTIONS[:9])} | {
    "pointer_args": 2,
    "calls_others": 3,
    "tail_call": 2,
    "struct_return": 2,
    "big_struct_return": 2,
    "struct_arg": 3,
}
