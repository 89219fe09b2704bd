"""The copy of what a trampoline saved into a pt_regs, as merged, instruction by instruction and field by field."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.reading.walk import walk
from tramplab.sparsity.structures import fills
from tramplab.sparsity.structures.fields import PT_REGS, WORD, places
from tramplab.sparsity.structures.frames import watched
from tramplab.sparsity.structures.providers import provider
from tramplab.sparsity.structures.registers import register_of
from tramplab.trampolines.fprobe import Fprobe

from ...publish.figures.figure import Figure
from ...publish.stepper.stepper import Notes, Stepper, stepper
from ..memo import once
from ..shared.milestones import golden, numbers, stretches  # noqa: F401 (part of a study)

NAME = "copy_steps"
TITLE = "From ftrace_regs to pt_regs, step by step"
FUNCTION, ARGUMENTS = "two_args", (1, 2)
#: The newest release's way to a pt_regs for a program of kprobe_multi (sparsity/ways/ways.py).
MERGED = {"x86_64": "stack_hardware", "arm64": "cpu_kernel", "riscv64": "cpu_plain"}

#: What to look for.
WATCH = (
    "Watch the memory in callback: on arm64 and riscv64 the handler loads one field after the other from the trampoline's frame "
    "and stores it in a pt_regs; on x86-64 the frame is a pt_regs already."
)

#: Step -> its note; see publish/stepper/stepper.py.
NOTES: Notes = {
    "": {
        ("site", 0): "A caller passes 1 and 2. The structure that a program is to read is made on the way.",
        ("callback", 0): "The handler of a link. Watch what it loads from the trampoline's frame, and where it stores that.",
        ("body", 0): "The function's own code; nothing that was copied has come back.",
    },
    "x86_64": {("save", 0): "The trampoline's frame is a pt_regs already: there is nothing to copy, and two fields to write."},
    "arm64": {("save", 0): "The frame is an ftrace_regs: what arguments need, and the way back."},
    "riscv64": {("save", 0): "The frame is an ftrace_regs, with other offsets than a pt_regs has."},
}


@once
def walks() -> list[dict]:
    """One call on each ISA, in the newest release, of a function with a link as merged; see lab.reading.walk."""
    records = []
    for isa, link in MERGED.items():
        kernel = Kernel(isa, releases.LATEST)
        function = kernel.function(FUNCTION)
        with kernel.attached(function, Fprobe(link=link)):
            records.append(walk(kernel, function, *ARGUMENTS))
    return records


@once
def rows() -> pd.DataFrame:
    """One row per ISA and stretch between milestones; see shared/milestones.py."""
    return stretches(walks())


@once
def fields() -> pd.DataFrame:
    """One row per ISA and field of a pt_regs: columns isa, field, register (that it is named after, "" for none), written (does
    ftrace_partial_regs() of the newest release write it, or has the trampoline, where the two are one?)."""
    records: list[dict[str, object]] = []
    for isa in ISAS:
        kernel = Kernel(isa, releases.LATEST)
        seen = next(iter(watched(kernel, provider("ftrace_caller")).values()))
        kernel.machine.write(kernel.machine.stack.address, seen.stack)
        room = kernel.memory(*[0] * (kernel.image.struct(PT_REGS).size // WORD))
        made = fills.fill(kernel, "partial", seen.address, room)
        for place in places(kernel.image, PT_REGS):
            wrote = place.name in made.wrote
            records.append({"isa": isa, "field": place.name, "register": register_of(kernel.isa, place.name), "written": wrote})
    return pd.DataFrame(records)


def body(_: pd.DataFrame) -> Stepper:
    """The calls to step through."""
    return stepper(walks(), NOTES, WATCH)


FIGURES = (
    Figure(
        "fig-copy-steps",
        f"What runs between the site and the program? ({releases.LATEST})",
        body=body,
        limits="Emulated counts, no timing. One call of a two-argument function with one link like kprobe_multi's, as merged; "
        "stretches begin at the milestone named and end at the next.",
    ),
)
