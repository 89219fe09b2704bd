"""The trampolines of Debian's JITs beside the lab's for the same function, programs and layout, instruction by instruction.

The lab's generator gets the addresses that the kernel had, and the pointers to structs on its heap that stand in the kernel's code.
What differs all the same: arm64's JIT takes a BL where one reaches, which from a kernel at its link address is everywhere, and with
KASLR still to programs; the lab takes none. riscv64's takes a JAL to a program beside its trampoline; the lab's lie further off.
Where an address has a half word of zeros, arm64's may leave out its MOVK. Of programs of one kind the one attached last runs first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...build.dwarf import Prototype, Value
from ...ftrace import releases
from ...isa import ISAS
from ...trampolines.arguments import sizes, words
from ...trampolines.bpf.code import lay_out
from ...trampolines.bpf.plan import BpfProgram, Guards, TrampolinePlan
from ...trampolines.bpf.shape import items
from ...trampolines.bpf.trampolines import MODULES, pushes_saved
from . import saved
from .instructions import Form, forms


@dataclass(frozen=True)
class Row:
    """One trampoline of a kernel's JIT, and the lab's.

    real, lab: instructions.
    same: do they do the same in the same order, by the same instructions except for how an address is loaded or called?
    difference: what they differ in, "" for nothing.
    """

    isa: str
    release: str
    function: str
    kind: str
    real: int
    lab: int
    same: bool
    difference: str


def compared() -> list[Row]:
    """A row for each trampoline that is kept, in the file's order."""
    return [row(kernel, made) for kernel in saved.read()["kernels"] for made in kernel["trampolines"]]


def row(kernel: Mapping[str, Any], made: Mapping[str, Any]) -> Row:
    """One trampoline of a kernel beside the lab's."""
    real, lab = both(kernel, made)
    counts = sum(f.count for f in real), sum(f.count for f in lab)
    different = _difference(real, lab)
    same = [f.text for f in real] == [f.text for f in lab]
    kinds = "+".join(kind for kind, _ in made["programs"])
    return Row(kernel["isa"], kernel["release"], made["function"], kinds, *counts, same, different)


def both(kernel: Mapping[str, Any], made: Mapping[str, Any]) -> tuple[list[Form], list[Form]]:
    """The forms of a kernel's trampoline, and of the lab's."""
    isa = ISAS[kernel["isa"]]
    names = {at: f"prog {number}" for number, (_, at) in enumerate(made["programs"])}
    names |= {at: name for name, at in kernel["guards"].items()} | {made["body"]: "body"}
    real = forms(isa, made["address"], bytes.fromhex(made["code"]), names)
    pointers = dict.fromkeys(form.pointer for form in real if form.pointer)
    return real, forms(isa, made["address"], lab(kernel, made, pointers), names)


def prototype(made: Mapping[str, Any]) -> Prototype:
    """The prototype of a trampoline's function."""
    return Prototype(made["function"], tuple(Value(n, s) for n, s in made["parameters"]), Value(made["result"]))


def lab(kernel: Mapping[str, Any], made: Mapping[str, Any], pointers: Iterable[int]) -> bytes:
    """The lab's trampoline for the same function and programs, at the same address. pointers: to structs, in the order of their
    use."""
    isa, arch = ISAS[kernel["isa"]], MODULES[kernel["isa"]]
    features = releases.features(isa, releases.nearest(kernel["release"]), {})
    left, calls = iter(pointers), any(kind != "fentry" for kind, _ in made["programs"])
    image = next(left) if calls else 0
    fentry, fmod_ret, fexit = (
        tuple(BpfProgram(at, next(left), 0) for kind, at in reversed(made["programs"]) if kind == wanted)
        for wanted in saved.KINDS.values()
    )
    plan = TrampolinePlan(
        words=words(isa, prototype(made)),
        sizes=sizes(prototype(made)),
        fentry=fentry,
        fmod_ret=fmod_ret,
        fexit=fexit,
        guards=Guards(*kernel["guards"].values()),
        image=image,
        body=made["body"],
        run_ctx=kernel["run_ctx"],
        cookie_at=kernel["cookie_at"],
        program_nops=bool(features["bpf_program_nop"]),
        pushes_saved=pushes_saved(features),
        jumped=kernel["direct_jmp"] and calls,
    )
    return lay_out(isa, arch, list(items(plan, arch)), made["address"])


def _difference(real: Sequence[Form], lab: Sequence[Form]) -> str:
    """The instructions that only the real or only the lab's trampoline has; then those for which they take another number of
    instructions."""
    texts = Counter(f.text for f in real), Counter(f.text for f in lab)
    more, less = texts[0] - texts[1], texts[1] - texts[0]
    parts = [f"{sign}{text}" + (f" x{n}" if n > 1 else "") for sign, of in (("+", more), ("-", less)) for text, n in of.items()]
    if not parts and [f.text for f in real] != [f.text for f in lab]:
        parts = ["another order"]
    if not parts:
        apart = Counter(
            (f.text.split()[0] == "call", f.count, g.count) for f, g in zip(real, lab, strict=True) if f.count != g.count
        )
        parts = [f"{n} {'calls' if call else 'addresses'} by {a} instructions, not {b}" for (call, a, b), n in apart.items()]
    return "; ".join(parts)
