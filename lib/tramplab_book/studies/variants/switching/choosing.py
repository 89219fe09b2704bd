"""What decides which trampoline a function gets? Random registering and unregistering of all kinds of ops, and what falls out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.ftrace.addresses import BPF
from tramplab.ftrace.ops import Registered, Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import state_strip, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name
from ... import faults
from ...memo import once
from ...shared.every_release import every_release

NAME = "choosing"
TITLE = "The trampoline of a function, by its callbacks"
FUNCTION = "three_args"
#: The filters of an ops: this function, several with it, all; or others only.
FILTERS = {"one": (FUNCTION,), "many": (FUNCTION, "one_arg", "five_args"), "all": (), "others": ("one_arg", "five_args")}
STEPS, MOST, SEED = 200, 4, 2021
UNITS: dict[str, str] = {}
NOTHING, OWN, DIRECT = "nothing", "own ", "the direct call's stub"
#: What a chart says of a trampoline: common to all functions, an ops' own, or a direct call's.
MEANINGS = {
    **dict.fromkeys((NOTHING, "-"), theme.PLAIN),
    **dict.fromkeys(("ftrace_caller", "ftrace_regs_caller"), theme.RIGHT),
    **dict.fromkeys((f"{OWN}ftrace_caller", f"{OWN}ftrace_regs_caller"), theme.TWO),
    DIRECT: theme.ONE,
}
_COMMON, _GENERATED = ("ftrace_caller", "ftrace_regs_caller"), "ftrace_trampoline["
_STUBS = tuple(Direct(far=far).target for far in (False, True))
_ORDER = ("none", "one", "more")
#: What data/releases.yml says of code that some sites reach.
EITHER = "either"
#: The claim's two variables, and those that could be a further one (the claim names the first): column -> what it is in a sentence.
TWO = ("callbacks", "regs")
FURTHER = {
    "direct": "direct calls and their reach",
    "static": "ops in the core kernel's data",
    "guarded": "guards (RECURSION, RCU)",
    "filter": "how many functions the ops are on",
    "elsewhere": "ops on other functions",
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and state of the sequence.

    Columns: isa, release, step; the two variables callbacks (none, one, more) and regs (does one of them want all
    registers?); what could be a third: direct (none, near, far), static (yes, no: is there one such ops on the function?),
    guarded (no, recursion, rcu: does one ask for such a guard?), filter ("one", "many", "all": of the widest ops; "none"),
    elsewhere (yes, no: ops on other functions only); and what a call then ran: trampoline ("own ftrace_caller" is a copy of
    it made for a single ops) and calls (what it calls: callback, assist function, list function).
    """
    frame = pd.DataFrame(every_release(lambda isa, release: list(walk(isa, release))))
    frame.attrs["units"] = UNITS
    return frame


def walk(isa: str, release: str) -> Iterator[dict[str, object]]:
    """Register and unregister ops of all kinds at random; the same sequence every time. Yields the state after each step."""
    kernel, chance = Kernel(isa, release, meter=COUNT), random.Random(SEED)
    registered: list[tuple[Registered, str]] = []
    yield {"step": 0, **_state(kernel, [])}
    for step in range(1, STEPS + 1):
        if registered and (len(registered) == MOST or chance.random() < 0.5):
            kernel.detach(registered.pop(chance.randrange(len(registered)))[0])
        else:
            request, where = drawn(kernel, chance, any(o.is_direct for o, _ in registered))
            registered += [(ops, where) for ops in kernel.attach(None, request)]
        yield {"step": step, **_state(kernel, registered)}


def drawn(kernel: Kernel, chance: random.Random, taken: bool) -> tuple[Request, str]:
    """A request and on what it is; no second direct call where there is one."""
    if kernel.features["direct"] and chance.random() < 0.3 and not taken:
        return Direct(far=chance.random() < 0.4, filter=FILTERS["one"]), "one"
    where = chance.choice(list(FILTERS))
    saves = ("args", "regs") if kernel.features["regs"] else ("args",)
    recursion, rcu, dynamic = chance.random() < 0.25, chance.random() < 0.25, chance.random() < 0.7
    save = chance.choice(saves)
    return Ops(save=save, recursion=recursion, rcu=rcu, dynamic=dynamic, filter=FILTERS[where]), where


