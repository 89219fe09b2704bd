"""The features of a kernel image, found from its symbols, its types and its text. The number of its release is not asked."""

from __future__ import annotations

from ..ftrace import releases
from ..ftrace.releases import Features
from .image import Opened

#: Flags of a struct dyn_ftrace, each of a later release than the next: the lowest flag lies above the counter.
_LOWEST_FLAG = ("FTRACE_FL_MODIFIED", "FTRACE_FL_CALL_OPS_EN", "FTRACE_FL_DIRECT_EN", "FTRACE_FL_DISABLED")


def features(opened: Opened, shape: str) -> Features:
    """The features that the slow path and BPF's trampolines ask for, by their names in data/releases.yml. shape: of the patch
    sites. `direct_jmp` shows in a constant that came with it (BPF_MOD_NOP, in the series of 25e4e3565d45). Where the types do not
    name the flags of a site, the counter has the bits that it has in the nearest release known."""
    types = opened.types
    lowest = next(filter(None, map(types.enumerator, _LOWEST_FLAG)), 0)
    usual = releases.features(opened.isa, releases.nearest(opened.release), {})["counter_bits"]
    values = {
        "site": shape,
        "call_ops": shape.startswith("literal"),
        "direct": opened.has("call_direct_funcs"),
        "direct_in_ops": types.has("ftrace_ops", "direct_call"),
        "direct_shares": types.has("ftrace_ops", "ops_func"),
        "direct_jmp": opened.isa.name == "x86_64" and types.enumerator("BPF_MOD_NOP") is not None,
        "regs": opened.has("ftrace_regs_caller"),
        "counter_bits": lowest.bit_length() - 1 if lowest else usual,
    }
    return Features(opened.isa.name, opened.release, values, {})
