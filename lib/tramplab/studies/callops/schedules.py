"""How does it go wrong? The shortest schedules that end badly, step by step."""

from __future__ import annotations

import pandas as pd

from ...analyse.races import explore, schedule
from ...analyse.races.fetches import COHERENT
from ...analyse.races.schedule import PATCHER, THREAD
from ...analyse.races.schemes import scheme
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.said import HYPOTHETICAL
from ..once import once
from .patching import LIMITS

NAME = "schedules"
TITLE = "The shortest schedules that end badly"
#: Figure -> the scheme whose schedule it shows; CPUs see all text at once, so that only the order of steps is to blame.
SHOWN = {
    "fig-preempted-first": "riscv64-pair-preempt",
    "fig-preempted-target": "riscv64-pair-target",
    "fig-another-ops": "arm64-common",
}


@once
def rows() -> pd.DataFrame:
    """One row per line of a schedule: scheme, hypothetical, first, last (numbers of its steps), who (PATCHER or THREAD), where
    (symbol+offset), does, and on the last line of each, wrong: what must not happen."""
    out = []
    for name in SHOWN.values():
        chosen = scheme(name)
        found = explore(chosen.subject(), 1, COHERENT)
        assert found.violation, "what is shown as bad is found to be safe"
        lines = schedule.lines(found)
        for number, line in enumerate(lines, 1):
            wrong = str(found.violation) if number == len(lines) else ""
            head = {"scheme": name, "hypothetical": bool(chosen.hypothetical), "first": line.first, "last": line.last}
            out.append({**head, "who": line.who, "where": line.where, "does": line.text, "wrong": wrong})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = {}
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Steps, and who does what in as many words as fit."""
    said = [f"{r.where}: {r.does}" if r.where else r.does for r in frame.itertuples()]
    out = pd.DataFrame({"steps": _steps(frame), "who": list(frame["who"]), "does": [_cut(text) for text in said]})
    out.attrs["units"] = {}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    parts = [table(part).assign(isa=name) for name, part in frame.groupby("scheme", sort=False)]
    return pd.concat(parts)[["isa", "steps", "who", "does"]]


def body(frame: pd.DataFrame) -> Body:
    """Two columns, the patcher's and the thread's."""
    said = [f"{r.where}: {r.does}" if r.where else r.does for r in frame.itertuples()]
    cells = {who: [text if w == who else "" for text, w in zip(said, frame["who"], strict=True)] for who in (PATCHER, THREAD)}
    whole = pd.DataFrame({"step": _steps(frame), **cells})
    end = pd.DataFrame([{"step": "", PATCHER: "", THREAD: frame["wrong"].iloc[-1]}])
    return Grid(pd.concat([whole, end], ignore_index=True), f"The schedule of {frame['scheme'].iloc[0]}")


def _steps(frame: pd.DataFrame) -> list[str]:
    return [f"{r.first}" if r.first == r.last else f"{r.first}-{r.last}" for r in frame.itertuples()]


def _cut(text: str, wide: int = 46) -> str:
    return text if len(text) <= wide else f"{text[: wide - 3]}..."


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: how many steps each takes, "riscv64-pair-target-steps"."""
    return {f"{name}-steps": int(last) for name, last in frame.groupby("scheme")["last"].max().items()}


def _answer(frame: pd.DataFrame) -> str:
    """What happens at the end, after how many steps."""
    _, _, how = str(frame["wrong"].iloc[-1]).partition(": ")
    return f"After {int(frame['last'].max())} steps {how}."


def _figure(figure_id: str, question: str) -> Figure:
    name = SHOWN[figure_id]
    hypothetical = bool(scheme(name).hypothetical)
    return Figure(
        figure_id,
        question,
        rows=lambda frame: frame[frame["scheme"] == name].reset_index(drop=True),
        table=table,
        body=body,
        answer=_answer,
        limits=f"{LIMITS} {HYPOTHETICAL if hypothetical else ''}".strip(),
    )


FIGURES = (
    _figure("fig-preempted-first", "How is a thread lost that was preempted between two NOPs? *"),
    _figure("fig-preempted-target", "How is a thread lost that was preempted between AUIPC and JALR? *"),
    _figure("fig-another-ops", "How is a callback called with another one's ops?"),
)
