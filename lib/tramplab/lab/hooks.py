"""The hooks by name: what `measure` attaches, and which releases had it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import TramplabError, unknown
from ..ftrace import releases
from ..ftrace.ops import Direct, Ops
from ..trampolines.bpf.request import MOST_PROGRAMS, Bpf

MAX_CALLBACKS = 120


@dataclass(frozen=True)
class Hook:
    """A way to hook a function.

    needs: the feature a release must have (see data/releases.yml). counts: whether several callbacks can be attached, and
    most: how many. requests: number of callbacks -> what to register, in order.
    """

    name: str
    title: str
    needs: str
    counts: bool
    requests: Callable[[int], list[Ops | Direct]]
    most: int = MAX_CALLBACKS


def _ops(count: int, save: str = "args") -> list[Ops | Direct]:
    return [Ops(save=save) for _ in range(count)]


def _programs(kind: str, what: str) -> Hook:
    """BPF programs of a kind, in one trampoline made for the function."""
    title = f"{kind} programs, {what}"
    return Hook(f"bpf-{kind.replace('_', '')}", title, "direct", True, lambda k: [Bpf(**{kind: k})], MOST_PROGRAMS)


_ALL = (
    Hook("none", "nothing attached", "ops", False, lambda _: []),
    Hook("ops", "an ftrace_ops that takes the argument registers", "ops", True, _ops),
    Hook("ops-regs", "an ftrace_ops that wants all registers", "regs", True, lambda k: _ops(k, "regs")),
    Hook(
        "ops-ip",
        "hypothetical: an ops that can change the ip, no more",
        "args",
        False,
        lambda _: _ops(1, "ip"),
    ),
    Hook(
        "ops-live",
        "hypothetical: an ops that saves the live arguments",
        "args",
        False,
        lambda _: _ops(1, "live"),
    ),
    Hook(
        "ops-clobbered",
        "hypothetical: an ops that saves all that C may clobber",
        "args",
        False,
        lambda _: _ops(1, "clobbered"),
    ),
    Hook("direct", "a direct call to a stub near the kernel's text", "direct", False, lambda _: [Direct()]),
    Hook(
        "direct-far",
        "a direct call to a stub as far away as the layout allows",
        "direct",
        False,
        lambda _: [Direct(far=True)],
    ),
    Hook("direct+ops", "a direct call and ftrace_ops on one function", "direct", True, lambda k: [Direct(), *_ops(k)]),
    _programs("fentry", "before the function"),
    _programs("fexit", "behind the function, which the trampoline calls"),
    _programs("fmod_ret", "that can keep the function from running"),
)
HOOKS: dict[str, Hook] = {h.name: h for h in _ALL}


def get(name: str) -> Hook:
    """A hook by name; raises TramplabError with near matches."""
    try:
        return HOOKS[name]
    except KeyError:
        raise unknown("hook", name, HOOKS) from None


def require(hook: Hook, features: releases.Features) -> None:
    """Raise TramplabError, saying since or until when, if this release (as overridden) does not have the hook."""
    if not features[hook.needs]:
        when = releases.history(features.isa, hook.needs)
        raise TramplabError(f"{features} has no {hook.name} hook; {features.isa} has it {when}.")


def requests(hook: Hook, callbacks: int) -> list[Ops | Direct]:
    """What to register for a number of callbacks; raises TramplabError if the hook cannot take that many."""
    if not 1 <= callbacks <= hook.most:
        raise TramplabError(f"{callbacks} callbacks cannot be attached by {hook.name}; choose 1 to {hook.most}.")
    if callbacks > 1 and not hook.counts:
        raise TramplabError(f"the {hook.name} hook takes one callback, not {callbacks}; only {_countable()} take more.")
    return hook.requests(callbacks)


def label(hook: str, callbacks: int) -> str:
    """A hook with a number of callbacks, as rows name it.

    >>> label("ops", 10)
    'ops x10'
    """
    return hook if callbacks == 1 else f"{hook} x{callbacks}"


def _countable() -> str:
    return ", ".join(h.name for h in HOOKS.values() if h.counts)
