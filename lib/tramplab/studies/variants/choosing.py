"""What decides which trampoline a function gets? Random registering and unregistering, and the table that falls out."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pandas as pd

from ...emulate.machine import COUNT
from ...ftrace import releases
from ...ftrace.ops import Registered
from ...lab.kernel import Kernel
from ...publish.claims.verdict import BY_RELEASE, Verdict, across, judges
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..every_release import every_release
from ..once import once

NAME = "choosing"
TITLE = "The trampoline of a function, by its callbacks"
FUNCTION = "three_args"
STEPS, MOST, SEED = 80, 4, 2021
UNITS: dict[str, str] = {}
NOTHING, OWN = "nothing", "own "
_COMMON, _GENERATED = ("ftrace_caller", "ftrace_regs_caller"), "ftrace_trampoline["


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, and state that the two variables tell apart.

    Columns: isa, release, callbacks (none, one, more), regs (does one of them want all registers?), trampolines (every one
    that a call ran in such a state; "own ftrace_caller" is a copy of it made for a single ops), states (how often the
    sequence came through one).
    """
    frame = pd.DataFrame(every_release(_told_apart))
    frame.attrs["units"] = UNITS
    return frame


def _told_apart(isa: str, release: str) -> list[dict[str, object]]:
    """The states of one sequence, by how many ops there are and whether one wants all registers."""
    seen: dict[tuple[str, str], list[str]] = {}
    for attached, ran in walk(isa, release):
        regs = any(o.saves_regs for o in attached)
        seen.setdefault((_ORDER[min(len(attached), 2)], "yes" if regs else "no"), []).append(ran)
    return [
        {"callbacks": count, "regs": regs, "trampolines": " or ".join(sorted(set(targets))), "states": len(targets)}
        for (count, regs), targets in sorted(seen.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][1]))
    ]


_ORDER = ("none", "one", "more")


def walk(isa: str, release: str) -> Iterator[tuple[list[Registered], str]]:
    """Register and unregister plain ops, and ops that want all registers, at random; the same sequence every time.

    Yields, before and after each step, what is attached and which trampoline a call of the function then runs.
    """
    kernel, chance = Kernel(isa, release, meter=COUNT), random.Random(SEED)
    function = kernel.function(FUNCTION)
    saves = ("args", "regs") if kernel.features["regs"] else ("args",)
    attached: list[Registered] = []
    yield [], _ran(kernel)
    for _ in range(STEPS):
        if attached and (len(attached) == MOST or chance.random() < 0.5):
            kernel.detach(attached.pop(chance.randrange(len(attached))))
        else:
            attached += kernel.attach(function, Ops(save=chance.choice(saves)))
        yield list(attached), _ran(kernel)


def _ran(kernel: Kernel) -> str:
    """The trampoline that a call goes through, by what was executed."""
    found = [s for s in kernel.call(FUNCTION, 1, 2, 3).symbols if s in _COMMON or s.startswith(_GENERATED)]
    return " and ".join(OWN + _copied(kernel) if s.startswith(_GENERATED) else s for s in sorted(found)) or NOTHING


def _copied(kernel: Kernel) -> str:
    """Of which common trampoline the single ops' own is a copy: it has its length, and a RET."""
    (ops,), address = kernel.slowpath.ops, kernel.image.address
    return next(name for name in _COMMON if address(f"{name}_end") - address(name) + 1 == ops.trampoline_size)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per ISA, state and trampoline, with the releases in which it is so."""
    keys = ["isa", "callbacks", "regs", "trampolines"]
    spans = frame.groupby(keys, sort=False)["release"].agg(
        lambda r: r.iloc[0] if len(r) == 1 else f"{r.iloc[0]}-{r.iloc[-1]}"
    )
    return spans.reset_index()


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: how many states there were in all, and how many steps each sequence has."""
    return {"states": int(frame["states"].sum()), "steps": STEPS}


@judges("s1")
def two_variables(frame: pd.DataFrame | None = None) -> Verdict:
    """In every state that the two variables tell apart, calls run one and the same trampoline."""
    frame = rows() if frame is None else frame
    one = ~frame["trampolines"].str.contains(" or ")
    kind, on = across(frame.assign(truth=one), BY_RELEASE)
    newest = frame[frame["release"] == releases.LATEST]
    tables = []
    for isa, part in newest.groupby("isa", sort=False):
        ways = dict.fromkeys(part[part["callbacks"] != "none"]["trampolines"])
        tables.append(f"{', '.join(ways)} on {isa.replace('x86_64', 'x86-64')}")
    because = (
        f"Plain ops and ops that want all registers, at random: in {frame['states'].sum()} states, {int(one.sum())} of "
        f"{len(one)} combinations of ISA, release and the two variables have one trampoline. What there is to choose from in "
        f"{releases.LATEST}: {'; '.join(tables)}."
    )
    found = {"states": int(frame["states"].sum()), "combinations": len(one), "with one trampoline": int(one.sum())}
    return Verdict(kind, because, found, on)


FIGURES = (
    Figure(
        "fig-choosing",
        "Which trampoline does a function get, and what decides it?",
        table=table,
        limits="The trampoline that a call ran after every step of random sequences of plain ops and of ops that want all "
        "registers, "
        "without further flags and without direct calls.",
    ),
)
