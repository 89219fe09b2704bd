"""Is a stack trace right while a function's return is hooked, and do return hooks break what claim k7 says they break?"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from tramplab.isa import ISAS
from tramplab.returns.mechanisms import FEXIT, RETHOOK, newest, spoken
from tramplab.unwind.stacks import DOUBLED, MISSING, RIGHT, WRONG

from ....publish.claims.verdict import Verdict, across, judges
from ....publish.figures.chart import heat_map
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name, listed, on_each, slug
from ....publish.table import pivot
from ...direct.stacks.stack_traces import MEANINGS, SAID, fewest_first
from ...memo import once
from . import predicted, unwound_calls
from .unwound_calls import ENTRY, EXIT, PLACES, SLEEPING

NAME = "return_unwound"
TITLE = "Stack traces while a function's return is hooked"
#: Worst state of a trace -> the column in which it counts.
COUNTS = {RIGHT: "right", DOUBLED: "doubled", MISSING: "lost", WRONG: "wrong"}
#: Places of a trace in the chart: in both handlers, and of a task that sleeps in the function.
DRAWN = (ENTRY, SLEEPING, EXIT)
_WORST = (WRONG, MISSING, DOUBLED, RIGHT)


@once
def rows() -> pd.DataFrame:
    """One row per ISA, case, whether hooked returns are looked up, and place of the trace.

    Columns: isa, name, release, recovered, real (so does the kernel's unwinder), pair (two on one function), hooks (a return is
    hooked), place, boundaries (instructions), right, doubled, lost, wrong (at how many that is the worst of a frame), refused (at
    how many the chain ended early or in a guess, so that a reliable walk gives up), worst (of all of them).
    """
    return counted(unwound_calls.rows())


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows from those of unwound_calls."""
    keys, records = ["isa", "name", "release", "recovered", "real", "pair", "hooks", "place"], []
    for key, part in frame.groupby(keys, sort=False):
        sums = {name: int(part.loc[part["worst"] == state, "boundaries"].sum()) for state, name in COUNTS.items()}
        refused = int(part.loc[(part["error"] != "") | part["guessed"], "boundaries"].sum())
        worst = next(state for state in _WORST if state in set(part["worst"]))
        total = int(part["boundaries"].sum())
        records.append({**dict(zip(keys, key, strict=True)), "boundaries": total, **sums, "refused": refused, "worst": worst})
    found = pd.DataFrame(records)
    found["at"] = found["place"].map(PLACES.index)
    order = {name: n for n, name in enumerate(dict.fromkeys(zip(frame["isa"], frame["name"], frame["recovered"], strict=True)))}
    found["case"] = [order[key] for key in zip(found["isa"], found["name"], found["recovered"], strict=True)]
    found = found.sort_values(["case", "at"], ignore_index=True).drop(columns=["case", "at"])
    found.attrs["units"] = {}
    return found


# --- What is shown


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA, mechanism or two on one function, and place of DRAWN, with the worst that happens there as the newest kernel
    unwinds; those with which the fewest lose a frame come first."""
    pairs = frame[frame["pair"] & frame["real"]]
    part = pd.concat([_newest(frame), pairs.assign(mechanism=pairs["name"])])
    part = part[part["place"].isin(DRAWN) & (part["mechanism"] != RETHOOK)]
    part = part.assign(hook=part["mechanism"].str.partition(",")[0], worst=part["worst"].map(SAID))
    by_isa = part.sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable")
    return fewest_first(by_isa, "hook")[["isa", "hook", "place", "worst"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and case: at how many of how many instructions the whole trace is right, by place; asked: are hooked returns
    looked up, as the kernel's unwinder does or, with the mark, does not."""
    labelled = frame.assign(
        said=[f"{r.right}/{r.boundaries}" for r in frame.itertuples()],
        asked=[_asked(r) for r in frame.itertuples()],
    )
    wide = pivot("said", "place", index=("isa", "name", "asked"), total=False)(labelled)
    printed = wide[["isa", "name", "asked", *PLACES]].fillna("-").rename(columns=_SHORT)
    printed.attrs["right"] = list(_SHORT.values())
    return printed


_SHORT = dict(zip(PLACES, ("entry", "body", "asleep", "tramp", "exit", "rest"), strict=True))


def _asked(r: object) -> str:
    hooks, recovered, real = (getattr(r, name) for name in ("hooks", "recovered", "real"))
    return (("yes" if recovered else "no") + ("" if real else " *")) if hooks else "-"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions, like "arm64-fgraph-at-return-lost" (or under a wrong name), "-all", "-refused"; where
    hooked returns are not looked up "riscv64-kretprobe-not-asked-asleep-lost"."""
    values: dict[str, object] = {}
    for r in frame.itertuples():
        key = slug("-".join((r.isa, r.name, *(() if r.recovered else ("not asked",)), r.place)))
        values |= {f"{key}-lost": r.lost + r.wrong, f"{key}-all": r.boundaries, f"{key}-refused": r.refused}
    return values


def _newest(frame: pd.DataFrame) -> pd.DataFrame:
    """What each mechanism's newest kernel does, one mechanism at a time."""
    names = {(isa, build.name): mechanism for isa in ISAS for mechanism, build in newest(isa).items()}
    keys = list(zip(frame["isa"], frame["name"], strict=True))
    part = frame.assign(mechanism=[names.get(key, "") for key in keys])
    return part[part["real"] & (part["mechanism"] != "")]


