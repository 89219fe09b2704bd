"""The features of a kernel image, found from its symbols, its types and its text. The number of its release is not asked."""

from __future__ import annotations

from ...ftrace import releases
from ...ftrace.meant import bpf_takes_registers_only, has_literal, kretprobe_entry
from ...ftrace.releases import Features
from .image import Opened

#: Flags of a struct dyn_ftrace, each of a later release than the next: the lowest flag lies above the counter.
_LOWEST_FLAG = ("FTRACE_FL_MODIFIED", "FTRACE_FL_CALL_OPS_EN", "FTRACE_FL_DIRECT_EN", "FTRACE_FL_DISABLED")


def features(opened: Opened, shape: str) -> Features:
    """The features that the slow path and BPF's trampolines ask for, by their names in data/releases.yml. shape: of the patch
    sites. `direct_jmp` shows in a constant that came with it (BPF_MOD_NOP, in the series of 25e4e3565d45). What the image does not
    tell is as in the nearest release known: the bits of a record's counter where no type names its flags, and for which functions
    BPF makes trampolines unless its code for arguments on the stack is there."""
    types = opened.types
    lowest = next(filter(None, map(types.enumerator, _LOWEST_FLAG)), 0)
    usual = releases.features(opened.isa, releases.nearest(opened.release), {})
    values = {
        "site": shape,
        "call_ops": has_literal(shape),
        "direct": opened.has("call_direct_funcs"),
        "direct_in_ops": types.has("ftrace_ops", "direct_call"),
        "direct_shares": types.has("ftrace_ops", "ops_func"),
        "direct_jmp": opened.isa.name == "x86_64" and types.enumerator("BPF_MOD_NOP") is not None,
        "regs": opened.has("ftrace_regs_caller"),
        "counter_bits": lowest.bit_length() - 1 if lowest else usual["counter_bits"],
        "bpf_struct_args": usual["bpf_struct_args"],
        "bpf_union_args": usual["bpf_union_args"],
        "bpf_program_nop": _program_nop(opened, bool(usual["bpf_program_nop"])),
        "bpf_args": _stack_arguments(opened, usual) or usual["bpf_args"],
        "kretprobe_entry": kretprobe_entry(shape, opened.has("kprobe_ftrace_handler")),
    }
    return Features(opened.isa.name, opened.release, values, {})


def _program_nop(opened: Opened, usual: bool) -> bool:
    """Does each program of a BPF trampoline begin with a nop? The nops came when the one room for a jump, and its place in
    struct bpf_tramp_image, went: Debian's 6.12 has the member, its 7.2 has not (data/bpf-trampolines.json). As usual where no type
    tells."""
    if not opened.types.has("bpf_tramp_image"):
        return usual
    return not opened.types.has("bpf_tramp_image", "ip_after_call")


def _stack_arguments(opened: Opened, usual: Features) -> str:
    """What BPF's trampolines take, where the code that copies arguments on the stack shows it, in stable trees, too: save_args() of
    x86-64's JIT (473e3150e30a), struct arg_aux of arm64's (9014cf56f13d). Empty where nothing shows it."""
    if opened.isa.name == "x86_64" and opened.has("save_args"):
        return "stack"
    if opened.isa.name == "arm64" and opened.types.has("arg_aux") and bpf_takes_registers_only(usual):
        return "stack-scalars"
    return ""
