"""What happens to a function's hook as ops come and go."""

from __future__ import annotations

import itertools

import pandas as pd

from tramplab.emulate.counting.counts import COMPONENTS
from tramplab.ftrace import releases

from ....publish.figures.chart import state_strip, theme
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.every_release import every_release
from ...shared.merged_panels import merged
from . import backing_out, observing
from .attached import Hooked
from .plays import Play, newest_plays, plays

NAME = "switching"
TITLE = "One function while ops come and go"
#: What is attached after each change, in order of attaching; letters are those of attached.request(). "d (a)": both, but
#: the patch site is made to hold what it held for d alone, as if d owned it.
SEQUENCES = {
    "plain": ("", "a", "a b", "a", ""),
    "registers": ("", "a", "a r", "a r s", "a r", "a", "", "r", ""),
    "direct": ("", "d", "d a", "d (a)", "d a", "d", ""),
    "guarded leaves": ("", "a", "a g", "a", ""),
    "guarded stays": ("", "g", "g a", "g", ""),
}
UNITS = dict.fromkeys((*COMPONENTS, "total"), "insns")
LIST = "ftrace_ops_list_func"
#: The ISA that makes a trampoline for a single ops, and in 2021 was the one that BPF's trampolines were called from.
SAID_OF = "x86_64"


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, sequence and step: the state of the patch site, and what one call of the function did.

    Columns: isa, release, sequence, step, ops (what is attached, in order), count and flags (of the record), site_bytes,
    literal (whose ops the site points at: a letter, or a symbol; empty without CALL_OPS), target (of the patch site),
    calls (what the trampoline calls), saved (general registers of the caller in the frame that callbacks are handed;
    empty with a direct call), stores (by the trampoline before it calls), ran (whose callbacks, in order), right (is the
    result that of the unhooked call?), instructions by component and in total. A sequence that needs what a release never
    had is left out.
    """
    frame = pd.DataFrame(every_release(_played)).astype({"saved": "Int64"})
    frame.attrs["units"] = UNITS
    return frame


def _played(isa: str, release: str) -> list[dict]:
    """Every sequence; none that needs what the release never had."""
    records = []
    for name, states in SEQUENCES.items():
        subject = Hooked(isa, release)
        if subject.can("".join(states)):
            records += [{"sequence": name, **row} for row in _play(subject, states)]
    return records


def _play(subject: Hooked, states: tuple[str, ...]) -> list[dict]:
    """Bring a subject into each state in turn, and observe it there."""
    records: list[dict] = []
    alone = (b"", b"")
    for step, state in enumerate(states):
        if "(" in state:
            shared = subject.held
            subject.hold(*alone)
            seen = subject.observe()
            subject.hold(*shared)
        else:
            subject.reach(state)
            alone = subject.held if state == "d" else alone
            seen = subject.observe()
        records.append({"step": step, "ops": state, **seen})
    return records


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The steps in order, each sequence from its unhooked start; "regs" are those saved for callbacks."""
    ends = (frame["ops"] == "") & (frame["sequence"] != frame["sequence"].shift(-1))
    part = frame[~ends]
    shown = part[["ops", "target", "calls", "saved", "ran", "total"]].replace("", pd.NA)
    shown = shown.rename(columns={"saved": "regs"})
    shown.insert(0, "isa", part["isa"] + " " + part["release"])
    shown["calls"] = shown["calls"].str.removesuffix("_far")
    shown.attrs["units"] = UNITS
    return shown


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: of releases that behave alike only the last."""
    behaviour = ["sequence", "step", "ops", "literal", "target", "calls", "saved", "ran"]
    parts = []
    for _, part in frame.groupby("isa", sort=False):
        kinds = [(lines, lines[behaviour].to_csv(index=False)) for _, lines in part.groupby("release", sort=False)]
        parts += [a[0] for a, b in itertools.zip_longest(kinds, kinds[1:]) if b is None or a[1] != b[1]]
    return table(pd.concat(parts))


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last release."""
    part = frame[frame["release"] == releases.LATEST]
    part.attrs["units"] = UNITS
    return part


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions of a call in the newest release, by ISA, sequence and step (from 0), by names like
    "arm64-guarded-leaves-3-total", and "-added", more than the unhooked call. Of all releases, by sequence, "direct-plays" and
    "direct-as-said", those in which the claim on it is so; "x86_64-plain-saved" and "-beside-saved", registers that a plain ops is
    passed, alone and beside one that wants all, in the last release with a trampoline for that. Besides, the numbers of removals
    and of what an observer sees."""
    last = newest(frame)
    keys = zip(last["isa"], last["sequence"].str.replace(" ", "-"), last["step"].astype(str) + "-total", strict=True)
    totals = dict(zip(map("-".join, keys), map(int, last["total"]), strict=True))
    for name, total in list(totals.items()):
        idle = totals[name.rpartition("-")[0].rpartition("-")[0] + "-0-total"]
        totals[name.removesuffix("total") + "added"] = total - idle
    values: dict[str, object] = {**totals}
    for sequence, as_said in _AS_SAID.items():
        found = [p for p in plays(frame, sequence) if sequence != "plain" or p.isa == SAID_OF]
        values |= {f"{sequence}-plays": len(found), f"{sequence}-as-said": sum(map(as_said, found))}
    for p in newest_plays(frame, "registers"):
        values |= {f"{p.isa}-plain-saved": int(p.first["a"].saved), f"{p.isa}-beside-saved": int(p.first["a r"].saved)}
    return values | backing_out.numbers(backing_out.rows()) | observing.numbers(observing.rows())


def _registers_are_shared(p: Play) -> bool:
    """Beside one ops that wants all registers, a plain one is passed the same; they are stored once for all callbacks."""
    plain, wanting, two, three = (p.first[ops] for ops in ("a", "r", "a r", "a r s"))
    shared = two.saved == three.saved == wanting.saved > plain.saved
    once = two.stores == three.stores == wanting.stores
    return bool(shared and once and two.ran == "r a" and three.ran == "s r a")


def _list_comes_and_goes(p: Play) -> bool:
    """A lone ops has a trampoline of its own; a second one brings the common one and the list; without it, all is back."""
    one, two, back = p.first["a"], p.first["a b"], p.last["a"]
    own = one.target.startswith("ftrace_trampoline[") and one.calls != LIST
    common = not two.target.startswith("ftrace_trampoline[") and two.calls == LIST
    return own and common and (back.target, back.calls) == (one.target, one.calls)


def _direct_call_shares(p: Play) -> bool:
    """A direct call and an ops both run; with the site held by the direct call alone, the ops does not."""
    alone, both, held = p.first["d"], p.first["d a"], p.first["d (a)"]
    shares = alone.ran == "d" and sorted(both.ran.split()) == ["a", "d"] and both.right
    return bool(shares and held.ran == "d" and held.right)


_AS_SAID = {"registers": _registers_are_shared, "plain": _list_comes_and_goes, "direct": _direct_call_shares}


def strip(frame: pd.DataFrame) -> pd.DataFrame:
    """Where the patch site and the trampoline lead while a second ops joins a first one and leaves: a lane for two plain ones, for
    a guarded one that joins, and for a guarded one that was first, or one lane where they are the same; one row per ISA, step and
    lane."""
    records = []
    for isa, part in frame.groupby("isa", sort=False):
        lanes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for sequence, kind in _JOINING.items():
            played = part[part["sequence"] == sequence]
            for lane, column in (("site", "target"), ("calls", "calls")):
                states = tuple(_in_words(state) for state in played[column])
                if sequence == "guarded stays":  # only a guard is to call its callback
                    states = tuple(UNGUARDED if state == "lab_callback" else state for state in states)
                lanes.setdefault((lane, states), []).append(kind)
        steps = [_in_steps(ops, n) for n, ops in enumerate(SEQUENCES[next(iter(_JOINING))], 1)]
        for (lane, states), kinds in sorted(lanes.items(), key=lambda item: list(_JOINING.values()).index(item[1][0])):
            name = lane if len(kinds) == len(_JOINING) else f"{lane}, {' or '.join(kinds)}"
            records += [{"isa": isa, "step": s, "lane": name, "state": state} for s, state in zip(steps, states, strict=True)]
    return pd.DataFrame(records)


#: The callback of an ops that asked for a guard is called without it.
UNGUARDED = "lab_callback, unguarded"
#: Sequences in which another ops joins a first one and leaves: what their lane is called.
_JOINING = {"plain": "both plain", "guarded leaves": "other guarded", "guarded stays": "first guarded"}


def _in_steps(ops: str, n: int) -> str:
    """A state by its number and what is attached."""
    return f"{n}: {' + '.join('other' if letter == 'b' else 'first' for letter in ops.split()) or 'none'}"


def _in_words(symbol: str) -> str:
    """A symbol, or what stands for it where a block has no room."""
    return "nothing" if not symbol else "own copy" if symbol.startswith("ftrace_trampoline[") else symbol


FIGURES = (
    Figure(
        "fig-switching",
        f"Where does a call go while ops come and go? ({releases.LATEST})",
        rows=newest,
        chart=lambda frame: state_strip(meanings={UNGUARDED: theme.WRONG})(merged(strip(frame))),
        table=table,
        alt="A panel for x86-64, and one for arm64 and riscv64 together: where the patch site leads and what is called from "
        "there, step by step, while a second ops joins a plain one and leaves; once a plain one, once one with the "
        "recursion guard, in one lane where both are the same. The table has every step.",
        limits="Emulated counts of instructions in one call of a three-argument function; no timing. a, b: plain ops; r, s: "
        "want all registers; g: wants the recursion guard; d: direct call, near but on riscv64; d (a): both registered, "
        "site forced to d. regs: general registers handed to callbacks.",
    ),
)
