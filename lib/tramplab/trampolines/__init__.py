"""The makers of trampolines, a folder each: what an ops, a direct call, BPF programs or an experiment has made for it.

A new kind of hook is one more folder, with a KIND, and one more line here.
"""

from __future__ import annotations

from . import bpf, direct, fprobe, kprobe, placed, plain, saving, shapes
from .kind import Kind

#: Every kind, in the order in which their hooks are listed.
KINDS: tuple[Kind, ...] = (
    plain.KIND,
    saving.KIND,
    direct.KIND,
    bpf.KIND,
    fprobe.KIND,
    kprobe.KIND,
    shapes.KIND,
    placed.KIND,
)
