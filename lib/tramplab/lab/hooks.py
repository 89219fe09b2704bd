"""The hooks by name: what `measure` attaches, and which releases had it."""

from __future__ import annotations

import re

from ..base.arguments import of_name, whole
from ..base.errors import TramplabError
from ..ftrace import releases
from ..ftrace.ops import Request
from ..trampolines import KINDS
from ..trampolines.kind import MAX_CALLBACKS, Hook

__all__ = [
    "CALLED",
    "HOOKS",
    "MAX_CALLBACKS",
    "PLAIN",
    "Hook",
    "fault",
    "get",
    "history",
    "hypothetical",
    "label",
    "of_release",
    "parted",
    "placement",
    "requests",
    "require",
    "several",
    "unreached",
]

#: By name, in the order of their kinds.
HOOKS: dict[str, Hook] = {h.name: h for kind in KINDS for h in kind.hooks}
#: The hooks that are trampolines: without probes, which are built on an ops.
PLAIN: dict[str, Hook] = {name: h for name, h in HOOKS.items() if not h.probe}
#: Names in the threads -> the hook here.
CALLED: dict[str, str] = {
    "fentry": "bpf-fentry",
    "fexit": "bpf-fexit",
    "fmod_ret": "bpf-fmodret",
    "rethook": "kretprobe or fprobe-exit, which are built on a return hook in some releases",
    "fprobe-rethook": "fprobe-exit, which was built on a return hook in older releases",
    "kprobe.multi": "kprobe-multi",
    "kretprobe.multi": "kretprobe-multi",
    "kprobe_multi": "kprobe-multi or kretprobe-multi, by where the program runs",
    "fprobe-fgraph": "fprobe-exit, which is built on the function graph tracer in the newest releases",
}


def get(name: str) -> Hook:
    """A hook by name; raises TramplabError with near matches."""
    return of_name("hook", name, HOOKS, CALLED)


def require(hook: Hook, features: releases.Features) -> None:
    """Raise TramplabError, saying since or until when, if this release (as overridden) does not have the hook."""
    if hook.there(features):
        return
    if features[hook.offered]:
        raise TramplabError(f"the lab does not build the {hook.name} hook of {features}; {history(hook, features.isa)}.")
    said = f"{features} has no {hook.name} hook; {history(hook, features.isa)}"
    if hook.instead and HOOKS[hook.instead].there(features):
        said += f"; ask for {hook.instead}, which it has"
    elif releases.NEVER not in said:
        said += "; choose a release that has it"
    raise TramplabError(f"{said}.")


def of_release(name: str, features: releases.Features) -> Hook:
    """A hook by name, or the one that does the same where this release (as overridden) does not have it; raises TramplabError where
    it has neither.

    >>> from ..isa import get as isa
    >>> [of_release("kretprobe", releases.features(isa(name), "v7.2", {})).name for name in ("x86_64", "arm64")]
    ['kretprobe', 'kretprobe-brk']
    >>> [of_release("direct", releases.features(isa(name), "v7.2", {})).name for name in ("arm64", "riscv64")]
    ['direct', 'direct-far']
    """
    hook = get(name)
    if hook.instead and (not hook.there(features) or hypothetical(name, features.isa, features.release)):
        hook = get(hook.instead)
    require(hook, features)
    return hook


def fault(hook: Hook, isa: str, release: str) -> releases.Fault | None:
    """What did not work in a release's kernels of what a hook is a case of; None where it worked, and for every other hook.

    >>> fault(get("direct+ops"), "x86_64", "v6.4").when, fault(get("direct+ops"), "x86_64", "v7.2")
    ('v6.4 to v6.7', None)
    """
    return releases.broken(isa, release, hook.use) if hook.use else None


