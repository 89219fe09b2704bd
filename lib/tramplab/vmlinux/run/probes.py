"""Which functions of a kernel image are whose: kretprobe's, the return hooks', kprobe's, fprobe's or the graph tracer's, by their
names."""

from __future__ import annotations

from ..open.image import Opened

#: Part -> what its functions' names contain. The first that matches has it; kprobe_multi links are attached through fprobes.
PARTS = {
    "kretprobe": ("kretprobe",),
    "return hook": ("rethook",),
    "fprobe": ("fprobe", "kprobe_multi"),
    "kprobe": ("kprobe",),
    "graph tracer": ("fgraph", "function_graph", "ftrace_graph", "ftrace_return_to_handler", "return_to_handler"),
}
#: How symbols begin that are no functions: the ends of a section, and what a static call goes through.
_NONE = ("__kprobes_text_", "__SCT__")


def part_of(name: str) -> str | None:
    """The part that a function belongs to, by its name; None for a function of no part.

    >>> part_of("pre_handler_kretprobe"), part_of("bpf_kprobe_multi_link_attach"), part_of("arch_arm_kprobe"), part_of("vfs_read")
    ('kretprobe', 'fprobe', 'kprobe', None)
    """
    if name.startswith(_NONE):
        return None
    return next((part for part, words in PARTS.items() if any(word in name for word in words)), None)


def functions(opened: Opened) -> dict[str, dict[str, int]]:
    """Part -> function -> bytes, of an image's text, both in the order of their names. What a compiler has split off a function
    (".cold", ".part.0") is the function's; its bytes reach to the next symbol, so padding counts."""
    by_part: dict[str, dict[str, int]] = {part: {} for part in PARTS}
    for symbol in sorted(opened.image.every, key=lambda s: s.name):
        part = part_of(symbol.name)
        if part and opened.text[0] <= symbol.address < opened.text[1]:
            function = symbol.name.partition(".")[0]
            by_part[part][function] = by_part[part].get(function, 0) + symbol.size
    return by_part
