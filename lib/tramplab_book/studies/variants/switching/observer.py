"""A callback that writes down what it is handed: the guest's lab_observe, and what it saw of a call."""

from __future__ import annotations

import struct

from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run

CALLBACK = "lab_observe"
#: The fields that it records (struct lab_observation in guest/consumers/callbacks.c).
FIELDS = ("ip", "parent_ip", "op", "fregs_ip", "fregs_sp", "full_regs", *(f"arg{n}" for n in range(8)))
#: Field -> what was in it.
Saw = dict[str, int]


def call(kernel: Kernel, function: str, *arguments: int) -> tuple[Run, int, Saw]:
    """One call: the run, how often the observer ran in it, and what it saw the last time."""
    machine, image = kernel.machine, kernel.image
    counter = image.address("lab_observed_count")
    machine.write_u64(counter, 0)
    run = kernel.call(function, *arguments)
    words = struct.unpack(f"<{len(FIELDS)}Q", machine.read(image.address("lab_observed"), 8 * len(FIELDS)))
    return run, machine.read_u64(counter), dict(zip(FIELDS, words, strict=True))


def differing(before: Saw, after: Saw) -> list[str]:
    """The fields in which two calls differ."""
    return [field for field in FIELDS if before[field] != after[field]]
