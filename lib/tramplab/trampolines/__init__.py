"""The makers of trampolines, a folder each: what an ops, a direct call, BPF programs or an experiment has made for it.
Many doors because each kind has its own request, and real kernels' trampolines are compared with the parts of BPF's.

A new kind of hook is one more folder, with a KIND, and one more line here.
"""

from __future__ import annotations

from ..base.arguments import of_name
from ..ftrace.releases import Features
from . import bpf, direct, fitting, fprobe, kprobe, placed, plain, saving, shapes, single, sketch
from .kind import RELEASES, Kind, SlowPathKind

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
    sketch.KIND,
)

#: Name -> a slow path other than the release's, for a kernel that is made with slow_path=.
SLOW_PATHS: dict[str, SlowPathKind] = {"fitting": fitting.SLOW_PATH, **single.SLOW_PATHS}


def slow_path(name: str, features: Features) -> SlowPathKind:
    """A slow path by name, "" for the release's; raises TramplabError if there is none, or these features lack what it needs."""
    kind = of_name("slow path", name, SLOW_PATHS) if name != "" else RELEASES
    kind.check(features)
    return kind
