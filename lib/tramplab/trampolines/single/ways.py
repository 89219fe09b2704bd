"""The ways: where the target of a direct call is, while one ops stands for all of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ...base.errors import TramplabError
from ...ftrace.releases import Features, intervals


@dataclass(frozen=True)
class Way:
    """One way to serve all direct calls with one ops.

    name: the value of slow_path= with which a kernel has it.
    title: what it does, in a line.
    isas: those that can have it.
    features: features of the guest that it turns on (see ftrace/arch/common.py).
    odd: does the callsite's word hold the target itself, made odd?
    beside: has the target a word of its own before the function?
    hypothetical: no kernel has it.
    """

    name: str
    title: str
    isas: tuple[str, ...]
    features: tuple[str, ...] = ()
    odd: bool = False
    beside: bool = False
    hypothetical: bool = True


_LITERAL = ("arm64", "riscv64")
#: By name. A site of x86-64 reaches every target, so there a target is looked up only where other ops share the function.
WAYS: dict[str, Way] = {
    w.name: w
    for w in (
        Way("one-ops", "every site reaches its target; looked up by C where it is shared", ("x86_64",), hypothetical=False),
        Way("lookup", "ftrace_caller looks the target up, in assembly", _LITERAL, ("direct_way", "direct_lookup")),
        Way("lookup-c", "ftrace_caller looks the target up, in C", _LITERAL, ("direct_way", "direct_lookup_c")),
        Way("literal", "the callsite's word is the target, odd", _LITERAL, ("direct_way", "direct_literal"), odd=True),
        Way("beside", "the target has a word of its own there", _LITERAL, ("direct_way", "direct_beside"), beside=True),
    )
}


def _kernels(isa: str) -> str:
    """Since when an ISA's kernels have one ops for all direct calls, after they had a target in each ops; "" where none has."""
    return next((str(i) for i in intervals(isa, "direct_in_ops") if not i.value), "")


def check(way: Way, features: Features) -> None:
    """Raise TramplabError if a kernel of these features cannot have this way."""
    isa = features.isa
    if isa not in way.isas:
        fitting = ", ".join(w.name for w in WAYS.values() if isa in w.isas)
        raise TramplabError(f"one ops for all direct calls is had on {isa} with slow_path={fitting}, not {way.name}.")
    if not features["direct"]:
        raise TramplabError(f"{features} has no direct calls; take a release that has them.")
    when = _kernels(isa)
    if when and features["direct_in_ops"]:
        raise TramplabError(f"{features} has the target of a direct call in its ops; one ops for all is {when}.")
    if not when and not features["call_ops"]:
        lacks = f"{features} has no ops beside its functions, on which the way {way.name} is built"
        raise TramplabError(f"{lacks}; take a newer release.")


def with_way(way: Way, features: Features) -> Features:
    """The features of a kernel that has this way."""
    added = dict.fromkeys(("single_direct", *way.features), True)
    return dataclasses.replace(features, values={**features.values, **added, "direct_in_ops": False})
