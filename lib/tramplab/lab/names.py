"""What the lab's hooks are called elsewhere: in images of real kernels, and by the probes of booted ones.

Where they are timed they have their own names, but for breakpoints, which no process can take. Since which release an ISA has one:
hooks.history().
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.arguments import of_name
from ..trampolines.kind import Hook
from .hooks import HOOKS, parted, several


@dataclass(frozen=True)
class Names:
    """image: in images, "" where there is none. boot: of the probes whose mechanism it is, the bare one first."""

    image: str = ""
    boot: tuple[str, ...] = ()


#: By the lab's name; a hook that is left out is nowhere else.
NAMES: dict[str, Names] = {
    "none": Names("none"),
    "ops": Names("ops", ("ops", "function", "instance", "trigger", "stack", "perf-function")),
    "ops-static": Names("ops-static"),
    "ops-regs": Names("ops-regs", ("ops-regs",)),
    "direct": Names("direct", ("direct",)),
    "direct-far": Names("direct-far", ("direct",)),
    "direct+ops": Names("direct+ops", ("direct+ops",)),
    "bpf-fentry": Names("bpf-fentry", ("bpf-fentry",)),
    "bpf-fexit": Names("bpf-fexit", ("bpf-fexit",)),
    "bpf-fmodret": Names("", ("bpf-fmodret",)),
    "fprobe": Names("fprobe", ("fprobe", "fprobe-event")),
    "fprobe-exit": Names("fprobe-exit", ("fprobe-exit", "fprobe-event-exit")),
    "kprobe-multi": Names("kprobe-multi", ("kprobe-multi",)),
    "kretprobe-multi": Names("kretprobe-multi", ("kretprobe-multi",)),
    "kprobe-session": Names("kprobe-session", ("kprobe-session",)),
    "fgraph": Names("graph", ("graph", "graph-threshold")),
    "kprobe": Names("kprobe", ("kprobe", "kprobe-event")),
    "kprobe-bpf": Names("kprobe-bpf", ("kprobe-bpf",)),
    "kprobe-brk": Names("kprobe-brk", ("kprobe", "kprobe-event")),
    "kprobe-brk-bpf": Names("kprobe-brk-bpf", ("kprobe-bpf",)),
    "kretprobe": Names("kretprobe", ("kretprobe", "kretprobe-event")),
    "kretprobe-bpf": Names("kretprobe-bpf", ("kretprobe-bpf",)),
    "kretprobe-brk": Names("kretprobe-brk", ("kretprobe", "kretprobe-event")),
    "kretprobe-brk-bpf": Names("kretprobe-brk-bpf", ("kretprobe-bpf",)),
}


def image(hook: str) -> str:
    """What images call a hook of the lab's; "" for none.

    >>> image("fgraph"), image("ops"), image("ops-live")
    ('graph', 'ops', '')
    """
    return NAMES.get(hook, Names()).image


def of_image(name: str) -> tuple[Hook, int]:
    """The lab's hook of an image's, and the number of callbacks; raises TramplabError where it has none.

    >>> hook, callbacks = of_image("fprobe-exit:10")
    >>> hook.name, callbacks
    ('fprobe-exit', 10)
    """
    called, callbacks = parted(name)
    known = {names.image: HOOKS[hook] for hook, names in NAMES.items() if names.image}
    return of_name("hook", called, known), callbacks


def images(probe: str) -> list[str]:
    """What images call the hooks that can be a probe's mechanism; the probe's own name where the lab has no such hook.

    >>> images("kretprobe:2"), images("function"), images("ops-assist"), images("bpf-fmodret")
    (['kretprobe:2', 'kretprobe-brk:2'], ['ops'], ['ops-assist'], [])
    """
    called, callbacks = parted(probe)
    found = [names.image for names in NAMES.values() if called in names.boot]
    return [several(name, callbacks) for name in found if name] if found else [probe]
