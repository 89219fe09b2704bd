"""Instruction by instruction: which frames does a stack trace have while a hook runs?"""

from __future__ import annotations

import itertools

import pandas as pd

from tramplab.unwind.stacks import DOUBLED, FP, MISSING, RETURNED, RIGHT, WRONG

from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from . import stack_calls
from .stack_calls import ABSENT, ASLEEP, BODY, CALLED, FRAMES, FTRACE, RETURN, SITE, C

NAME = "stack_map"
TITLE = "Which frames a stack trace has, instruction by instruction"
#: The hooks in the chart: on arm64, by direct call, and by fprobe with its return hooked.
DRAWN = ("fentry", "fexit", "fprobe exit")
LETTERS = {RIGHT: "R", DOUBLED: "D", MISSING: "M", WRONG: "W", RETURNED: "-"}
MEANINGS = {RIGHT: theme.RIGHT, DOUBLED: theme.NOTICED, MISSING: theme.WRONG, WRONG: theme.WRONG, RETURNED: theme.PLAIN}
#: Stretches in a line of the golden table.
A_LINE = 6
#: Component -> its name in the chart.
_SHORT = {FTRACE: "ftrace", CALLED: "direct", RETURN: "exit", C: "C", BODY: "body"}
_NAMES = {"function": "traced", "caller": "caller", "outer": "its caller"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way of unwinding, hook, whether hooked returns are looked up, and stretch of the call, in the order in
    which it runs: instructions of one symbol, or of C code, of which traces say the same of every frame.

    Columns: isa, unwound, variant, hypothetical, recovered, step (from 1), place (the site, the function, a symbol, or "C code"),
    code (whose that is, see stack_calls), boundaries, function, caller, outer: see stack_calls.rows().
    """
    frame = stack_calls.rows()
    frame = frame[frame["where"] != ASLEEP]
    frame = frame.assign(place=[_place(r) for r in frame.itertuples()])
    keys, records = ["isa", "unwound", "variant", "hypothetical", "recovered"], []
    for key, group in frame.groupby(keys, sort=False):
        columns = ["place", "code", *FRAMES]
        parts = itertools.groupby(group.to_dict("records"), key=lambda r: tuple(r[name] for name in columns))
        for step, (about, part) in enumerate(parts, 1):
            head = dict(zip(keys, key, strict=True)) | {"step": step}
            records.append({**head, **dict(zip(columns, about, strict=True)), "boundaries": sum(r["boundaries"] for r in part)})
    found = pd.DataFrame(records)
    found.attrs["units"] = {}
    return found


def _place(r: object) -> str:
    """The place of an instruction, as a reader calls it."""
    where, code, symbol = (getattr(r, name) for name in ("where", "code", "symbol"))
    if where in (SITE, BODY):
        return str(where)
    return str(code) if code == C else str(symbol).partition("[")[0]


def of(frame: pd.DataFrame, isa: str, variant: str, unwound: str = FP, recovered: bool = True) -> pd.DataFrame:
    """The stretches of one call."""
    keys = {"isa": isa, "variant": variant, "unwound": unwound, "recovered": recovered}
    return frame[(frame[list(keys)] == list(keys.values())).all(axis=1)]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per stretch: where, how many instructions, and what is found of each frame."""
    out = frame.assign(isa=stack_calls.named(frame))[["isa", "step", "place", "boundaries", *FRAMES]]
    return out.rename(columns={"boundaries": "count"}).reset_index(drop=True)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: per call, its stretches in a line of letters for the three frames, with their
    lengths."""
    letters = {**LETTERS, ABSENT: "."}
    items = []
    keys = ["isa", "unwound", "variant", "recovered"]
    for (isa, unwound, variant, recovered), group in frame.groupby(keys, sort=False):
        kept = [("".join(letters[getattr(r, name)] for name in FRAMES), r.boundaries) for r in group.itertuples()]
        parts = [(said, sum(n for _, n in part)) for said, part in itertools.groupby(kept, key=lambda x: x[0])]
        name = variant + ("" if recovered else ", not looked up")
        for n in range(0, len(parts), A_LINE):
            line = " ".join(f"{said}{count}" for said, count in parts[n : n + A_LINE])
            items.append({"isa": f"{isa} {unwound}", "variant": "" if n else name, "frames": line})
    return pd.DataFrame(items)


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per stretch and frame of the calls that the chart shows; `isa` names the hook."""
    records = []
    for variant in DRAWN:
        chosen = of(frame, "arm64", variant)
        for r, name in zip(chosen.itertuples(), stack_calls.named(chosen), strict=True):
            row = f"{r.step} {_SHORT.get(r.code, r.code)}, {r.boundaries}"
            records += [{"isa": name, "row": row, "frame": _NAMES[f], "state": getattr(r, f)} for f in FRAMES]
    return pd.DataFrame(records)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, of the calls that are drawn: "fexit-total" instructions, and "fexit-caller-found" of them, the
    others "fexit-caller-hidden"."""
    values: dict[str, object] = {}
    for variant in DRAWN:
        chosen, key = of(frame, "arm64", variant), slug(variant)
        values[f"{key}-total"] = total = int(chosen["boundaries"].sum())
        found = int(chosen["boundaries"][chosen["caller"] == RIGHT].sum())
        values |= {f"{key}-caller-found": found, f"{key}-caller-hidden": total - found}
    return values


FIGURES = (
    Figure(
        "fig-stacks-map",
        "Which frames does a trace have while a hook runs? (arm64)",
        rows=lambda frame: pd.concat([of(frame, "arm64", variant) for variant in DRAWN], ignore_index=True),
        chart=lambda frame: heat_map("state", rows="row", columns="frame", meanings=MEANINGS, letters=LETTERS)(drawn(frame)),
        table=table,
        alt="A panel per hook: from top to bottom the stretches of a call in the order in which they run, each with its number of "
        "instructions; in the columns the traced function, its caller and that one's, with a letter for what a trace taken there "
        "has of it.",
        limits="Emulated calls, unwound by frame pointers before every instruction; hooked returns are looked up.",
        hypothetical=True,
    ),
)
