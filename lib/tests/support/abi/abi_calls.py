"""The traced functions in Python: what a call of each must give back, leave in memory, and call in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.abi.abi import Lab
    from tramplab.isa import Isa

MASK = (1 << 64) - 1
WEIGHTS = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)


def weigh(*args: int) -> int:
    """What no_args to twelve_args compute, but for no_args' constant."""
    return sum(a * w for a, w in zip(args, WEIGHTS, strict=False)) & MASK


@dataclass
class Call:
    """One call of a traced function and what it must do.

    values: the return registers' contents, in order. words: memory words it must leave, address -> value. nested: the
    traced functions it calls, with their arguments. jumps: the same for one it leaves to by a jump. sizes: the bytes of an
    argument word that are the argument's, where these are not all.
    """

    name: str
    args: tuple[int, ...]
    values: tuple[int, ...]
    result_at: int | None = None
    words: dict[int, int] = field(default_factory=dict)
    nested: tuple[tuple[str, tuple[int, ...]], ...] = ()
    jumps: tuple[str, tuple[int, ...]] | None = None
    sizes: dict[int, int] = field(default_factory=dict)

    def shown(self, isa: Isa) -> list[int]:
        """The argument words as a BPF trampoline shows them: arm64's clears bytes on the stack that are no argument's, x86-64's the
        upper half of a word that is the only one there."""
        out = list(self.args)
        stacked = [i for i, place in enumerate(places(isa, self.name)) if isinstance(place, int)]
        for i in stacked:
            if isa.name == "arm64":
                out[i] &= (1 << 8 * self.sizes.get(i, 8)) - 1
            elif isa.name == "x86_64" and len(stacked) == 1 and self.sizes.get(i, 8) <= 4:
                out[i] &= 0xFFFFFFFF
        return out


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


def _int_seventh(word, lab) -> Call:
    args = tuple(word() for _ in range(7))
    low = args[6] & 0xFFFFFFFF
    if lab.isa.name == "riscv64":  # who passes an int extends its sign, whatever its type
        args = (*args[:6], (low ^ 1 << 31) - (1 << 31) & MASK)
    return Call("int_seventh", args, (weigh(*args[:6], low),), sizes={6: 4})


def _uneven_ninth(word, lab) -> Call:
    args = [word() for _ in range(11)]
    first, second, third = args[8] & 0xFFFFFFFF, args[8] >> 32, args[9] & 0xFFFFFFFF
    short = args[10] & 0xFFFF
    # who passes a short extends it: to the whole word on riscv64, to 32 bits on x86-64, on arm64 not at all
    args[10] = {"riscv64": short, "x86_64": args[10] >> 32 << 32 | short, "arm64": args[10]}[lab.isa.name]
    return Call("uneven_ninth", tuple(args), (weigh(*args[:8], first, second, third, short),), sizes={9: 4, 10: 2})


#: Where the argument words of functions are whose structs are not simply the next words, by hand.
PLACES = {
    "struct_after_five": {"x86_64": "rdi rsi rdx rcx r8 0 1 r9"},
    "struct_after_seven": {"arm64": "x0 x1 x2 x3 x4 x5 x6 0 1 2"},
}
MAKERS: dict[str, Callable[[Callable[[], int], Lab], Call]] = {
    "no_args": _no_args,
    **{
        f"{n}_arg{'s' if i else ''}": _plain(f"{n}_arg{'s' if i else ''}", i + 1)
        for i, n in enumerate("one two three four five six seven eight nine ten eleven twelve".split())
    },
    "pointer_args": _pointer_args,
    "calls_others": _calls_others,
    "tail_call": _tail_call,
    "struct_return": _struct_return,
    "big_struct_return": _big_struct_return,
    "struct_arg": _plain("struct_arg", 3),  # a struct of two words and a scalar travel as three words
    "struct_after_five": _plain("struct_after_five", 8),
    "struct_after_seven": _plain("struct_after_seven", 10),
    "int_seventh": _int_seventh,
    "uneven_ninth": _uneven_ninth,
}
#: Every function the states call.
FUNCTIONS = tuple(MAKERS)
#: Argument words of each function; a pointer to a large result comes on top.
WORDS = {name: n for n, name in enumerate(FUNCTIONS[:13])} | {
    "pointer_args": 2,
    "calls_others": 3,
    "tail_call": 2,
    "struct_return": 2,
    "big_struct_return": 2,
    "struct_arg": 3,
    "struct_after_five": 8,
    "struct_after_seven": 10,
    "int_seventh": 7,
    "uneven_ninth": 11,
}


def places(isa: Isa, name: str) -> list[str | int]:
    """Where a function's argument words are: registers, and indices of words on the stack."""
    if isa.name in PLACES.get(name, {}):
        return [int(place) if place.isdigit() else place for place in PLACES[name][isa.name].split()]
    free = [r for r in isa.args if name != "big_struct_return" or r != isa.struct_return]
    return [*free[: WORDS[name]], *range(WORDS[name] - len(free))]
