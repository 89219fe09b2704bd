"""Do the findings hold on booted kernels? What the trials read on Debian's, as saved from boots under QEMU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tramplab.boot import replays_saved, saved
from tramplab.boot.plan import READ
from tramplab.boot.readings import Executed, Hits, Line, Module, Panic, Reading, Refused, first, those
from tramplab.boot.trials import DEEP, MANY, SIZES
from tramplab.isa import ISAS

from ...publish.figures.chart import heat_map
from ...publish.figures.chart.theme import NOTHING, RIGHT, WRONG
from ...publish.figures.figure import Figure
from ...publish.findings import findings
from ...publish.phrases import isa_name, slug
from ..memo import once

NAME = "found"
TITLE = "Findings, tried on booted kernels"
SEEN, NOT_SEEN, ABSENT = "seen", "not seen", "no such thing"
MEANINGS = {SEEN: WRONG, NOT_SEEN: RIGHT, ABSENT: NOTHING}
SIGNS = {SEEN: "\N{BLACK CIRCLE}", NOT_SEEN: "\N{WHITE CIRCLE}", ABSENT: ""}
#: Faults as the figure calls them, in the order of the page.
NAMES = {
    "guard-lost-overflows": "lost guard",
    "taken-for-user-mode": "user mode",
    "nmissed-was-honest": "nmissed",
    "list-not-ended": "list's end",
    "graph-hides-callers": "hidden callers",
    "segment-is-old-stack": "old segment",
    "callee-hides-caller": "return window",
    "entry-is-refused": "first byte",
    "apart-on-booted-kernels": "another's ops",
}
_BODY = "sys_getpid"  # the end of the name of the function that calls what is probed
#: Two fprobes, each with a handler at entry and return.
_HANDLERS = 4
#: What a trial read under a label.
Tried = Sequence[Reading]


@dataclass(frozen=True)
class _Read:
    """A verdict on one kernel, and the reading that decides it in words."""

    verdict: str
    words: str


_Judge = Callable[[dict[str, Any]], _Read]


def _refused(read: Tried) -> str:
    """The error with which a kernel refused a step, "" for none."""
    return next((one.error for one in those(Refused, read)), "")


def _of(seen: bool, words: str) -> _Read:
    return _Read(SEEN if seen else NOT_SEEN, words)


def _tried(trial: str, labels: Sequence[str], judge: Callable[..., _Read], isa: str = "") -> _Judge:
    """The judge of a finding, by what a trial read under these labels; ABSENT if the kernel refused it. isa: the only one that has
    such a thing."""

    def verdict(found: dict[str, Any]) -> _Read:
        if isa and found["kernel"]["isa"] != isa:
            return _Read(ABSENT, "no code segment")
        readings = [saved.tried(found, trial, label) for label in labels]
        if error := _refused(readings[0]):
            return _Read(ABSENT, error)
        return judge(*readings)

    return verdict


def _guard(*readings: Tried) -> _Read:
    guarded, after, none = (first(Executed, read).instructions for read in readings)
    return _of(after < guarded, f"{guarded - none}, then {after - none}")


def _overflow(read: Tried) -> _Read:
    panics = those(Panic, read)
    return _of(bool(panics), panics[0].text.rpartition(": ")[2] if panics else f"{first(Module, read).called} calls")


def _user_calls(read: Tried) -> int:
    """How many of READ calls an event counts as the user's, which is what its second half reads."""
    return those(Hits, read)[-1].event


def _user(read: Tried) -> _Read:
    calls = _user_calls(read)
    return _of(calls > 0, f"{calls} of {READ}")


def _history(before: Tried, after: Tried) -> _Read:
    was, then = _user_calls(before), _user_calls(after)
    return _of(was != then, f"{was}, then {then} of {READ}")


def _stack(read: Tried) -> _Read:
    size = first(Hits, read).programs
    return _of(size == 0, f"{size} bytes")


def _inside(read: Tried) -> _Read:
    """The verdict on calls of the function by its handler: as each run makes one, there is one call more than there are runs."""
    missed = first(Module, read).missed
    return _of(missed == 0, f"1 lost, nmissed {missed}")


def lost(read: Module) -> tuple[int, int]:
    """Calls that two fprobes on DEEP calls in each other lost, for each of them, and the calls that they say they missed."""
    return (_HANDLERS * DEEP - read.called) // 2, read.missed


def _nested(*readings: Tried) -> _Read:
    all_lost = [lost(first(Module, read)) for read in readings]
    silent = [(gone, said) for gone, said in all_lost if said < gone]
    gone, said = max(silent, key=lambda pair: pair[0] - pair[1]) if silent else max(all_lost)
    return _of(bool(silent), f"{gone} lost, nmissed {said}")


