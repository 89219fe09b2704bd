"""The rows of a unit: one kernel, one more callback each time, and a call after each."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..base.errors import TramplabError
from ..estimate.measure import of_run
from ..lab import hooks
from ..lab.growing import growing
from ..lab.kernel import Kernel
from ..lab.measure import FUNCTIONS
from .cells import Unit


@dataclass(frozen=True)
class Answer:
    """The rows of a unit, a tuple of values per row; and why there are fewer than were asked for, "" if there are not."""

    rows: tuple[tuple[str | int, ...], ...]
    refused: str = ""


def flat(measured: dict) -> dict[str, str | int]:
    """The result of measure() as one row: nested names are joined, those of the components as they are.

    >>> flat({"isa": "arm64", "components": {"site": {"loads": 1}}, "return_mispredicts": {"own": 0}})
    {'isa': 'arm64', 'site_loads': 1, 'return_mispredicts_own': 0}
    """
    out: dict[str, str | int] = {}
    for name, value in measured.items():
        if isinstance(value, dict):
            prefix = "" if name == "components" else f"{name}_"
            out |= {f"{prefix}{inner}": v for inner, v in flat(value).items()}
        else:
            out[name] = value
    return out


def of(unit: Unit) -> tuple[list[str], Answer]:
    """The columns and the rows of a unit, on a kernel that this process keeps for the units of its ISA and release."""
    return answer(unit, _kernel(unit.isa, unit.release))


@functools.cache
def _kernel(isa: str, release: str) -> Kernel:
    return Kernel(isa, release)


def answer(unit: Unit, kernel: Kernel) -> tuple[list[str], Answer]:
    """The columns and the rows of a unit, on an idle kernel of its ISA and release, which is idle again afterwards.

    Rows end where the lab cannot attach as many as are asked for. The last column, broken, has the releases whose kernels do not do
    what is counted, "" where they do.
    """
    function, hook = kernel.function(FUNCTIONS[unit.args]), hooks.get(unit.hook)
    found: list[dict[str, str | int]] = []
    fault, refused = hooks.fault(hook, unit.isa, unit.release), ""
    broken = {"broken": fault.when if fault else ""}
    with growing(kernel, function) as attach:
        for callbacks in unit.callbacks:
            try:
                attach(hooks.requests(hook, callbacks))
            except TramplabError as e:
                refused = f"{unit}, {callbacks} callbacks: {e}"
                break
            run = kernel.call(function, *range(1, unit.args + 1))
            found.append({**flat(of_run(run, unit.isa, unit.hook, unit.release, unit.args, callbacks)), **broken})
    return list(found[0]) if found else [], Answer(tuple(tuple(row.values()) for row in found), refused)
