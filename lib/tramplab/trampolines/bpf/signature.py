"""Which functions can have BPF programs: what the verifier lets through, and what the trampolines of a release take.

The verifier (btf_distill_func_proto(), -EINVAL) lets no function through that returns a struct, has more than 12 arguments, or
has one larger than 16 bytes. The JIT (arch_prepare_bpf_trampoline(), -ENOTSUPP) refuses what its trampoline does not copy:
`bpf_args` in releases.yml says whether it takes structs, words on the stack, and structs there.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...build.dwarf import Prototype
from ...ftrace.releases import Features, intervals, source
from ...isa import ISAS
from ..arguments import LARGEST, WORD, places, require_size, words

MOST = 12  # MAX_BPF_FUNC_ARGS
_REGISTERS, _STACK_SCALARS, _STACK = "registers", "stack-scalars", "stack"


@dataclass(frozen=True)
class _Need:
    """Something that a trampoline must take for a function.

    what: in words.
    feature, values: the feature that says whether it does, with the values with which it does.
    error: that of a kernel with another value.
    """

    what: str
    feature: str
    values: tuple[object, ...]
    error: str


def require(prototype: Prototype) -> None:
    """Raise TramplabError, saying what is in the way, for a function that no kernel attaches a BPF program to."""
    name = prototype.name
    if len(prototype.parameters) > MOST:
        raise TramplabError(
            f"{name} takes {len(prototype.parameters)} arguments; a BPF trampoline can be made for at most {MOST}."
        )
    for i, p in enumerate(prototype.parameters, 1):
        if p.struct and p.size > LARGEST:
            raise TramplabError(
                f"argument {i} of {name} has {p.size} bytes by value; a BPF trampoline takes at most {LARGEST}: choose another "
                "function."
            )
        require_size(p, f"argument {i} of {name}")
    if prototype.result.struct or prototype.result.size > WORD:
        raise TramplabError(
            f"{name} returns {prototype.result.size} bytes by value; a BPF program is attached only to functions that "
            f"return an integer, a pointer or nothing."
        )


def require_taken(prototype: Prototype, features: Features) -> None:
    """Raise TramplabError, saying since when one does, if a release's trampolines do not take a function's arguments."""
    require(prototype)
    isa, name = ISAS[features.isa], prototype.name
    for need in _needs(prototype, features.isa):
        if features[need.feature] not in need.values:
            first = next(i for i in intervals(features.isa, need.feature) if i.value in need.values)
            raise TramplabError(
                f"{features} makes no BPF trampoline for {name}, {need.what} ({need.error}); releases since {first.since} do "
                f"(commit {source(first.source).commit.split(',')[0]})."
            )
    number = len(words(isa, prototype))
    if isa.name == "x86_64" and number > MOST:
        raise TramplabError(
            f"the arguments of {name} are {number} words; a BPF trampoline of {isa.name} takes at most {MOST} (-ENOTSUPP): choose "
            f"another function."
        )


def _needs(prototype: Prototype, isa: str) -> list[_Need]:
    """The needs of the arguments, the verifier's part first."""
    where = list(enumerate(zip(prototype.parameters, places(ISAS[isa], prototype.parameters), strict=True), 1))
    structs = [i for i, (p, _) in where if p.struct]
    unions = [i for i, (p, _) in where if p.union]
    stacked = [i for i, (_, at) in where if any(isinstance(place, int) for place in at)]
    needs = []
    if structs:
        what = f"whose argument {structs[0]} is a struct by value"
        needs.append(_Need(what, "bpf_struct_args", (True,), "-EINVAL"))
        needs.append(_Need(what, "bpf_args", (_REGISTERS, _STACK_SCALARS, _STACK), "-ENOTSUPP"))
    if unions:
        needs.append(_Need(f"whose argument {unions[0]} is a union by value", "bpf_union_args", (True,), "-EINVAL"))
    if stacked:
        what = f"whose argument {stacked[0]} is passed on the stack"
        needs.append(_Need(what, "bpf_args", (_STACK_SCALARS, _STACK), "-ENOTSUPP"))
    if both := [i for i in stacked if i in structs]:
        needs.append(_Need(f"whose argument {both[0]} is a struct on the stack", "bpf_args", (_STACK,), "-ENOTSUPP"))
    return needs