def history(hook: Hook, isa: str) -> str:
    """When an ISA had a hook, in words; of one that no kernel has, where the lab can make it.

    >>> history(get("ops-regs"), "arm64")
    'arm64 has it v5.5 to v6.1'
    >>> history(get("ops-live"), "arm64")
    'no kernel has it, and the lab makes it on arm64 since v6.2'
    >>> history(get("bpf-fentry"), "x86_64")
    'x86_64 has it since v5.5, and the lab knows what it is made of since v5.19'
    >>> history(get("fprobe-bpf"), "arm64")
    'no kernel has it, and the lab does not make it on arm64'
    """
    when = releases.history(isa, hook.needs, hook.unlike)
    if hook.hypothetical:
        made = f"does not make it on {isa}" if when == releases.NEVER else f"makes it on {isa} {when}"
        return f"no kernel has it, and the lab {made}"
    offered = releases.history(isa, hook.offered) if hook.offered else when
    return f"{isa} has it {offered}" + (f", and the lab knows what it is made of {when}" if offered != when else "")


def hypothetical(name: str, isa: str = "", release: str = releases.LATEST) -> bool:
    """Is a hook, as rows and `tramplab native` name it, one that no kernel has, or none of that ISA and release? False for what is
    no hook.

    >>> hypothetical("ops-live"), hypothetical("ops x10"), hypothetical("ops:10")
    (True, False, False)
    >>> hypothetical("direct", "riscv64", "v6.12"), hypothetical("direct", "riscv64"), hypothetical("direct", "arm64")
    (False, True, False)
    """
    hook = HOOKS.get(re.split("[ :]", name, maxsplit=1)[0])
    if hook is None:
        return False
    out_of_reach = unreached(hook, isa) if isa else None
    return hook.hypothetical or (out_of_reach is not None and out_of_reach.contains(releases.parse(release)))


def unreached(hook: Hook, isa: str) -> releases.Interval | None:
    """The releases in which no code of modules or BPF lies where a near direct call has its code; None if there are none."""
    near = hook.placed == "near"
    return next((found for found in releases.reaches(isa, "modules") if near and found.value == "far"), None)


def placement(hook: Hook, isa: str, release: str) -> str:
    """Where the code of a direct call by itself is: near, the patch site calls it; far, ftrace_caller finds it; "" for other hooks.

    >>> [placement(get("bpf-fentry"), isa, "v7.2") for isa in ("x86_64", "arm64", "riscv64")]
    ['near', 'far', 'far']
    """
    return "near" if hook.placed and releases.reach(isa, release, "bpf").value == "near" else hook.placed


def requests(hook: Hook, callbacks: int) -> list[Request]:
    """The requests of a hook with this number of callbacks; raises TramplabError if the hook cannot take that many."""
    return hook.requests(taken(hook, callbacks))


def taken(hook: Hook, callbacks: int) -> int:
    """A number of callbacks that the hook takes, as it was given; raises TramplabError if it does not."""
    callbacks = whole(callbacks, "callbacks")
    if not 1 <= callbacks <= hook.most:
        raise TramplabError(f"{callbacks} callbacks cannot be attached by {hook.name}; choose 1 to {hook.most}.")
    if callbacks > 1 and not hook.counts:
        raise TramplabError(f"the {hook.name} hook takes one callback, not {callbacks}; only {_countable()} take more.")
    return callbacks


def label(hook: str, callbacks: int) -> str:
    """A hook with a number of callbacks, as rows name it.

    >>> label("ops", 10)
    'ops x10'
    """
    return hook if callbacks == 1 else f"{hook} x{callbacks}"


def several(hook: str, callbacks: int) -> str:
    """A hook and how many of it are on the function, in one name: for the command line, and as images and probes have it.

    >>> several("ops", 1), several("ops", 10)
    ('ops', 'ops:10')
    """
    return hook if callbacks == 1 else f"{hook}:{callbacks}"


def parted(name: str) -> tuple[str, int]:
    """A hook and how many of it are on the function, from a name that several() makes.

    >>> parted("ops"), parted("ops:10"), parted("ops:2+10-elsewhere")
    (('ops', 1), ('ops', 10), ('ops:2+10-elsewhere', 1))
    """
    found = re.fullmatch("(.+):([0-9]+)", name)
    return (found[1], int(found[2])) if found else (name, 1)


def _countable() -> str:
    return ", ".join(h.name for h in HOOKS.values() if h.counts)
