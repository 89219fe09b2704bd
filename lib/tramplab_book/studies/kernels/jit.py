"""How the lab's BPF trampolines compare with those that the JITs of Debian's kernels made."""

from __future__ import annotations

from tramplab.boot.jit.compared import Row, compared

from ...publish.phrases import isa_name


def rows() -> list[Row]:
    """One row per trampoline that is kept: ISA, release, function, kinds of programs, instructions of the kernel's and of the
    lab's, whether they do the same, and what is apart."""
    return compared()


def said() -> str:
    """The sentence on how many are alike."""
    found = rows()
    same = [r for r in found if r.same]
    apart = [r for r in same if r.difference]
    isas = " and ".join(isa_name(isa) for isa in dict.fromkeys(r.isa for r in apart))
    text = f"Of {len(found)} trampolines that the JIT of Debian's kernels made under QEMU, the lab's generator makes {len(same)} "
    text += "instruction for instruction"
    if apart:
        text += f"; in {len(apart)} of them, all of {isas}, the JIT takes fewer instructions to call or to load an address"
    return f"{text}."
