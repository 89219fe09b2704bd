"""One measurement with all that is known of a call: its counts, its mispredicted returns and, for a core, its cycles."""

from __future__ import annotations

import functools
from typing import Any

from .. import isa as isas
from ..base.arguments import whole
from ..ftrace.releases import LATEST
from ..lab import hooks
from ..lab.measure import counted, run
from ..lab.run import Run
from . import cycles, judged, returnstack
from .cores import Core
from .cycles import Estimate


def measure(
    isa: str, hook: str, release: str = LATEST, args: int = 1, callbacks: int = 1, core: str | None = None, **overrides: Any
) -> dict:
    """What `tramplab measure` prints: the counts (see lab.measure.counted) and these keys, the last four only where they apply:

    return_mispredicts: returns that a return stack gets wrong, in the call (own) and among its callers (outer), with the
        number of callers and of entries, see returnstack.
    estimate: the cycles on the core, see estimated().
    broken: what happens instead where kernels of this release do not do this; counted is what they were meant to do.
    placed: where the code of a direct call is, near or far.
    hypothetical: true where no kernel of this release has it.
    """
    args, callbacks = whole(args, "args"), whole(callbacks, "callbacks")
    chosen = None if core is None else judged.require(core, isas.get(isa).name)
    r = run(isa, hook, release, args, callbacks, **overrides)
    stack = (
        {"entries": chosen["return_stack"].value, "checked": bool(chosen["return_stack_checked"].value)}
        if chosen
        else {}
    )
    row = of_run(r, isa, hook, release, args, callbacks, **stack)
    if chosen:
        unhooked = r if hook == "none" else run(isa, "none", release, args, **overrides)
        row["estimate"] = estimated(r, unhooked, chosen)
    if fault := hooks.fault(hooks.get(hook), isa, release):
        row["broken"] = str(fault)
    if placed := hooks.placement(hooks.get(hook), isa, release):
        row["placed"] = placed
    if hooks.hypothetical(hook, isa, release):
        row["hypothetical"] = True
    return row


def of_run(r: Run, isa: str, hook: str, release: str, args: int, callbacks: int, **stack: Any) -> dict:
    """The counts and mispredicted returns of a run that was made so. stack: as replay() takes it."""
    replayed = returnstack.replay(r, **stack)
    found = counted(r, isa, hook, release, args, callbacks)
    found["return_mispredicts"] = {
        "own": replayed.own,
        "outer": replayed.outer,
        "callers": replayed.callers,
        "entries": replayed.entries,
    }
    return found


def hook_estimate(isa: str, spec: str, release: str, args: int, core: Core) -> Estimate:
    """Cycles that a hook adds, by its name or NAME:CALLBACKS; raises TramplabError for one that the lab does not have."""
    name, callbacks = hooks.parted(spec)
    return cycles.estimate(run(isa, name, release, args, callbacks), _idle(isa, release, args), core)


@functools.lru_cache(maxsize=8)  # the same for every hook of a set
def _idle(isa: str, release: str, args: int) -> Run:
    return run(isa, "none", release, args)


def estimated(hooked: Run, unhooked: Run, core: Core) -> dict:
    """An estimate as plain data: cycles over the unhooked call, with the band, and per uncertain parameter that matters its
    value and range, how it is known, and the estimate at both ends, those that matter most first."""
    e = cycles.estimate(hooked, unhooked, core)
    moved = [(core[s.parameter], s) for s in cycles.sensitivities(hooked, unhooked, core)]
    return {
        "core": core.name,
        "unit": e.unit,
        "low": round(e.low, 1),
        "mid": round(e.mid, 1),
        "high": round(e.high, 1),
        "parameters": [
            {
                "name": p.name,
                "value": p.value,
                "low": p.low,
                "high": p.high,
                "kind": p.kind,
                "at_low": round(s.at_low, 1),
                "at_high": round(s.at_high, 1),
            }
            for p, s in moved
        ],
    }