def _list(_: Tried, other: Tried) -> _Read:
    handlers = first(Module, other).odd
    return _of(handlers > 0, f"{handlers} of another's")


def _segment(zeros: Tried, ones: Tried) -> _Read:
    old, new = (first(Module, read).odd for read in (zeros, ones))
    return _of(old != new, f"{old}, then {new} of {READ}")


def _cut(zeros: Tried, ones: Tried) -> _Read:
    return _of(len(zeros) != len(ones), f"{len(zeros)} lines, then {len(ones)}")


def _hidden(read: Tried) -> _Read:
    """The verdict on a stack trace: has it the return trampoline in place of a caller?"""
    if not (lines := those(Line, read)):
        return _Read(ABSENT, "not read")
    hidden = any("return_to_handler" in line.text or "ftrace_stub_graph" in line.text for line in lines)
    return _of(hidden, "the trampoline" if hidden else "the caller")


def _window(read: Tried) -> _Read:
    names = [line.text.partition("+")[0] for line in those(Line, read)]
    if "ftrace_return_to_handler" not in names:
        return _Read(ABSENT, "no trace")
    after = names[names.index("ftrace_return_to_handler") + 1 :]
    if not after:
        return _Read(NOT_SEEN, "the trace ends there")
    there = any(name.endswith(_BODY) for name in after)
    return _of(not there, "the caller" if there else "the caller is missing")


def _entry(found: dict[str, Any]) -> _Read:
    error = saved.row(found, "kprobe").get("refused", "")
    return _of(bool(error), error or "accepted")


def _apart(found: dict[str, Any]) -> _Read:
    """Is a callback passed another's ops where a thread is held between ops and callback?"""
    kernel = next(one for one in replays_saved.read()["kernels"] if one["name"] == found["kernel"]["name"])
    came = [one["outcome"] for one in kernel["replays"]]
    return _of("apart" in came, "the kernel waits" if "waits" in came else "another's ops" if "apart" in came else "its own ops")


_PAIRS = [f"nested-{a}-{b}" for a in SIZES for b in SIZES if a <= b]
#: What is read, in a line -> its name in numbers, the fault that it is of, and what decides it.
_JUDGES: dict[str, tuple[str, str, _Judge]] = {
    "ops loses its guard": ("guard", "guard-lost-overflows", _tried("guard-lost", ("guarded", "plain-left", "none"), _guard)),
    "callback recurses": ("recursion", "guard-lost-overflows", _tried("guard-lost", ("calls-itself-after",), _overflow)),
    "perf says user mode": ("user-mode", "taken-for-user-mode", _tried("user-mode", ("fprobe-event",), _user)),
    "perf's mode by history": (
        "history",
        "taken-for-user-mode",
        _tried("user-mode", ("fprobe-event", "fprobe-event-after"), _history),
    ),
    "BPF: no kernel stack": ("no-stack", "taken-for-user-mode", _tried("user-mode", ("stack-kprobe-multi",), _stack)),
    "fprobe silent in handler": ("inside", "nmissed-was-honest", _tried("missed", ("inside-handler",), _inside)),
    "fprobe silent, nested": ("nested", "nmissed-was-honest", _tried("missed", _PAIRS, _nested)),
    "another's handler runs": ("list", "list-not-ended", _tried("list-not-ended", ("on-both", "other-called"), _list)),
    "old segment at return": (
        "segment",
        "segment-is-old-stack",
        _tried("old-segment", ("stack-00", "stack-ff"), _segment, "x86_64"),
    ),
    "which cuts a stack trace": (
        "cut",
        "segment-is-old-stack",
        _tried("old-segment", ("trace-00", "trace-ff"), _cut, "x86_64"),
    ),
    "trace hides a caller": ("graph", "graph-hides-callers", _tried("graph-stack", ("traced",), _hidden)),
    "a sleeper's trace, too": ("asleep", "graph-hides-callers", _tried("graph-stack", ("asleep",), _hidden)),
    "hidden at the return": ("window", "callee-hides-caller", _tried("return-window", ("return",), _window)),
    "kprobe at entry refused": ("entry", "entry-is-refused", _entry),
    "callback has other ops": ("apart", "apart-on-booted-kernels", _apart),
}


