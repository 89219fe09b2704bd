"""How does it go wrong? The shortest schedules that end badly, step by step."""

from __future__ import annotations

import functools

import pandas as pd

from tramplab.base.width import INDENTED_WIDTH
from tramplab.races import explore, schedule
from tramplab.races.barriers import numbers_of
from tramplab.races.explore import Result
from tramplab.races.model.fetches import COHERENT
from tramplab.races.schedule import PATCHER, THREAD
from tramplab.races.schemes.schemes import scheme
from tramplab.races.strips import START, strips

from ...publish.figures.figure import Figure
from ...publish.stepper.stepper import Notes, Stepper, stepper
from ..memo import once
from .patching import LIMITS

NAME = "schedules"
TITLE = "The shortest schedules that end badly"
#: Figure -> the scheme whose schedule it shows, and the wait that is left out; CPUs see all text at once, so that only the order of
#: steps is to blame.
SHOWN = {
    "fig-preempted-first": ("riscv64-pair16-preempt", ""),
    "fig-preempted-target": ("riscv64-pair-target", ""),
    "fig-another-ops": ("arm64-common", ""),
    "fig-image-freed": ("arm64-fexit", "percpu_ref_kill"),
}

#: Figure -> what to look for.
WATCH = {
    "fig-preempted-first": "Watch ra: no AUIPC writes it, and the JALR jumps to an address that is made from the caller's.",
    "fig-preempted-target": "Watch t0: it holds the upper half of the old target's address when the thread executes the new JALR.",
    "fig-another-ops": "Watch x2: it still holds a, the ops that was removed, when the thread calls b's callback.",
    "fig-image-freed": "Watch the thread: it sleeps in the function through each wait for tasks, and returns into freed memory.",
}
#: Figure -> what is said of which step; see publish/stepper/stepper.py. What must not happen is said of the last by itself.
NOTES: dict[str, Notes] = {
    "fig-preempted-first": {
        THREAD: {
            (START, "nop"): "The first of four NOPs. It is preempted after the second, where the AUIPC is to be.",
        },
        PATCHER: {
            (START, "stop_machine"): "Stops CPUs. The thread is on none.",
            (START, "write 16 B: three_args"): "A store, AUIPC, JALR and a load in place of the NOPs.",
            (START, "fence.i"): "The resumed thread fetches the JALR, which takes half of its target from ra.",
        },
    },
    "fig-preempted-target": {
        THREAD: {(START, "auipc"): "The upper half of the way to ftrace_caller is in t0, and it is preempted."},
        PATCHER: {
            (START, "write 8 B"): "Another AUIPC and another JALR: both halves are of another address.",
            (START, "fence.i"): "A thread that resumes at the second instruction executes the new one.",
        },
    },
    "fig-another-ops": {
        PATCHER: {
            (START, "write 32 B"): "b comes: while both are on the function, the common trampoline calls the list function.",
            (START, "write 8 B: the ops leaves"): "a goes. It is off the list, and b can be called without it.",
            (START, "write 8 B: the ops that"): "The variable says b from now on.",
            (START, "ftrace_sync_ipi"): "Every CPU sees it. No thread that has loaded it before loads it again.",
            (START, "write 4 B: the function"): "b's callback in place of the list function.",
        },
        THREAD: {
            (START, "ldr x2"): "What will be passed as the ops: a, which the list function would have ignored.",
        },
    },
    "fig-image-freed": {
        THREAD: {
            (START, "sleeps"): "It switches by itself, and Tasks RCU waits for it no more. Its return address is in the image.",
        },
        PATCHER: {
            (START, "write 4 B: three_args: nobody"): "From now on nobody enters the image.",
        },
    },
}


@functools.cache
def _found(name: str, without: str) -> Result:
    """The result of exploring a scheme without one of its waits, with one thread."""
    subject = scheme(name).subject()
    result = explore(subject, 1, COHERENT, numbers_of(subject, [without] if without else []))
    assert result.violation, "what is shown as bad is found to be safe"
    return result


@once
def rows() -> pd.DataFrame:
    """One row per line of a schedule: scheme, hypothetical, first, last (numbers of its steps), who (PATCHER or THREAD), where
    (symbol+offset), does, and on the last line of each, wrong: what must not happen."""
    records = []
    for name, without in SHOWN.values():
        found = _found(name, without)
        lines = schedule.lines(found)
        for number, line in enumerate(lines, 1):
            wrong = str(found.violation) if number == len(lines) else ""
            head = {"scheme": name, "hypothetical": bool(scheme(name).hypothetical), "first": line.first, "last": line.last}
            records.append({**head, "who": line.who, "where": line.where, "does": line.text, "wrong": wrong})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = {}
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Steps, and who does what in as many words as fit."""
    parts = [f"{r.where}: {r.does}" if r.where else r.does for r in frame.itertuples()]
    printed = pd.DataFrame({"steps": _steps(frame), "who": list(frame["who"]), "does": [_cut(text) for text in parts]})
    printed.attrs["units"] = {}
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    parts = [table(part).assign(isa=name) for name, part in frame.groupby("scheme", sort=False)]
    return pd.concat(parts)[["isa", "steps", "who", "does"]]


def steps(figure_id: str) -> Stepper:
    """The schedule of a figure to step through, with what goes wrong at its end."""
    found = _found(*SHOWN[figure_id])
    patcher, thread = strips(found)
    last, at = list(thread["milestones"].items())[-1]
    end = {(last, len(thread["steps"]) - at - 1): f"{found.violation}."}
    notes = NOTES[figure_id]
    told = schedule.text(found, width=INDENTED_WIDTH)
    return stepper([patcher, thread], notes | {THREAD: notes[THREAD] | end}, WATCH[figure_id], told)


def _steps(frame: pd.DataFrame) -> list[str]:
    return [f"{r.first}" if r.first == r.last else f"{r.first}-{r.last}" for r in frame.itertuples()]


def _cut(text: str, wide: int = 46) -> str:
    return text if len(text) <= wide else f"{text[: wide - 3]}..."


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: how many steps each takes, "riscv64-pair-target-steps", and its end, "riscv64-pair-target-ends"."""
    out: dict[str, object] = {f"{name}-steps": int(last) for name, last in frame.groupby("scheme")["last"].max().items()}
    return out | {f"{r.scheme}-ends": r.wrong.partition(":")[0] for r in frame[frame["wrong"] != ""].itertuples()}


def _figure(figure_id: str, question: str) -> Figure:
    name, _ = SHOWN[figure_id]
    return Figure(
        figure_id,
        question,
        rows=lambda frame: frame[frame["scheme"] == name].reset_index(drop=True),
        table=table,
        body=lambda frame: steps(figure_id),
        limits=LIMITS,
        kind="search",
        hypothetical=bool(scheme(name).hypothetical),
    )


FIGURES = (
    _figure("fig-preempted-first", "How was a thread lost that was preempted between two NOPs?"),
    _figure("fig-preempted-target", "How is a thread lost that was preempted between AUIPC and JALR? *"),
    _figure("fig-another-ops", "How is a callback called with another one's ops?"),
    _figure("fig-image-freed", "How is a BPF trampoline freed while its function sleeps?"),
)
