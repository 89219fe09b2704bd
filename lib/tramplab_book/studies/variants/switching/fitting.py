"""A trampoline that saves what the callbacks of a function need, and no more: its cost as they come and go, and who notices."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Registered
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.fitting import FittingSlowPath
from tramplab.trampolines.plain import Ops

from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ...shared.every_release import every_release
from . import observer

NAME = "fitting"
TITLE = "The smallest trampoline that serves all callbacks of a function"
FUNCTION, ARGUMENTS = "three_args", (11, 22, 33)
UNITS = {"total": "insns", "usual": "insns"}
#: What an ops needs -> (how it says so to a fitting kernel, and to a real one).
NEEDS = {"live": ("live", "args"), "args": ("own-args", "args"), "all": ("own-regs", "regs")}
#: The ops that are added to the observer and removed again, last one first.
JOINING = ("live", "args", "all")
#: From which need on an ops is promised what the observer writes down. Of the arguments, `live` is promised those that the
#: function has.
_PROMISED = {"ip": "live", "parent_ip": "live", "op": "live", "fregs_ip": "args", "fregs_sp": "args", "full_regs": "all"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, observer and step: an ops observes a function, others join it and leave again.

    Columns: isa, release, observer (what it needs), step, ops (what is attached, by need, the observer first), hypothetical
    (true: no kernel fits trampolines), saves (of the fitted trampoline), total (instructions of one call through it), usual
    (the same with the kernel's own choice; missing where it has no trampoline for all registers), seen (how often the observer
    ran), right (is the result the unhooked call's?), differs and promised (what it saw otherwise than at first: of all that it
    can read, and of what its ops was promised). Releases whose trampolines hand over no ftrace_regs are left out.
    """
    frame = pd.DataFrame(every_release(_played)).astype({"usual": "Int64"})
    frame.attrs["units"] = UNITS
    return frame


def _played(isa: str, release: str) -> list[dict[str, Any]]:
    """Every observer's steps."""
    if not releases.features(ISAS[isa], release, {})["args"]:
        return []
    return [{"observer": need, **row} for need in NEEDS for row in _play(isa, release, need)]


def _play(isa: str, release: str, need: str) -> list[dict[str, Any]]:
    fitted, usual = _Played(isa, release, True), _Played(isa, release, False)
    records: list[dict[str, Any]] = []
    first: observer.Saw = {}
    for step, ops in enumerate(_states(need), 1):
        fitting, as_usual = fitted.reach(ops), usual.reach(ops)
        first = first or fitting["saw"]
        differs = observer.differing(first, fitting["saw"])
        promised = [f for f in differs if _is_promised(f, need)]
        row = {"step": step, "ops": " ".join(ops), "hypothetical": True, "saves": fitting["saves"], "total": fitting["total"]}
        row |= {"usual": as_usual.get("total"), "seen": fitting["seen"], "right": fitting["right"]}
        row |= {"differs": " ".join(differs), "promised": " ".join(promised)}
        records.append(row)
    return records


def _states(need: str) -> list[tuple[str, ...]]:
    """What is attached, step by step: the observer with its need, up to all, and down again."""
    up = [(need, *JOINING[:n]) for n in range(len(JOINING) + 1)]
    return [*up, *up[-2::-1]]


def _is_promised(field: str, need: str) -> bool:
    """Was an ops with such a need promised this?"""
    order = list(NEEDS)
    live = "live" if field in {f"arg{n}" for n in range(len(ARGUMENTS))} else "args"
    return order.index(_PROMISED.get(field, live)) <= order.index(need)