@once
def rows() -> pd.DataFrame:
    """One row per finding and plain kernel. Columns: finding, isa, release, version, verdict (SEEN, NOT_SEEN, ABSENT), read."""
    records = []
    for finding, (_, _, judge) in _JUDGES.items():
        for found in saved.every():
            kernel, said = found["kernel"], judge(found)
            head = {"finding": finding, "isa": kernel["isa"], "release": kernel["release"], "version": kernel["version"]}
            records.append({**head, "verdict": said.verdict, "read": said.words})
    frame = pd.DataFrame(records)
    return frame.sort_values("isa", key=lambda s: s.map(list(ISAS).index), kind="stable").reset_index(drop=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per finding and kernel: whether it was seen ("-": no such thing there), and what was read."""
    out = frame.assign(kernel=frame["isa"].map(isa_name) + " " + frame["release"])
    order = {finding: n for n, finding in enumerate(_JUDGES)}
    out = out.sort_values("finding", key=lambda s: s.map(order), kind="stable")
    out = out.assign(seen=out["verdict"].map({SEEN: "yes", NOT_SEEN: "no", ABSENT: "-"}))
    return out[["finding", "kernel", "seen", "read"]].reset_index(drop=True)


def _of_several(verdicts: Iterable[str]) -> str:
    return min(verdicts, key=list(MEANINGS).index)


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per fault of NAMES and kernel: seen where one of its readings shows it, and the section that the cell leads to."""
    out = frame.assign(id=frame["finding"].map(lambda one: _JUDGES[one][1]))
    out = out.groupby(["id", "isa", "release"], sort=False)["verdict"].agg(_of_several).reset_index()
    out = out.sort_values("id", key=lambda ids: ids.map(list(NAMES).index), kind="stable")
    return out.assign(finding=out["id"].map(NAMES), section=out["id"].map(lambda one: findings.get(one).section))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """The verdicts, "arm64-v7-2-guard", what was read, "arm64-v7-2-guard-read", and readings as numbers: what a guarded ops adds,
    and adds later; what an ops with the RCU flag adds, and adds later, and so the graph tracer; of ten calls those that an event
    counts after another one, those whose code segment is not 0, and the lines of a stack trace, after zeros and after ones, and the
    same of kernels with a fix and without; the waits for a link on five functions, "arm64-v7-2-many-5"."""
    out: dict[str, object] = {}
    for row in frame.itertuples():
        name = slug(f"{row.isa} {row.release} {_JUDGES[row.finding][0]}")
        out[name], out[f"{name}-read"] = row.verdict, row.read
    for found in saved.every():
        kernel = slug(f"{found['kernel']['isa']} {found['kernel']['release']}")
        none = first(Executed, saved.tried(found, "guard-lost", "none")).instructions
        out |= _segments(kernel, found)
        for label in ("plain", "guarded", "plain-left", "guarded-left"):
            out[f"{kernel}-{label}-added"] = first(Executed, saved.tried(found, "guard-lost", label)).instructions - none
        none = first(Executed, saved.tried(found, "second-leaves", "none")).instructions
        for label in ("rcu", "rcu-left", "tracer-left", "graph", "graph-both", "graph-left"):
            read = saved.tried(found, "second-leaves", label)
            out[f"{kernel}-{label}-adds"] = _refused(read) or round(first(Executed, read).instructions - none)
        for n in MANY:
            read = saved.tried(found, "many-functions", f"on-{n}")
            out[f"{kernel}-many-{n}"] = _refused(read) or first(Module, read).called
        after = saved.tried(found, "user-mode", "fprobe-event-after")
        out[f"{kernel}-user-mode-after"] = _refused(after) or _user_calls(after)
    for found in saved.segment_fix():
        out |= _segments("fixed" if found["fixed"] else "as-is", found)
    out |= {"size-least": min(SIZES), "size-most": max(SIZES), "deep": DEEP}
    kernels = frame.groupby("finding", sort=False)["verdict"].agg(lambda verdicts: int((verdicts == SEEN).sum()))
    return out | {f"seen-{_JUDGES[finding][0]}": int(n) for finding, n in kernels.items()}


def _segments(kernel: str, found: dict[str, Any]) -> dict[str, object]:
    """Returns whose code segment is not 0, and lines of a stack trace, by what the stack held."""
    stacks = {label: saved.tried(found, "old-segment", label) for label in ("stack-00", "stack-ff")}
    traces = ("trace-00", "trace-ff", "trace-untouched")
    out: dict[str, object] = {f"{kernel}-{label}": _refused(read) or first(Module, read).odd for label, read in stacks.items()}
    return out | {f"{kernel}-{label}": len(saved.tried(found, "old-segment", label)) for label in traces}


_CHART = heat_map("verdict", "finding", "release", meanings=MEANINGS, letters=SIGNS, signs=True, link="section")
FIGURES = (
    Figure(
        "fig-found",
        "Do the findings hold on booted kernels?",
        chart=lambda frame: _CHART(drawn(frame)),
        table=table,
        alt="A panel per ISA, a line per finding, a column per release of Debian's kernels: a full circle where it was seen, an "
        "empty one where not, and nothing where there is no such thing.",
        limits="Read on Debian's kernels, booted under QEMU without mitigations and KASLR, on one CPU, the last fault on two.",
        source="booted",
        kind="tried",
    ),
)
