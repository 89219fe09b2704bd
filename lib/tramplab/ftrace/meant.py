"""What values of features mean, by name. Code outside this room asks here, and compares no value with a word of
data/releases.yml."""

from __future__ import annotations

from .arch.protocol import FeatureTable

#: Sites that have the callsite's ops as data before the function.
_LITERAL = "literal"
#: Sites whose rec->ip is a function's first instruction, or where behind a landing pad a kprobe on that is put.
_FIRST = ("nop5", "detour")


def fprobes_on_graph_tracer(features: FeatureTable) -> bool:
    """Are fprobes built on the function graph tracer?"""
    return bool(features["rethook"] == "fgraph")


def fprobes_on_task_stack(features: FeatureTable) -> bool:
    """Do fprobes keep their returns on a stack of the task? No kernel's do."""
    return bool(features["rethook"] == "shadow")


def fprobes_in_rings(features: FeatureTable) -> bool:
    """Do fprobes take the nodes of their returns from the rings of the CPUs?"""
    return bool(features["rethook"] == "objpool")


def kretprobes_on_return_hooks(features: FeatureTable) -> bool:
    """Are kretprobes built on return hooks? Else they keep their instances on a list of their own."""
    return bool(features["kretprobe"] == "rethook")


def takes_kretprobe(features: FeatureTable) -> bool:
    """Does a function that ftrace can trace take a kretprobe?"""
    return bool(features["kretprobe_entry"])


def kprobes_break(features: FeatureTable) -> bool:
    """Is a kprobe at the entry of a function that ftrace can trace a breakpoint, where there may be one?"""
    return not features["kprobes_on_ftrace"]


def bpf_takes_registers_only(features: FeatureTable) -> bool:
    """Do BPF trampolines take arguments in registers alone?"""
    return bool(features["bpf_args"] == "registers")


def kretprobe_entry(site: str, on_ftrace: bool) -> str | bool:
    """How a kretprobe comes in at a traced function of a kernel with sites of this shape, by what register_kretprobe() refuses: a
    kprobe at an ftrace record that ftrace does not serve, and a kretprobe anywhere but at a function's entry. False: it does not.
    on_ftrace: does ftrace serve kprobes? Of releases data/releases.yml says it.

    >>> kretprobe_entry("detour8", True), kretprobe_entry("detour8", False), kretprobe_entry("literal-auipc-jalr", False)
    ('ftrace', False, 'breakpoint')
    """
    return "ftrace" if on_ftrace else not site.startswith(_FIRST) and "breakpoint"


def stores_below_sp(features: FeatureTable) -> int:
    """Bytes below the stack pointer that a patch site uses: riscv64's first one stores ra there, in the word that an exception from
    the kernel leaves alone (orig_a0 of its pt_regs)."""
    return 8 if features["site"] == "detour16" else 0


def has_literal(site: str) -> bool:
    """Has a site of this shape the callsite's ops as data before the function?

    >>> has_literal("literal-mov-bl"), has_literal("detour8")
    (True, False)
    """
    return site.startswith(_LITERAL)
