"""A second opinion on a hook's cycles from llvm-mca, where that is installed.

LLVM's machine code analyser times a stretch of straight code that is repeated. Given are the instructions that a call
executed, in order, but for two things that it does not mean as we do: branches of every kind are left out (it takes a call
for a slow instruction, and predicts nothing), and landing pads are NOPs (it takes one for a barrier). So what it says is
of the straight part, without bubbles, mispredictions and the stores and loads of return addresses, and without the
forwarding of one store's bytes to a load.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from ..lab.call import RecordedCall
from ..lab.run import Run
from .cores import Core
from .operations import BRANCH, CONSTANT
from .program import program

PROGRAM = "llvm-mca"
ITERATIONS = 200  # repetitions

_PROLOGUE = {"x86_64": ".intel_syntax noprefix\n"}
_ATTRIBUTES = {"riscv64": "+m,+a,+c"}
#: ISA -> the instruction in place of one that needs no input: addresses relative to it mean nothing elsewhere.
_ANY_CONSTANT = {"x86_64": "mov {0}, 1", "arm64": "mov {0}, #1", "riscv64": "lui {0}, 1"}
_AS_NOP = {"endbr64", "bti", "paciasp", "autiasp"}
#: An instruction that llvm-mca has no model of on some cores, and that holds back stores only.
_RELEASE = "fence rw, w"


@dataclass(frozen=True)
class Opinion:
    """Cycles that the hook adds to one call, or None and the reason why there is no opinion."""

    cycles: float | None
    reason: str = ""


class _SilentError(Exception):
    """The reason why there is no opinion."""


def opinion(hooked: Run | RecordedCall, unhooked: Run | RecordedCall, core: Core) -> Opinion:
    """The difference between two calls according to llvm-mca."""
    try:
        return Opinion(_cycles(RecordedCall.of(hooked), core) - _cycles(RecordedCall.of(unhooked), core))
    except _SilentError as e:
        return Opinion(None, str(e))


def block(call: RecordedCall) -> str:
    """The straight part of what a call executed, as assembler text."""
    name, lines = call.isa.name, []
    for item in program(call).items:
        if item.step is None or item.operation.unit == BRANCH:
            continue
        i = call.instructions[call.steps[item.step].pc]
        if i.mnemonic in _AS_NOP or i.text == _RELEASE:
            lines.append("nop")
        elif item.operation.unit == CONSTANT and item.operation.writes:
            lines.append(_ANY_CONSTANT[name].format(item.operation.writes[0]))
        else:
            lines.append(i.text)
    return _PROLOGUE.get(name, "") + "\n".join(lines) + "\n"


def _cycles(call: RecordedCall, core: Core) -> float:
    """Cycles per repetition of a call's straight part."""
    where = shutil.which(PROGRAM)
    if where is None:
        raise _SilentError(f"{PROGRAM} is not installed (on Debian: apt-get install llvm).")
    if core.mca is None:
        raise _SilentError(f"LLVM has no name for {core.name} in the releases this was tried with.")
    attributes = _ATTRIBUTES.get(core.isa)
    command = [where, f"-mtriple={call.isa.triple}", f"-mcpu={core.mca}", f"-iterations={ITERATIONS}"]
    command += [f"-mattr={attributes}"] if attributes else []
    try:
        done = subprocess.run(
            command,
            check=False,
            input=block(call),
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as e:
        raise _SilentError(f"{PROGRAM} could not be run ({type(e).__name__}).") from None
    if "not a recognized processor" in done.stderr:
        raise _SilentError(f"this {PROGRAM} does not know {core.mca}; a later release may.")
    total = re.search(r"^Total Cycles:\s+(\d+)$", done.stdout, re.MULTILINE)
    if done.returncode or not total:
        trouble = " ".join(done.stderr.split())[:120]
        raise _SilentError(f"{PROGRAM} cannot read the code of this call ({trouble}).")
    return int(total[1]) / ITERATIONS
