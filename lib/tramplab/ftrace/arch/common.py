"""Shared by the per-ISA modules: which configuration names a set of features stands for."""

from __future__ import annotations

from ..site import Site
from ..steps import POINTER, Step, text
from .protocol import FeatureTable

#: Functions that pass a buffer of theirs on check their stack (STACKPROTECTOR_STRONG, on in every distribution's kernel).
_PROTECTED = "-fstack-protector-strong"
#: Functions check an array's index before they use it (UBSAN_BOUNDS). A report is a trap here.
_BOUNDED = ("-fsanitize=array-bounds", "-fsanitize-trap=array-bounds")
#: feature -> the preprocessor name that the guest's sources know it by
DEFINES = {
    "args": "CONFIG_DYNAMIC_FTRACE_WITH_ARGS",
    "regs": "CONFIG_DYNAMIC_FTRACE_WITH_REGS",
    "call_ops": "CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS",
    "direct": "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
    "direct_in_ops": "CONFIG_DIRECT_CALL_IN_OPS",
    "graph_slot": "CONFIG_FTRACE_GRAPH_SLOT",
    "frame_pointer": "CONFIG_FRAME_POINTER",
    "pt_regs_frame": "CONFIG_RISCV_PT_REGS_FRAME",
    "ibt": "CONFIG_X86_KERNEL_IBT",
    "bti": "CONFIG_ARM64_BTI_KERNEL",
    "trampoline_endbr": "CONFIG_X86_TRAMPOLINE_ENDBR",
    "call_depth_slots": "CONFIG_X86_CALL_DEPTH_SLOTS",
    "direct_jmp": "CONFIG_DYNAMIC_FTRACE_WITH_JMP",
    "direct_rebalance": "CONFIG_X86_DIRECT_REBALANCE",
    "call_dest": "CONFIG_RISCV_FTRACE_CALL_DEST",
    "preemption": "CONFIG_PREEMPTION",
    "preempt_rcu": "CONFIG_PREEMPT_RCU",
    "bpf_inline_guards": "CONFIG_BPF_INLINE_GUARDS",
    "bpf_context_counter": "CONFIG_BPF_CONTEXT_COUNTER",
    "partial_regs_update": "CONFIG_PARTIAL_REGS_UPDATE",
    "shared_epilogue": "CONFIG_X86_SHARED_EPILOGUE",
    "rethook_rcu_test": "CONFIG_RETHOOK_RCU_TEST",
    "recursion_rcu_test": "CONFIG_RECURSION_RCU_TEST",
    "fprobe_entry_ops": "CONFIG_FPROBE_ENTRY_OPS",
    "fgraph_static_call": "CONFIG_FGRAPH_STATIC_CALL",
    "kprobes_on_ftrace": "CONFIG_KPROBES_ON_FTRACE",
    "kretprobe": "CONFIG_KRETPROBES",
    "kretprobe_brk": "CONFIG_KRETPROBE_BRK",
    "kprobe_instance": "CONFIG_KPROBE_INSTANCE",
    "kprobe_session": "CONFIG_KPROBE_SESSION",
    "memcpy_call": "CONFIG_RISCV_MEMCPY_CALL",
    "clang_frame": "CONFIG_CC_IS_CLANG",
    # no release's: see trampolines/single
    "single_direct": "CONFIG_LAB_SINGLE_DIRECT",
    "direct_way": "CONFIG_LAB_DIRECT_WAY",
    "direct_lookup": "CONFIG_LAB_DIRECT_LOOKUP",
    "direct_lookup_c": "CONFIG_LAB_DIRECT_LOOKUP_C",
    "direct_literal": "CONFIG_LAB_DIRECT_LITERAL",
    "direct_beside": "CONFIG_LAB_DIRECT_BESIDE",
}
#: (feature, value) -> preprocessor names, of features with several values; and with False, of what is usually there.
CHOICES = {
    ("rethook", "freelist"): ("CONFIG_FPROBE_ON_RETHOOK",),
    ("rethook", "objpool"): ("CONFIG_FPROBE_ON_RETHOOK",),
    ("rethook", "shadow"): ("CONFIG_FPROBE_ON_RETHOOK",),
    ("rethook", "fgraph"): ("CONFIG_FUNCTION_GRAPH_TRACER",),
    ("fprobe_guard", False): ("CONFIG_FPROBE_UNGUARDED",),
    ("kretprobe", "rethook"): ("CONFIG_KRETPROBE_ON_RETHOOK",),
    ("return_pool", "objpool"): ("CONFIG_KRETPROBE_OBJPOOL",),
    ("fgraph_sp", "frame"): ("CONFIG_FGRAPH_SLOT",),
    ("fgraph_sp", "caller"): ("CONFIG_FGRAPH_SLOT", "CONFIG_FGRAPH_SP"),
    ("fprobe_list_end", "bytes"): ("CONFIG_FPROBE_LIST_BYTES",),
    ("fprobe_list_end", "word"): ("CONFIG_FPROBE_LIST_WORD",),
    ("return_save", "args"): ("CONFIG_RETURN_SAVE_ARGS",),
    ("return_save", "value"): ("CONFIG_RETURN_SAVE_VALUE",),
}
#: How a struct rethook keeps its nodes -> preprocessor names.
POOLS = {"freelist": (), "objpool": ("CONFIG_RETHOOK_OBJPOOL",), "shadow": ("CONFIG_RETHOOK_SHADOW",)}
#: Feature -> preprocessor name, of changes of return hooks since fprobes no longer use these.
_LATER = {"objpool_mask": "CONFIG_OBJPOOL_MASK", "rethook_sp": "CONFIG_RETHOOK_SP"}


def rethook_pool(features: FeatureTable) -> str:
    """How the nodes of return hooks are kept, a name of POOLS: as fprobes have them where these are built on such hooks, else
    as kretprobes have them; "" where neither is."""
    if features["rethook"] in POOLS:
        return str(features["rethook"])
    return str(features["return_pool"]) if features["kretprobe"] == "rethook" else ""


def defines(features: FeatureTable) -> tuple[str, ...]:
    """The preprocessor names of all features that are on."""
    chosen = (name for (feature, value), names in CHOICES.items() if features[feature] == value for name in names)
    pool = rethook_pool(features)
    hooks = ("CONFIG_RETHOOK", *POOLS[pool]) if pool else ()
    if features["rethook"] not in POOLS:  # those that fprobes have are as they were when kernels had them, whatever is overridden
        hooks += tuple(name for feature, name in _LATER.items() if features[feature])
    return (*(name for feature, name in DEFINES.items() if features[feature]), *chosen, *hooks)


def protection(features: FeatureTable) -> tuple[str, ...]:
    """How the kernel's own C is protected, as flags of the compiler."""
    return (_PROTECTED, *(_BOUNDED if features["ubsan_bounds"] else ()))


def words_before(features: FeatureTable) -> int:
    """Bytes between what the compiler leaves before a function and the callsite's ops: a word where the target of a direct call
    has one of its own there, which no kernel has (trampolines/single).

    >>> words_before({"direct_beside": True}), words_before({"direct_beside": False})
    (8, 0)
    """
    return POINTER if features["direct_beside"] else 0


def beside(s: Site, features: FeatureTable) -> list[Step]:
    """The step that empties that word at boot; none where there is no such word."""
    empty = bytes(words_before(features))
    return [text(s.compiled, empty, f"{s.function}: no direct call yet")] if empty else []
