"""The content of the slots of a register structure, found from samples: calls with other values in the registers and on the stack.

Nothing is declared of a slot but which register it is named after. In every sample that register had another value, and so had
the stack before the call, so what a slot holds shows where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...base.errors import TramplabError

#: The interrupted value; made from such values by a rule; the same whatever they are; what the stack held before; not the
#: provider's to fill, as it lies in a frame of the callers; none of these.
TRUE, DERIVED, CONSTANT, GARBAGE, OUTSIDE, UNKNOWN = KINDS = ("true", "derived", "constant", "garbage", "outside", "unknown")
_WORD = 1 << 64
#: A slot that is this far or less from a register's value is made from it.
_NEAR = 1 << 16


@dataclass(frozen=True)
class Sample:
    """One call.

    seed: selects the values of the registers.
    poison: selects the content of the stack.
    values: slot -> its content.
    truth: register, or another quantity that a rule may name -> its value where the provider took over.
    sizes: slot -> bytes, where not 8.
    outside: the slots that lie in a caller's frame.
    """

    seed: int
    poison: int
    values: Mapping[str, int]
    truth: Mapping[str, int]
    sizes: Mapping[str, int] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Slot:
    """The content of one slot over all samples.

    kind: one of KINDS.
    rule: for a derived slot, from which register and how; for a constant one, the value; else "".
    """

    name: str
    kind: str
    rule: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.rule}" if self.rule else self.kind


def classify(samples: Sequence[Sample], named: Mapping[str, str]) -> dict[str, Slot]:
    """Slot -> what it holds. named: slot -> the register it is named after, "" for none. Raises TramplabError unless there are two
    seeds and two poisons, each with each."""
    pairs = {(s.seed, s.poison) for s in samples}
    seeds, poisons = ({p[n] for p in pairs} for n in (0, 1))
    if len(seeds) < 2 or len(poisons) < 2 or len(pairs) < len(seeds) * len(poisons):
        raise TramplabError("samples tell apart what a slot holds with two seeds and two poisons or more, each with each.")
    return {slot: _slot(slot, samples, register) for slot, register in named.items()}


def _slot(name: str, samples: Sequence[Sample], register: str) -> Slot:
    if any(name in s.outside for s in samples):
        return Slot(name, OUTSIDE)
    size = samples[0].sizes.get(name, 8)
    values = [s.values[name] for s in samples]
    if register and all(s.truth.get(register, -1) % (1 << 8 * size) == value for s, value in zip(samples, values, strict=True)):
        return Slot(name, TRUE)
    for seed in {s.seed for s in samples}:
        if len({value for s, value in zip(samples, values, strict=True) if s.seed == seed}) > 1:
            return Slot(name, GARBAGE)
    if len(set(values)) == 1:
        # a register that is the same each time, as the way back is, may stand here; a small number is one of itself
        equal = [quantity for quantity, value in samples[0].truth.items() if value == values[0] > _NEAR]
        if not equal or any(s.truth[equal[0]] != values[0] for s in samples):
            return Slot(name, CONSTANT, f"{values[0]:#x}" if values[0] > 9 else str(values[0]))
        return Slot(name, DERIVED, equal[0])
    return Slot(name, DERIVED, rule) if (rule := _rule(samples, values)) else Slot(name, UNKNOWN)


def _rule(samples: Sequence[Sample], values: Sequence[int]) -> str:
    """A register, or one and the distance from it that is the same in all samples: of those that are so, the nearest."""
    found: list[tuple[int, str, int]] = []
    for quantity in samples[0].truth:
        away = {(value - s.truth[quantity]) % _WORD for s, value in zip(samples, values, strict=True)}
        if len(away) == 1:
            distance = away.pop()
            signed = distance - _WORD if distance >= _WORD // 2 else distance
            if abs(signed) <= _NEAR:
                found.append((abs(signed), quantity, signed))
    if not found:
        return ""
    _, quantity, signed = min(found, key=lambda f: f[0])
    return quantity if not signed else f"{quantity} {'+' if signed > 0 else '-'} {abs(signed)}"