def _state(kernel: Kernel, there: list[tuple[Registered, str]]) -> dict[str, object]:
    """What is registered, and which trampoline a call then goes through."""
    wanting = [(o, where) for o, where in there if o.wants(FUNCTION)]
    direct = next(("far" if o.request.far else "near" for o, _ in wanting if o.is_direct), "none")
    plain = [o for o, _ in wanting if not o.is_direct]
    return {
        "callbacks": _ORDER[min(len(wanting), 2)],
        "regs": _yes(o.saves_regs for o, _ in wanting),
        "direct": direct,
        "static": _yes(not o.request.dynamic for o in plain),
        "guarded": next((flag for flag in ("rcu", "recursion") if any(getattr(o.request, flag) for o in plain)), "no"),
        "filter": max((where for _, where in wanting), key=list(FILTERS).index, default="none"),
        "elsewhere": _yes(not o.wants(FUNCTION) for o, _ in there),
        **_ran(kernel),
    }


def _yes(true: Iterator[bool]) -> str:
    return "yes" if any(true) else "no"


def _ran(kernel: Kernel) -> dict[str, str]:
    """The trampoline that a call goes through and what that calls, by what was executed."""
    run = kernel.call(FUNCTION, 1, 2, 3)
    known = kernel.image.symbols
    begins = {name: known[name].address for name in (*_COMMON, *_STUBS, *_CALLED) if name in known}
    begins |= {f"{g.name}[{o.index}]": g.address for o in kernel.slowpath.everyone for g in o.generated}
    ran = {s for s, address in begins.items() if run.executed(address)}
    found = [s for s in ran if s in _COMMON or s.startswith(_GENERATED)]
    stub = NOTHING if ran.isdisjoint(_STUBS) else DIRECT
    calls = [what for s, what in _CALLED.items() if s in ran and found]
    return {
        "trampoline": " and ".join(OWN + _copied(kernel, s) if s.startswith(_GENERATED) else s for s in sorted(found)) or stub,
        "calls": next(iter(calls), "-"),
    }


#: Callee of a trampoline -> in words; the first that was executed decides.
_CALLED = {
    "ftrace_ops_list_func": "list function",
    "ftrace_ops_assist_func": "assist function",
    "lab_callback": "callback",
    "call_direct_funcs": "callback",
}


def _copied(kernel: Kernel, symbol: str) -> str:
    """The common trampoline of which the single ops' own is a copy: it has its length, and a RET."""
    address = kernel.image.address
    ops = next(o for o in kernel.slowpath.ops if any(f"{g.name}[{o.index}]" == symbol for g in o.generated))
    return next(name for name in _COMMON if address(f"{name}_end") - address(name) + 1 == ops.trampoline_size)


# -- which variables decide


def decided(frame: pd.DataFrame, variables: tuple[str, ...], what: str = "trampoline") -> bool:
    """Do states that are alike in the two variables and in these have one and the same `what`, on each ISA and release?"""
    return bool((frame.groupby(["isa", "release", *TWO, *variables])[what].nunique() == 1).all())


def deciding(frame: pd.DataFrame, what: str = "trampoline") -> list[tuple[str, ...]]:
    """The smallest sets of further variables with which the two decide `what`; [()] if these do alone, [] if no set does."""
    for count in range(len(FURTHER) + 1):
        if sets := [names for names in itertools.combinations(FURTHER, count) if decided(frame, names, what)]:
            return sets
    return []


