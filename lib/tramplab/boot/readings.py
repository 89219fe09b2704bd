"""What a trial reads: from the lines of a booted process, each with its label, and which kinds may come under a label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..isa import Isa
from . import counted, module, plan, protocol
from .trials import READING, SAY, Trial


def labels(trial: Trial) -> list[str]:
    """Those of what it reads, in order."""
    return [step.removeprefix(SAY) for step in trial.steps if step.startswith(SAY)]


#: Kinds of readings: what steps read, and what a refusal and a panic are, which may come anywhere.
NUMBER_READ, HITS_READ, COUNTERS_READ, LINE_READ, ENDED = "number", "hits", "counters", "line", "ended"


def kinds(trial: Trial) -> dict[str, set[str]]:
    """Label -> the kinds of readings that may come under it."""
    out: dict[str, set[str]] = {}
    label = ""
    for step in trial.steps:
        if step.startswith(SAY):
            label = step.removeprefix(SAY)
            out[label] = {ENDED}
        elif step == READING:
            out[label] |= {COUNTERS_READ, LINE_READ}
        elif of := _KINDS.get(step.split()[0]):
            out[label].add(of)
    return out


_KINDS = {"count": NUMBER_READ, "hits": HITS_READ, "read": LINE_READ, "find": LINE_READ, "stack": LINE_READ}


def kind(reading: Any) -> set[str]:
    """The kinds that a reading can be of."""
    if isinstance(reading, int | float):
        return {NUMBER_READ}
    if isinstance(reading, str):
        return {LINE_READ, ENDED} if "Kernel panic" in reading else {LINE_READ}
    if all(isinstance(part, str) for part in reading):
        return {ENDED} if len(reading) == 2 else set()
    return {{2: HITS_READ, 3: COUNTERS_READ}.get(len(reading), "")}


def read(isa: Isa, lines: Iterable[str], trial: Trial) -> Iterator[tuple[str, Any]]:
    """What is read, each with its label: instructions per call; a file's line; the two numbers of "hits", or the module's three; or
    (error, step) of a step that was refused. Raises what the lines raise when what came before has been given, and TramplabError
    where a line is damaged or lacks."""
    label, left = "", labels(trial)
    for text in lines:
        line = protocol.line(text)
        if line.word == "say":
            if not left or left.pop(0) != line.rest:
                raise protocol.damaged(text)
            label = line.rest
        elif line.word == "counted":
            counted.require_all(text, line)
            yield label, counted.whole(counted.measured(isa, line, plan.CALLS).instructions)
        elif line.word == "|" and label and not line.rest.startswith("#"):
            yield label, line.numbers if re.fullmatch(module.COUNTERS, line.rest) else " ".join(line.rest.split())
        elif line.word == "hits":
            yield label, line.numbers
        elif line.word == "refused":
            yield label, line.refusal
        elif "Kernel panic" in text:
            yield label, re.sub(r".*(Kernel panic)", r"\1", text)
    if left:
        raise protocol.lacks(f"the reading of {left[0]}")
