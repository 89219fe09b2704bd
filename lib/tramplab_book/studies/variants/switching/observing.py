"""Does a callback notice that the trampoline under it is switched? What it sees, while others come and go."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Registered
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.plain import Ops

from ...memo import once
from . import observer
from .attached import NEEDS, request

NAME = "observing"
FUNCTION, ARGUMENTS = "three_args", (11, 22, 33)
STEPS, MOST, SEED = 40, 4, 2021
#: What comes and goes beside the observer -> its letter in attached.request().
OTHERS = {"plain": "a", "guarded": "g", "regs": "r", "direct": "d"}
#: The fields of a callback that gets no registers.
_WITHOUT_REGISTERS = observer.FIELDS[:3]
#: Fields that only an ops that wants all registers was promised; the kernel may give them to a plain one.
_NOT_PROMISED = {"plain": {"full_regs"}, "regs": set()}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, observer and switch: an ops observes, and another is registered or unregistered beside it.

    Columns: isa, release, observer ("plain", or "regs" for one that wants all registers), switch (its number), change
    ("+regs", "-direct"), attached (what is there then, the observer aside), seen (how often the observer ran in one call),
    right (is the result the unhooked call's?), differs (what it saw otherwise than before the first switch, names of
    observer.FIELDS with blanks between; only what it may read: without WITH_ARGS a plain callback is handed no registers), promised
    (those of them that the observer was promised: a plain one is not promised that ftrace_get_regs() gives it anything).
    """
    records = []
    for isa, release, kind in itertools.product(ISAS, releases.shown(), ("plain", "regs")):
        features = releases.features(ISAS[isa], release, {})
        if kind == "plain" or features["regs"]:
            readable = observer.FIELDS if features["args"] or kind == "regs" else _WITHOUT_REGISTERS
            head = {"isa": isa, "release": release, "observer": kind}
            records += [{**head, **row} for row in _watch(isa, release, kind, readable)]
    return pd.DataFrame(records)


def _watch(isa: str, release: str, kind: str, readable: tuple[str, ...]) -> list[dict[str, object]]:
    kernel, chance = Kernel(isa, release, meter=COUNT), random.Random(SEED)
    function = kernel.function(FUNCTION)
    result = kernel.call(function, *ARGUMENTS).value
    kernel.attach(function, Ops(callback=observer.CALLBACK, save="regs" if kind == "regs" else "args"))
    _, _, first = observer.call(kernel, FUNCTION, *ARGUMENTS)
    names = [name for name, letter in OTHERS.items() if letter not in NEEDS or kernel.features[NEEDS[letter]]]
    attached: list[tuple[str, Registered]] = []
    items = []
    for n in range(STEPS):
        hooks = [name for name, _ in attached]
        if attached and (len(attached) == MOST or chance.random() < 0.45):
            name, ops = attached.pop(chance.randrange(len(attached)))
            kernel.detach(ops)
            change = f"-{name}"
        else:
            # a function can have one direct call
            name = chance.choice([x for x in names if x != "direct" or x not in hooks])
            (ops,) = kernel.attach(function, request(OTHERS[name], kernel.features))
            attached.append((name, ops))
            change = f"+{name}"
        run, times, saw = observer.call(kernel, FUNCTION, *ARGUMENTS)
        differs = [f for f in observer.differing(first, saw) if f in readable]
        now = " ".join(name for name, _ in attached)
        row = {"switch": n + 1, "change": change, "attached": now, "seen": times, "right": run.value == result}
        promised = [f for f in differs if f not in _NOT_PROMISED[kind]]
        items.append({**row, "differs": " ".join(differs), "promised": " ".join(promised)})
    return items


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """Numbers for the prose: switches, calls missed or seen twice, and those with a wrong result; switches after which something
    promised was seen otherwise, and what of all that can be seen was."""
    return {
        "switches": len(frame),
        "not-once": int((frame["seen"] != 1).sum()),
        "promised-differing": int((frame["promised"] != "").sum()),
        "wrong": int((~frame["right"]).sum()),
        "what": ", ".join(sorted({f for d in frame["differs"] for f in d.split()})) or "nothing",
    }
