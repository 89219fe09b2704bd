"""Does removing an ops bring back exactly what was there before it? Every short sequence, undone."""

from __future__ import annotations

import itertools

import pandas as pd

from ....ftrace import releases
from ....publish.claims.verdict import Verdict, judges
from ....publish.phrases import listed
from ...memo import once
from ...shared.every_release import every_release
from ...shared.expired import expired
from . import switching
from .attached import Hooked
from .plays import newest_plays

#: What is attached: letters of attached.REQUESTS, at most so many at once.
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


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """Numbers for the prose: removals, and those after which the ops pointer is not what it was."""
    return {"removals": len(frame), "removals-inexact": int((~frame["literal"]).sum())}


@judges("s4")
def backs_out_exactly(frame: pd.DataFrame | None = None, calls: pd.DataFrame | None = None) -> Verdict:
    """Everything that decides where a call goes is as before, in every sequence.

    frame: rows of this module. calls: rows of `switching`, for what a difference means to a call.
    """
    frame = rows() if frame is None else frame
    calls = switching.rows() if calls is None else calls
    exact = frame[["site", "literal", "text", "idle"]].all(axis="columns")
    cases = frame.assign(truth=exact).groupby(["isa", "release"], as_index=False, sort=False)["truth"].all()
    since = {isa: str(releases.intervals(isa, POINTER)[0].since) for isa in _with_pointer(frame)}
    kind, on = expired(cases, since, "CALL_OPS")
    numbers: dict[str, int | float | str] = {"removals": len(frame)}
    numbers |= {what: int(frame[c].sum()) for c, what in _WHAT.items()}
    moved = []
    for sequence, (own, said) in _GUARDED.items():
        (letter,) = {ops for ops in switching.SEQUENCES[sequence] if len(ops) == 1}
        for p in newest_plays(calls, sequence):
            was, now = p.first[letter], p.last[letter]
            if was.calls != now.calls:
                moved.append(said)
                numbers[f"{p}, {own}, instructions"] = f"{was.total} to {now.total}"
    inexact = [f"{len(frame) - frame[c].sum()} do not {what}" for c, what in _WHAT.items() if not frame[c].all()]
    because = f"Of {len(frame)} removals {listed(inexact) or 'all restore everything'}."
    if inexact:
        because = f"{because[:-1]}; all else is as before, to the byte."
    if moved:
        because += f" So {', and '.join(dict.fromkeys(moved))}."
    return Verdict(kind, because, numbers, on)


def _with_pointer(frame: pd.DataFrame) -> list[str]:
    """The ISAs that have the ops pointer in some release shown."""
    return list(dict.fromkeys(frame["isa"][frame["call_ops"]]))


_WHAT = {
    "site": "restore the patch site",
    "literal": "restore the ops pointer beside it",
    "text": "restore all other code",
    "idle": "lead back to the booted code",
}
#: Sequences of `switching` in which two ops differ in the recursion guard -> whose call is looked at, and what happens to it.
_GUARDED = {
    "guarded leaves": ("a plain ops' call", "a plain ops stays on the list function when a guarded one has come and gone"),
    "guarded stays": ("a guarded ops' call", "a guarded one loses its guard when a plain one has"),
}
