"""What makes a pt_regs of a ftrace_regs for those who want one: ftrace_partial_regs() and ftrace_fill_perf_regs(), by release."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import unknown
from ...ftrace import releases
from ...lab.kernel import Kernel
from .fields import FTRACE_REGS, PT_REGS
from .watched import Watched, run

#: The user of a fill -> the kernel's function that makes it.
FILLS = {"partial": "ftrace_partial_regs()", "perf": "ftrace_fill_perf_regs()"}
#: State of it in releases.yml -> the lab's function.
_FUNCTIONS = {
    "partial": {state: f"lab_partial_{state}" for state in ("plain", "kernel", "hardware")},
    "perf": dict.fromkeys(("caller", "nothing"), "lab_perf_fill_regs"),
}


@dataclass(frozen=True)
class Filled:
    """The result of one fill.

    state: the fill's name in releases.yml.
    address: of the pt_regs that others now read.
    copied: is that another place than the ftrace_regs?
    read: fields of the ftrace_regs that it read.
    wrote: fields of that pt_regs that it wrote.
    watched: the run.
    """

    state: str
    address: int
    copied: bool
    read: tuple[str, ...]
    wrote: tuple[str, ...]
    watched: Watched


def state(kernel: Kernel, what: str) -> str:
    """The state of a fill in a kernel's release; raises TramplabError for releases before v6.14, which have none."""
    if what not in FILLS:
        raise unknown("fill", what, FILLS)
    return releases.registers(kernel.isa.name, kernel.features.release, what).value


def states(isa: str, what: str) -> tuple[str, ...]:
    """The states that a fill was in on an ISA, oldest first."""
    if what not in FILLS:
        raise unknown("fill", what, FILLS)
    return tuple(interval.value for interval in releases.uses_of_registers(isa, what))


def fill(kernel: Kernel, what: str, fregs: int, regs: int, as_of: str = "") -> Filled:
    """Make a pt_regs of the ftrace_regs at an address.

    what: "partial" or "perf".
    fregs: the address of the ftrace_regs.
    regs: the address of room for a pt_regs, which keeps what nobody writes.
    as_of: a state, instead of that of the kernel's release.

    Raises TramplabError for an unknown fill or state, and for a kernel that does not record.
    """
    chosen = as_of or state(kernel, what)
    states_here = states(kernel.isa.name, what)
    if chosen not in states_here:
        raise unknown(f"state of {FILLS[what]} on {kernel.isa.name}", chosen, states_here)
    seen = run(kernel, _FUNCTIONS[what][chosen], {FTRACE_REGS: fregs, PT_REGS: regs})
    address = seen.result if seen.result is not None else regs
    written = PT_REGS if address == regs else FTRACE_REGS
    return Filled(chosen, address, address == regs, seen.read[FTRACE_REGS], seen.wrote[written], seen)