def _spoilt(frame: pd.DataFrame, place: str) -> dict[str, list[str]]:
    """ISA -> mechanisms with which a frame is lost or has a wrong name there, as the newest kernels unwind."""
    data = _newest(frame)
    part = data[(data["place"] == place) & (data["lost"] + data["wrong"] > 0)]
    return {isa: list(part.loc[part["isa"] == isa, "mechanism"]) for isa in ISAS}


def _hooking(frame: pd.DataFrame, isa: str) -> list[str]:
    data = _newest(frame)
    return list(dict.fromkeys(data.loc[(data["isa"] == isa) & data["hooks"], "mechanism"]))


def _tell(frame: pd.DataFrame, place: str) -> str:
    """With what a trace loses a frame in a place, on which ISAs."""
    texts: dict[str, list[str]] = {}
    for isa, names in _spoilt(frame, place).items():
        hooks = _hooking(frame, isa)
        every = names and set(names) >= set(hooks)
        more = [name for name in names if name not in hooks]
        whole = ["every return hook", *map(spoken, more)]
        texts.setdefault(listed(whole if every else map(spoken, names)) or "nothing", []).append(isa_name(isa))
    return ", ".join(f"with {what} on {listed(isas)}" for what, isas in texts.items())


PREDICTOR, TRACES = "the predictor", "stack traces"


@judges("k7")
def spoil(returns: pd.DataFrame | None = None, traces: pd.DataFrame | None = None) -> Verdict:
    """True of a return hook and the predictor if any return is mispredicted in the call or above it; of it and stack traces if one
    taken asleep or in the handler at the return loses a frame or gives it a wrong name, as the kernel unwinds."""
    returns = predicted.rows() if returns is None else returns
    traces = rows() if traces is None else traces
    missed = predicted.whole(returns).set_index(["isa", "name"], drop=False)
    places = {place: _spoilt(traces, place) for place in (SLEEPING, EXIT)}
    records = []
    for isa in ISAS:
        for mechanism in _hooking(traces, isa):
            r = missed.loc[(isa, newest(isa)[mechanism].name)]
            hook = f"{isa}, {mechanism}"
            records.append({"effect": PREDICTOR, "hook": hook, "truth": bool(r["own"] + r["outer"])})
            records.append({"effect": TRACES, "hook": hook, "truth": any(mechanism in places[p][isa] for p in places)})
    kind, on = across(pd.DataFrame(records), {"effect": "what is spoilt", "hook": "the return hook"})
    hooked = {isa: [missed.loc[(isa, newest(isa)[m].name)] for m in _hooking(traces, isa)] for isa in ISAS}
    missed_by = "; ".join(f"on {isa_name(isa)} {listed(_missed(rows_of))}" for isa, rows_of in hooked.items())
    fexit = {isa: "+".join(str(int(n)) for n in missed.loc[(isa, FEXIT), ["own", "outer"]]) for isa in ISAS}
    because = (
        f"Mispredicted returns in the call and of the callers above it: {missed_by}. With BPF fexit, which hooks no return: "
        f"{on_each(fexit)}. Stack traces of a sleeper lose or misname a frame {_tell(traces, SLEEPING)}; those in the handler at "
        f"the return {_tell(traces, EXIT)}."
    )
    values: dict[str, int | float | str] = {
        f"{isa_name(isa)}, {r['name']}": f"{int(r['own'])}+{int(r['outer'])}" for isa, rows_of in hooked.items() for r in rows_of
    }
    return Verdict(kind, because, values, on)


def _missed(own: Iterable[pd.Series]) -> list[str]:
    """Of each hook; several of the same number together."""
    by: dict[str, list[str]] = {}
    for r in own:
        by.setdefault(f"{int(r['own'])}+{int(r['outer'])}", []).append(spoken(str(r["name"])))
    return [f"{count} ({', '.join(names)})" for count, names in by.items()]


FIGURES = (
    Figure(
        "fig-return-unwound",
        "Is a stack trace right while a return is hooked?",
        chart=lambda frame: heat_map("worst", "hook", "place", meanings=MEANINGS)(cells(frame)),
        table=table,
        alt="A panel per ISA: for each mechanism, and for two on one function, a colour for the worst that happens to a frame in a "
        "trace taken in the handler at the entry, asleep in the function, and in the handler at the return. The table has the "
        "other places, older releases, and what is found where hooked returns are not looked up.",
        limits="Emulated calls of lab kernels, one task; counts of instructions; x86-64 by ORC's rules, arm64 and riscv64 by frame "
        "pointers. * hypothetical: the kernel's unwinder does it the other way.",
        legend="In the table: instructions at which the whole trace is right / all of the place.",
        hypothetical=True,
    ),
)