def possible(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without direct calls at a distance at which no kernel of that release has BPF's code from its sites."""
    where = {key: releases.reach(*key, BPF).value for key in set(zip(frame["isa"], frame["release"], strict=True))}
    either = [r.direct in ("none", where[r.isa, r.release]) or where[r.isa, r.release] == EITHER for r in frame.itertuples()]
    return frame[either]


def combinations(frame: pd.DataFrame) -> pd.Series:
    """By ISA, release, the two variables and whether the function has a direct caller: do all such states that kernels have get one
    trampoline?"""
    real = possible(frame)
    real = real.assign(called=real["direct"] != "none")
    return real.groupby(["isa", "release", *TWO, "called"], sort=False)["trampoline"].nunique() == 1


def reach_decides(isa: str) -> str:
    """The first release in which a direct call of an ISA may be near or far; "" if there is none."""
    there = (r for r in releases.known() if releases.features(ISAS[isa], r, {})["direct"])
    return next((r for r in there if releases.reach(isa, r, BPF).value == EITHER), "")


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per ISA, state and trampoline, with the releases in which it is so, as far as a direct call matters."""
    keys = ["isa", "callbacks", "regs", "direct"]
    alone = frame.assign(direct=frame["direct"].where(frame["callbacks"] == "one", "-"))
    met = alone.groupby([*keys, "release"], sort=False)["trampoline"].agg(_all_of).reset_index()
    met["order"] = met["isa"].map(list(dict.fromkeys(met["isa"])).index) * 10 + met["callbacks"].map(_ORDER.index)
    met = met.sort_values(["order", "regs", "direct"], kind="stable", key=lambda c: c.map(_PLACE) if c.name == "direct" else c)
    spans = met.groupby([*keys, "trampoline"], sort=False)["release"].agg(_span)
    return spans.reset_index().rename(columns={"release": "releases"})


_PLACE = {"-": 0, "none": 1, "near": 2, "far": 3}


def _all_of(found: pd.Series) -> str:
    return " or ".join(sorted(set(found)))


def _span(found: pd.Series) -> str:
    order = sorted(set(found), key=releases.parse)
    return order[0] if len(order) == 1 else f"{order[0]}-{order[-1]}"


def strip(frame: pd.DataFrame) -> pd.DataFrame:
    """A lane per ISA and releases that choose alike, a step per state."""
    alone = frame.assign(state=[_named(*key) for key in zip(frame["callbacks"], frame["regs"], frame["direct"], strict=True)])
    chosen = alone.groupby(["isa", "release", "state"], sort=False)["trampoline"].agg(_all_of)
    lanes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for isa, release in dict.fromkeys(zip(frame["isa"], frame["release"], strict=True)):
        picked = tuple(chosen.get((isa, release, state), "-") for state in _STATES)
        lanes.setdefault((isa, picked), []).append(release)
    return pd.DataFrame(
        {"what": "trampoline", "lane": f"{isa} {_span(pd.Series(found))}", "step": state, "state": trampoline}
        for (isa, picked), found in lanes.items()
        for state, trampoline in zip(_STATES, picked, strict=True)
    )


_STATES = ("none", "one", "one, all regs", "one direct, near", "one direct, far", "more", "more, all regs")


def _named(callbacks: str, regs: str, direct: str) -> str:
    if callbacks == "one" and direct != "none":
        return f"one direct, {direct}"
    return f"{callbacks}, all regs" if regs == "yes" else callbacks


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: how many steps each sequence has, how many variables were varied beside the two, and the ISAs and
    releases where no set of them decides what the trampoline calls; the trampoline of one plain callback in the newest release,
    "arm64-one-trampoline"; of "combinations", see combinations(), those with one trampoline, "picked", and those without,
    "arm64-unpicked"; and since when a direct call's reach differs, "arm64-reach-since"."""
    states = frame.groupby(["isa", "release"], sort=False)
    undecided = pd.DataFrame([key for key, part in states if not deciding(part, "calls")], columns=["isa", "release"])
    spans = undecided.groupby("isa", sort=False)["release"].agg(_span)
    history = " and ".join(f"{isa_name(isa)} {span}" for isa, span in spans.items())
    values: dict[str, object] = {"steps": STEPS, "further": len(FURTHER), "history": history or "nowhere"}
    lone = (frame["callbacks"] == "one") & (frame["regs"] == "no") & (frame["direct"] == "none")
    chosen = frame[lone & (frame["release"] == releases.LATEST)].groupby("isa", sort=False)["trampoline"].agg(_all_of)
    values |= {f"{isa}-one-trampoline": trampoline for isa, trampoline in chosen.items()}
    one = combinations(frame)
    values |= {"combinations": len(one), "picked": int(one.sum())}
    values |= {f"{isa}-unpicked": int((~part).sum()) for isa, part in one.groupby("isa", sort=False)}
    return values | {f"{isa}-reach-since": reach_decides(isa) or "never" for isa in ISAS}


FIGURES = (
    Figure(
        "fig-choosing",
        "Which trampoline does a function get, and what decides it?",
        chart=lambda frame: state_strip(facet="what", meanings=MEANINGS)(strip(frame)),
        table=table,
        alt="A lane for every ISA and the releases that choose alike, a column for every state of the function: no callback, one, "
        "one that wants all registers, one near or far direct call, more callbacks, and more of which one wants all registers. "
        "The blocks name the trampoline that a call ran. The table has the same.",
        limits="The trampoline that a call ran after every step of random sequences: plain ops and ops that want all registers, "
        "dynamic and static, guarded or not, on one, many or all functions, and direct calls, near and far. As it was meant to "
        f"work: {faults.said(['direct_beside_ops'])}",
    ),
)
