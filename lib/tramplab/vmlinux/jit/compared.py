"""The trampolines of Debian's JITs beside the lab's for the same function, programs and layout, instruction by instruction.

The lab's generator gets the addresses that the kernel had; the pointers that stand in the kernel's code, to structs on its heap, are
numbered as they come.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...build.dwarf import Prototype, Value
from ...isa import ISAS
from ...trampolines.arguments import sizes, words
from ...trampolines.bpf.code import lay_out
from ...trampolines.bpf.plan import BpfProgram, Guards, TrampolinePlan
from ...trampolines.bpf.shape import items
from ...trampolines.bpf.trampolines import MODULES
from . import saved
from .forms import Form, forms



@dataclass(frozen=True)
class Row:
    """One trampoline of a kernel's JIT, and the lab's. real, lab: instructions. same: do they do the same in the same order, by the
    same instructions but for how an address is loaded or called? difference: what sets them apart, "" where nothing does."""

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
    code = bytes.fromhex(made["code"])
    return forms(isa, made["address"], code, names), forms(isa, made["address"], lab(kernel, made), names)


def lab(kernel: Mapping[str, Any], made: Mapping[str, Any]) -> bytes:
    """The lab's trampoline for the same, at the same place."""
    isa, arch = ISAS[kernel["isa"]], MODULES[kernel["isa"]]
    prototype = Prototype(made["function"], tuple(Value(n, s) for n, s in made["parameters"]), Value(made["result"]))
    heap = itertools.count(made["address"] & -0x1000 | 0x100000, 0x1000)  # which each ISA's way to load an address reaches
    image = next(heap)
    programs = {kind: tuple(BpfProgram(at, next(heap), 0) for k, at in made["programs"] if k == kind) for kind in saved.KINDS.values()}
    plan = TrampolinePlan(
        words=words(isa, prototype),
        sizes=sizes(prototype),
        **programs,
        guards=Guards(*kernel["guards"].values()),
        image=image,
        body=made["body"],
        run_ctx=kernel["run_ctx"],
        cookie_at=kernel["cookie_at"],
        jumped=kernel["direct_jmp"] and any(kind != "fentry" for kind, _ in made["programs"]),
    )
    return lay_out(isa, arch, list(items(plan, arch)), made["address"])


def _difference(real: Sequence[Form], lab: Sequence[Form]) -> str:
    """What the real one has and the lab's has not, and the other way round; then where the same takes another number of
    instructions."""
    texts = Counter(f.text for f in real), Counter(f.text for f in lab)
    more, less = texts[0] - texts[1], texts[1] - texts[0]
    parts = [f"{sign}{text}" + (f" x{n}" if n > 1 else "") for sign, of in (("+", more), ("-", less)) for text, n in of.items()]
    if not parts and [f.text for f in real] != [f.text for f in lab]:
        parts = ["another order"]
    if not parts:
        apart = Counter((f.text.split()[0] == "call", f.count, g.count) for f, g in zip(real, lab, strict=True) if f.count != g.count)
        parts = [f"{n} {'calls' if call else 'addresses'} by {a} instructions, not {b}" for (call, a, b), n in apart.items()]
    return "; ".join(parts)
