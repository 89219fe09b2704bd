"""Does removing an ops bring back exactly what was there before it? Every short sequence, undone."""

from __future__ import annotations

import itertools

import pandas as pd

from tramplab.ftrace import releases

from ...memo import once
from ...shared.every_release import every_release
from .attached import Hooked

#: What is attached: letters of attached.request(), at most so many at once.
LETTERS, DEPTH = "agrd", 3
#: The feature that is an ops pointer beside the site.
POINTER = "call_ops"


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and sequence of up to three ops, the last of which is removed again.

    Columns: isa, release, call_ops (has the site an ops pointer?), ops (in order of attaching), then whether everything
    is as it was before the last one came: site, literal (the ops pointer), text (all other code); and idle: whether all
    code is as booted when the others are removed too, first one first. What a release never had is left out.
    """
    return pd.DataFrame(every_release(_undone))


def _undone(isa: str, release: str) -> list[dict[str, object]]:
    subject = Hooked(isa, release)
    return [_undo(subject, ops) for ops in _sequences([letter for letter in LETTERS if subject.can(letter)])]


def _sequences(letters: list[str]) -> list[tuple[str, ...]]:
    """Every sequence of these letters; a function can have one direct call."""
    every = (ops for length in range(DEPTH) for ops in itertools.product(letters, repeat=length + 1))
    return [ops for ops in every if ops.count("d") <= 1]


def _undo(subject: Hooked, ops: tuple[str, ...]) -> dict[str, object]:
    """Attach all, remove the last, compare; then remove the rest, and compare with the start."""
    booted = subject.held, subject.other_text
    for letter in ops[:-1]:
        subject.attach(letter)
    (site, literal), text = subject.held, subject.other_text
    subject.attach(ops[-1])
    subject.detach()
    row = {"call_ops": bool(literal), "ops": " ".join(ops)}
    row |= {"site": subject.held[0] == site, "literal": subject.held[1] == literal, "text": subject.other_text == text}
    while subject.letters:
        subject.detach(0)
    return {**row, "idle": (subject.held, subject.other_text) == booted}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: removals; those after which the ops pointer is not what it was, "removals-inexact", or anything else,
    "removals-otherwise"; kernels with such a pointer, and those of them where a removal is inexact; and since when an ISA has
    it."""
    inexact = frame[~frame["literal"]]
    kernels = frame.groupby(["isa", "release"], sort=False).agg(pointer=("call_ops", "any"), exact=("literal", "all"))
    values = {"removals": len(frame), "removals-inexact": len(inexact)}
    values |= {"removals-otherwise": int((~frame[["site", "text", "idle"]].all(axis="columns")).sum())}
    values |= {"pointer-kernels": int(kernels["pointer"].sum()), "inexact-kernels": int((~kernels["exact"]).sum())}
    values |= {"inexact-with-pointer": int((kernels["pointer"] & ~kernels["exact"]).sum())}
    since = {isa: str(releases.intervals(isa, POINTER)[0].since) for isa in frame["isa"][frame["call_ops"]].unique()}
    return {**values, **{f"{isa}-pointer-since": release for isa, release in since.items()}}
