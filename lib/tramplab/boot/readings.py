"""What a trial reads: from the lines of a booted process, each with its label, and which kinds may come under a label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta

from ..base.entries import Entry, Natural, Text
from ..isa import Isa
from . import counted, module, plan, protocol
from .trial import READING, SAY, Trial

PANIC = "Kernel panic"
Number = Annotated[float, Meta(ge=0)] | Natural


class Executed(Entry, frozen=True, tag_field="is", tag="executed"):
    """The instructions of a system call."""

    instructions: Number

    def __str__(self) -> str:
        return f"{self.instructions} instructions per call"


class Module(Entry, frozen=True, tag_field="is", tag="module"):
    """What the kernel module counts: calls of its handlers, calls that its fprobes say they missed, and returns with a code segment
    that is not 0 or of a function that the fprobe is not on."""

    called: Natural
    missed: Natural
    odd: Natural

    def __str__(self) -> str:
        return f"handlers called: {self.called}, missed as nmissed has it: {self.missed}, wrong segment or function: {self.odd}"


class Hits(Entry, frozen=True, tag_field="is", tag="hits"):
    """The number that BPF programs share, and what the last event has counted."""

    programs: Natural
    event: Natural

    def __str__(self) -> str:
        return f"programs: {self.programs}, event: {self.event}"


class Line(Entry, frozen=True, tag_field="is", tag="line"):
    """A line of a file."""

    text: Text

    def __str__(self) -> str:
        return self.text


class Refused(Entry, frozen=True, tag_field="is", tag="refused"):
    """The error with which the kernel refused a step."""

    error: Text
    step: Text

    def __str__(self) -> str:
        return f"the kernel says {self.error} to: {self.step}"


class Panic(Entry, frozen=True, tag_field="is", tag="panic"):
    """The kernel's last words."""

    text: Text

    def __str__(self) -> str:
        return self.text


Reading = Executed | Module | Hits | Line | Refused | Panic
Of = TypeVar("Of", bound=Reading)


def those(kind: type[Of], read: Sequence[Reading]) -> list[Of]:
    """The readings of a kind, in order."""
    return [one for one in read if isinstance(one, kind)]


def first(kind: type[Of], read: Sequence[Reading]) -> Of:
    """The first reading of a kind."""
    return those(kind, read)[0]


def labels(trial: Trial) -> list[str]:
    """The labels under which a trial reads, in order."""
    return [step.removeprefix(SAY) for step in trial.steps if step.startswith(SAY)]


def kinds(trial: Trial) -> dict[str, tuple[type[Reading], ...]]:
    """Label -> the kinds of readings that may come under it; a refusal and a panic may come anywhere."""
    out: dict[str, tuple[type[Reading], ...]] = {}
    label = ""
    for step in trial.steps:
        if step.startswith(SAY):
            label = step.removeprefix(SAY)
            out[label] = (Refused, Panic)
        elif step == READING:
            out[label] += (Module, Line)
        elif of := _KINDS.get(step.split()[0]):
            out[label] += (of,)
    return out


_KINDS: dict[str, type[Reading]] = {"count": Executed, "hits": Hits, "read": Line, "find": Line, "stack": Line}


def read(isa: Isa, lines: Iterable[str], trial: Trial) -> Iterator[tuple[str, Reading]]:
    """(label, reading) of all that a trial reads. Raises what the lines raise when what came before has been given, and
    TramplabError where a line is damaged or lacks."""
    label, left = "", labels(trial)
    for text in lines:
        line = protocol.line(text)
        if line.word == "say":
            if not left or left.pop(0) != line.rest:
                raise protocol.damaged(text)
            label = line.rest
        elif line.word == "counted":
            counted.require_all(text, line)
            yield label, Executed(counted.whole(counted.measured(isa, line, plan.CALLS).instructions))
        elif line.word == "|" and label and not line.rest.startswith("#"):
            ours = re.fullmatch(module.COUNTERS, line.rest)
            yield label, Module(**line.named) if ours else Line(" ".join(line.rest.split()))
        elif line.word == "hits":
            yield label, Hits(**line.named)
        elif line.word == "refused":
            yield label, Refused(*line.refusal)
        elif PANIC in text:
            yield label, Panic(" ".join(re.sub(f".*({PANIC})", r"\1", text).split()))
    if left:
        raise protocol.lacks(f"the reading of {left[0]}")
