"""The cost of a hook on a core, in cycles: an estimate with its band.

The estimate is the difference of two steady states of pipeline.py, hooked and unhooked, with every parameter at its value.
The band is a quarter of it to either side, for every core: a core whose times lie elsewhere too often is not usable (judged.py).
What it depends on is asked for apart: what it would be with each of the parameters that are not known for sure at its low and at
its high end, while the others keep their values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import TramplabError
from ..lab.call import RecordedCall
from ..lab.run import Run
from . import pipeline
from .cores import Core, cores, get
from .lower import LoweredProgram, changed, lower
from .program import program

__all__ = ["Estimate", "Sensitivity", "cores", "estimate", "get", "per_call", "relative", "sensitivities"]

#: How far the band reaches to either side, as a part of the estimate.
BAND = 0.25
#: A call as it was made, or as it was written down.
Called = Run | RecordedCall


@dataclass(frozen=True)
class Sensitivity:
    """The effect of one uncertain parameter on an estimate: the estimate with it at its low and at its high end."""

    parameter: str
    at_low: float
    at_high: float

    @property
    def spread(self) -> float:
        """Cycles between the two."""
        return abs(self.at_high - self.at_low)


@dataclass(frozen=True)
class Estimate:
    """Cycles on a core, and the band around them."""

    mid: float
    core: Core
    unit: str = "cycles"

    @property
    def low(self) -> float:
        """The lower end of the band."""
        return self.mid - BAND * abs(self.mid)

    @property
    def high(self) -> float:
        """The upper end of the band."""
        return self.mid + BAND * abs(self.mid)

    def __str__(self) -> str:
        return f"{self.low:.0f}-{self.high:.0f} {self.unit}"

    def whole(self) -> dict[str, object]:
        """The estimate as rows of studies have it, in whole cycles: columns core (its name), cycles, low and high."""
        return {"core": self.core.name, "cycles": round(self.mid), "low": round(self.low), "high": round(self.high)}


def estimate(hooked: Called, unhooked: Called, core: Core) -> Estimate:
    """The cycles that the hook adds to one call; raises TramplabError if the core is of another ISA."""
    return Estimate(_added(RecordedCall.of(hooked), RecordedCall.of(unhooked), core), core)


def sensitivities(hooked: Called, unhooked: Called, core: Core) -> tuple[Sensitivity, ...]:
    """The uncertain parameters that change that estimate, those that change it most first."""
    calls = RecordedCall.of(hooked), RecordedCall.of(unhooked)
    return _moving(core, lambda *change: _added(*calls, core, *change))


def per_call(run: Called, core: Core) -> Estimate:
    """The cycles of the whole call, with the loop that makes it over and over."""
    return Estimate(_cycles(RecordedCall.of(run), core), core)


def relative(costly: tuple[Called, Called], cheap: tuple[Called, Called], core: Core) -> Estimate:
    """How many times as much one hook adds as another; each is a hooked call and the same call unhooked.

    Raises TramplabError if the second adds nothing.
    """
    above, below = (_added(RecordedCall.of(hooked), RecordedCall.of(idle), core) for hooked, idle in (costly, cheap))
    if below <= 0:
        raise TramplabError(f"the second hook adds nothing on {core.name}, so nothing is a multiple of it.")
    return Estimate(above / below, core, unit="times")


def _added(hooked: RecordedCall, unhooked: RecordedCall, core: Core, *change: Any) -> float:
    """The cycles that the hook adds, with all parameters at their values except perhaps one."""
    return _cycles(hooked, core, *change) - _cycles(unhooked, core, *change)


def _moving(core: Core, at: Callable[..., float]) -> tuple[Sensitivity, ...]:
    """The sensitivities that are not 0, the largest first. at(name, value): the estimate with one parameter changed."""
    mid = at()
    varied = [Sensitivity(p.name, at(p.name, p.low), at(p.name, p.high)) for p in core.parameters.values() if p.uncertain]
    return tuple(sorted((s for s in varied if s.at_low != mid or s.at_high != mid), key=lambda s: -s.spread))


@functools.lru_cache(maxsize=8192)
def _cycles(call: RecordedCall, core: Core, parameter: str | None = None, value: int | None = None) -> float:
    """Cycles per repetition of a call, with all parameters at their values but perhaps one."""
    if parameter is None or value is None:
        return pipeline.cycles(_lowered(call, core), call, core.in_order)
    if value == core.values[parameter]:  # one end of a range often is the value itself
        return _cycles(call, core)
    unchanged = _lowered(call, core)
    values = {**core.values, parameter: value}
    if parameter in pipeline.OF_RETURNS:
        before, after = pipeline.mispredicted(call, core.values), pipeline.mispredicted(call, values)
        if before == after and not (parameter == "mispredict" and any(before)):
            return _cycles(call, core)
    if parameter in pipeline.PARAMETERS:
        return pipeline.cycles(replace(unchanged, values=values), call, core.in_order)
    if parameter not in unchanged.asking:
        return _cycles(call, core)
    return pipeline.cycles(changed(unchanged, program(call), core, parameter, value), call, core.in_order)


@functools.lru_cache(maxsize=256)
def _lowered(call: RecordedCall, core: Core) -> LoweredProgram:
    if core.isa != call.isa.name:
        raise TramplabError(f"{core.name} is a core for {core.isa}; this call ran on {call.isa.name}.")
    return lower(program(call), core, core.values)
