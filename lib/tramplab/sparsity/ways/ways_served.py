"""Consumers that read right values from what each way makes, those that do not, and why."""

from __future__ import annotations

from ...lab import boot
from ...lab.kernel import Kernel
from ..consumers.matrix import NOT_ASKED, RIGHT, matrix
from ..structures.classify import TRUE, Sample, classify
from ..structures.fields import WORD, Place
from ..structures.frames import frame, watched
from ..structures.providers import Provider
from ..structures.providers import provider as named
from ..structures.registers import register_of
from ..structures.views import DIRECT, View
from .ways import Way, provider

#: A light structure has not got what the consumer reads.
LACKING = "lacking"
#: The structure that a light link's program takes, and what its fields are called that are no arguments.
_LIGHT_STRUCT = "lab_bpf_light"


def of_provider(kernel: Kernel, chosen: Provider) -> dict[str, str]:
    """Consumer -> outcome (matrix.OUTCOMES) on the pt_regs that a provider passes; only consumers that are asked."""
    found = matrix(kernel, View(chosen, DIRECT))
    return {cell.consumer.name: cell.outcome for cell in found.cells if cell.outcome != NOT_ASKED}


def of_way(kernel: Kernel, way: Way) -> dict[str, str]:
    """Consumer -> outcome on what a way makes. Of the chain it is the pt_regs at its end; of what comes before, a consumer is right
    that reads nothing but registers that the light structure holds, and LACKING else: it would be rewritten for that. This CPU's
    memory is made as it is at boot, since it keeps what other ways leave there."""
    boot.boot(kernel.machine, kernel.cpus[0])
    if way.link == "light":
        return of_registers(kernel, carried(kernel))
    return of_provider(kernel, provider(way.link))


def of_registers(kernel: Kernel, has: frozenset[str]) -> dict[str, str]:
    """Consumer -> RIGHT if it reads none but these registers, and LACKING else: it would be written for where they are."""
    return {name: RIGHT if set(needs) <= has else LACKING for name, needs in needed(kernel).items()}


def saved(kernel: Kernel) -> frozenset[str]:
    """The registers whose true values are in what the trampoline saves for all."""
    slots = frame(kernel, named("ftrace_caller")).slots
    return frozenset(register_of(kernel.isa, name) for name, slot in slots.items() if slot.kind == TRUE)


def carried(kernel: Kernel) -> frozenset[str]:
    """The registers whose true values the light structure of BPF holds when the program has it."""
    struct = kernel.image.struct(_LIGHT_STRUCT)
    names = {f"args[{n}]": register for n, register in enumerate(kernel.isa.args)}
    names |= {"ip": "pc", "sp": kernel.isa.sp, "fp": kernel.isa.fp}
    first = struct.fields["args"]
    at = [Place(first.offset + WORD * n, WORD, f"args[{n}]") for n in range(first.elements)]
    at += [Place(struct.fields[name].offset, WORD, name) for name in ("ip", "sp", "fp")]
    samples = []
    for (seed, poison), seen in watched(kernel, provider("light", _LIGHT_STRUCT)).items():
        samples.append(Sample(seed, poison, {place.name: place.of(seen.data) for place in at}, seen.truth))
    slots = classify(samples, {place.name: names[place.name] for place in at})
    return frozenset(names[name] for name, slot in slots.items() if slot.kind == TRUE)


def needed(kernel: Kernel) -> dict[str, tuple[str, ...]]:
    """Consumer of a pt_regs at a function's entry -> the registers, or the state, whose slots it reads in a full one."""
    full = matrix(kernel, View(named("breakpoint"), DIRECT))
    asked = [cell for cell in full.cells if cell.outcome != NOT_ASKED]
    return {cell.consumer.name: tuple(register_of(kernel.isa, field) for field in cell.fields) for cell in asked}