class _Played:
    """A kernel in which ops join a function and leave, the first of them an observer."""

    def __init__(self, isa: str, release: str, fitting: bool) -> None:
        self.kernel, self._fitting = Kernel(isa, release, slow_path="fitting" if fitting else ""), fitting
        self._result = self.kernel.call(FUNCTION, *ARGUMENTS).value
        self._attached: list[tuple[str, Registered]] = []

    def reach(self, ops: tuple[str, ...]) -> dict[str, Any]:
        """Attach or detach the last one, and call. Nothing where the kernel cannot serve one of them."""
        while len(self._attached) > len(ops):
            self.kernel.apply(self.kernel.slowpath.unregister(self._attached.pop()[1]))
        for need in ops[len(self._attached) :]:
            callback = "lab_callback" if self._attached else observer.CALLBACK
            request = Ops(save=NEEDS[need][not self._fitting], callback=callback, filter=(FUNCTION,))
            try:
                registered, steps = self.kernel.slowpath.register(request)
            except TramplabError:
                return {}
            self._attached.append((need, registered))
            self.kernel.apply(steps)
        return self._call()

    def _call(self) -> dict[str, Any]:
        """One call: what the observer saw, how often it and the others ran, and what it took."""
        slowpath = self.kernel.slowpath
        run, seen, saw = observer.call(self.kernel, FUNCTION, *ARGUMENTS)
        others = [run.hits[slowpath.ops.index(ops)] for _, ops in self._attached[1:]]
        return {
            "saves": slowpath.fitted(FUNCTION).replace("own-", "") if isinstance(slowpath, FittingSlowPath) else "",
            "total": run.counts.total.instructions,
            "saw": saw,
            "seen": seen,
            "right": run.value == self._result and others == [1] * len(others),
        }


# -- what is shown


def newest(frame: pd.DataFrame, observer: str = "live") -> pd.DataFrame:
    """The steps of one observer in the last release."""
    return frame[(frame["release"] == releases.LATEST) & (frame["observer"] == observer)]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per step of the observer that needs least: what is attached, by what it needs, what the fitted trampoline saves,
    and per ISA the instructions of a call as the kernel has it and through the fitted one. On the way down only what differs."""
    part = newest(frame)
    steps = part[part["isa"] == part["isa"].iloc[0]].reset_index(drop=True)
    wide = pd.DataFrame({"ops": [_short(ops) for ops in steps["ops"]], marked("set"): steps["saves"]})
    for isa, lines in part.groupby("isa", sort=False):
        wide[str(isa)] = lines["usual"].reset_index(drop=True)
        wide[marked(str(isa))] = lines["total"].reset_index(drop=True)
    return wide.drop_duplicates(ignore_index=True)


def _short(ops: str) -> str:
    """The need of the only ops, "live", or of the ops that joined last, "+args".

    >>> _short("live"), _short("live live args")
    ('live', '+args')
    """
    return ops if " " not in ops else f"+{ops.rsplit(maxsplit=1)[-1]}"


def saved(frame: pd.DataFrame, saves: str) -> dict[str, str]:
    """By ISA, how many instructions fewer a call takes in the newest release while the fitted trampoline saves this: "16", or
    "3 to 5" where steps differ; no ISA whose kernel cannot serve the ops."""
    part = frame[(frame["release"] == releases.LATEST) & (frame["saves"] == saves) & frame["usual"].notna()]
    fewer = (part["usual"] - part["total"]).groupby(part["isa"], sort=False)
    return {str(isa): f"{min(n)}" if min(n) == max(n) else f"{min(n)} to {max(n)}" for isa, n in fewer}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-live-fewer", instructions fewer with a trampoline that saves the live arguments, and of all
    ISAs "live-least" and "live-most"; "all-steps", and those after which an observer reads something else, "seen"; "served", those
    at which every callback ran once, saw what it was promised and the result was right; "costlier", those at which a call costs
    more than through the kernel's own choice, or no less where few arguments are needed."""
    fewer: dict[str, object] = {
        f"{isa}-{saves}-fewer": n for saves in ("live", "args", "regs") for isa, n in saved(frame, saves).items()
    }
    usual = (frame["usual"] - frame["total"]).dropna().astype(int)
    live = frame["saves"].loc[usual.index] == "live"
    newest_live = usual[live & (frame["release"].loc[usual.index] == releases.LATEST)]
    served = (frame["seen"] == 1) & frame["right"] & (frame["promised"] == "")
    fewer |= {"live-least": int(newest_live.min()), "live-most": int(newest_live.max()), "served": int(served.sum())}
    fewer |= {"costlier": int(((usual < 0) | (live & (usual == 0))).sum())}
    return fewer | {"all-steps": len(frame), "seen": int((frame["differs"] != "").sum())}


FIGURES = (
    Figure(
        "fig-fitting",
        "What would a trampoline save that fits the callbacks of a function?",
        rows=lambda frame: frame[frame["release"] == releases.LATEST],
        table=table,
        limits="Emulated counts of instructions in one call of a three-argument function; no timing. ops: who joins (+), by "
        "what it needs: the live arguments, an ftrace_regs, all registers; set: what the fitted trampoline saves. - in a "
        "number's place: that kernel has no trampoline for all registers.",
        hypothetical=True,
    ),
)
