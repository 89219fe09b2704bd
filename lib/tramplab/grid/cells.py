"""Which cells a grid has: units of work, each one hook on one function with a rising number of callbacks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import isa as isas
from ..base import arguments
from ..base.errors import TramplabError
from ..ftrace import releases
from ..isa import ISAS
from ..lab import hooks
from ..lab.measure import FUNCTIONS, STUDIED

#: Numbers of arguments of a grid by default, and the largest that can be asked for.
ARGS, MOST_ARGS = tuple(range(len(STUDIED))), len(FUNCTIONS) - 1
CALLBACKS = tuple(range(1, 65))


@dataclass(frozen=True)
class Unit:
    """The rows that are made together: a hook on the function of so many arguments, one row per number of callbacks."""

    isa: str
    hook: str
    release: str
    args: int
    callbacks: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.hook} on {self.isa} {self.release}, {self.args} arguments"


def units(
    isa_names: tuple[str, ...] = tuple(ISAS),
    hook_names: tuple[str, ...] | None = None,
    release: str = releases.LATEST,
    args: tuple[int, ...] = ARGS,
    callbacks: tuple[int, ...] = CALLBACKS,
) -> list[Unit]:
    """The units of a choice, in the order of the table, whatever order the choice is in.

    hook_names: None for all that the release has on an ISA. A hook has the numbers of callbacks that it takes. Raises
    TramplabError for anything unknown, and for a hook that was named and has no cell.
    """
    chosen = {isas.get(name).name for name in arguments.names(isa_names, "isa_names")}
    named = None if hook_names is None else {hooks.get(name).name for name in arguments.names(hook_names, "hook_names")}
    args = arguments.wholes(args, "args", 0, MOST_ARGS)
    callbacks = arguments.wholes(callbacks, "callbacks", 1, hooks.MAX_CALLBACKS)
    all_units: list[Unit] = []
    for isa in (i for i in ISAS if i in chosen):
        features = releases.features(ISAS[isa], release, {})
        for hook in hooks.HOOKS.values():
            if hook.there(features) and (named is None or hook.name in named):
                taken = tuple(k for k in sorted(set(callbacks)) if _refusal(hook, k) is None)
                all_units += [Unit(isa, hook.name, release, n, taken) for n in sorted(set(args)) if taken]
    for name in named or ():
        if not any(u.hook == name for u in all_units):
            raise _why_none(hooks.get(name), chosen, release, callbacks)
    if not all_units:
        raise TramplabError(f"no hook takes the number of callbacks asked for: {', '.join(map(str, callbacks))}.")
    return all_units


def numbers(text: str, what: str, low: int, high: int) -> tuple[int, ...]:
    """The whole numbers and ranges that a user typed; `what` names them in the error.

    >>> numbers("0-2,8", "--args", 0, 8)
    (0, 1, 2, 8)
    """
    chosen: list[int] = []
    for part in text.split(","):
        m = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip(), re.ASCII)
        if not m:
            raise TramplabError(f"{what} takes whole numbers and ranges, such as {low}-{low + 2},{high}, not {text!r}.")
        first, last = int(m[1]), int(m[2] or m[1])
        if not low <= first <= last <= high:
            raise TramplabError(f"{what} takes numbers from {low} to {high}, the smaller first, not {part.strip()!r}.")
        chosen += range(first, last + 1)
    return tuple(dict.fromkeys(chosen))


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them.

    >>> names("arm64, riscv64")
    ('arm64', 'riscv64')
    """
    return tuple(part.strip() for part in text.split(","))


def _refusal(hook: hooks.Hook, callbacks: int) -> TramplabError | None:
    try:
        hooks.taken(hook, callbacks)
    except TramplabError as e:
        return e
    return None


def _why_none(hook: hooks.Hook, chosen: set[str], release: str, callbacks: tuple[int, ...]) -> TramplabError:
    """Why a hook has no cell: no ISA has it in the release, or it takes none of the numbers of callbacks."""
    for isa in (i for i in ISAS if i in chosen):
        try:
            hooks.require(hook, releases.features(ISAS[isa], release, {}))
        except TramplabError as e:
            first = e
        else:
            return _refusal(hook, callbacks[0]) or TramplabError(f"there are no cells for {hook.name}.")
    return first
