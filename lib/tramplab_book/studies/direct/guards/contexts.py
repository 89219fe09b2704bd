"""A call traced in a callback, by an interrupt that comes in while it runs: who is let in, context by context?"""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel

from ....publish.figures.chart import heat_map
from ....publish.figures.figure import Figure
from ...memo import once
from .reentrant import ARGUMENTS, HOOKED, ITSELF, SUBJECTS
from .state import preempt_count

NAME = "contexts"
TITLE = "Guards from normal context to NMI"
#: Context -> what entering it adds to the preempt count: nothing for the one that a task runs in.
CONTEXTS = {"normal": 0, "softirq": 1 << 8, "hardirq": 1 << 16, "NMI": 1 << 20}
#: Whose guards are asked: the list function's, the assist function's, the callback's own, a program's.
SAID = {"two ops": "list function", "ops RECURSION": "assist function", "ops trylock": "callback's own", "fentry": "BPF program"}
GUARDED = tuple(SAID)


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release (the newest, and v6.12, whose programs have another counter), guard, context in which the function
    is called, and context that interrupts the hook's consumer there, and calls the function again; `same` for a call of its own.

    Columns: isa, release, guard (a name of reentrant.SUBJECTS), outer, inner, ran (runs of the consumer), counted (misses that a
    program counted). The consumer calls in every run, so deeper ones are called in the inner context, too.
    """
    frame = pd.DataFrame([row for isa in ISAS for release in RELEASES for row in _tried(isa, release)])
    frame.attrs["units"] = {}
    return frame


RELEASES = ("v6.12", releases.LATEST)
SAME = "same"


def _tried(isa: str, release: str) -> list[dict[str, object]]:
    kernel = Kernel(isa, release, meter=COUNT)
    records: list[dict[str, object]] = []
    function, count = kernel.function(HOOKED), preempt_count(kernel)
    step, names = kernel.image.address("lab_reentry_context"), list(CONTEXTS)
    misses = kernel.image.struct("bpf_prog").fields["misses"].offset
    idle = int.from_bytes(kernel.machine.read(count, 4), "little")
    for guard in GUARDED:
        with kernel.attached(function, *SUBJECTS[guard].make(ITSELF)) as attached:
            programs = [at for o in attached for at, name in o.structs.items() if name.startswith("bpf_prog[")]
            counters = [kernel.slowpath.memory.hits(o.index) for o in attached] + [kernel.image.address("lab_bpf_hits")]
            places = counters, [at + misses for at in programs]
            for outer, inner in ((o, i) for n, o in enumerate(names) for i in (SAME, *names[n + 1 :])):
                before = [sum(map(kernel.machine.read_u64, some)) for some in places]
                kernel.machine.write(step, CONTEXTS.get(inner, 0).to_bytes(4, "little"))
                kernel.machine.write(count, (idle + CONTEXTS[outer]).to_bytes(4, "little"))
                kernel.call(function, *ARGUMENTS)
                kernel.machine.write(count, idle.to_bytes(4, "little"))
                ran, counted = (sum(map(kernel.machine.read_u64, some)) - b for some, b in zip(places, before, strict=True))
                head = {"isa": isa, "release": release, "guard": guard, "outer": outer, "inner": inner}
                records.append({**head, "ran": ran, "counted": counted})
    return records


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with guards that do the same in one panel: columns panel, outer, inner, ran, counted; ISAs and releases are named
    where a guard does not do the same in all of them."""
    kinds: dict[tuple[tuple[object, ...], ...], list[tuple[str, str, str]]] = {}
    for key, part in frame.groupby(["guard", "isa", "release"], sort=False):
        did = tuple(part[["outer", "inner", "ran", "counted"]].itertuples(index=False, name=None))
        kinds.setdefault(did, []).append(key)
    kernels = len(frame[["isa", "release"]].drop_duplicates())
    items = []
    for lines, keys in kinds.items():
        guards = list(dict.fromkeys(guard for guard, _, _ in keys))
        whole = len(keys) == kernels * len(guards)
        name = " / ".join(guards if whole else [f"{guard} ({isa} {release})" for guard, isa, release in keys])
        items += [dict(zip(("panel", "outer", "inner", "ran", "counted"), (name, *line), strict=True)) for line in lines]
    result = pd.DataFrame(items)
    result.attrs["units"] = {}
    return result


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Runs of the consumer, and misses counted, by outer and inner context; "-" where no such interrupt comes in."""
    data = shown(frame).assign(said=lambda d: d["ran"].astype(str) + "+" + d["counted"].astype(str))
    inner, keys = [SAME, *list(CONTEXTS)[1:]], ["panel", "outer"]
    wide = data.pivot(index=keys, columns="inner", values="said")
    wide = wide.reindex(index=pd.MultiIndex.from_frame(data[keys].drop_duplicates()), columns=inner).fillna("-").reset_index()
    wide.columns = [str(name) for name in wide.columns]
    return wide.rename(columns={"panel": "isa"})  # by which a table is split that does not fit


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: runs of a callback through the list function and of a program, "list-same-runs", "list-deeper-runs",
    "program-same-runs", "program-deeper-runs": one number if it is the same everywhere, else from the least to the most."""
    values: dict[str, object] = {}
    for name, guard in (("list", "two ops"), ("program", "fentry")):
        part = frame[frame["guard"] == guard]
        for which, some in (("same", part[part["inner"] == SAME]), ("deeper", part[part["inner"] != SAME])):
            low, high = some["ran"].min(), some["ran"].max()
            values[f"{name}-{which}-runs"] = int(low) if low == high else f"{low} to {high}"
    return values


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Runs by guard and by who calls while the callback runs; contexts in which the function is called are a row where all do the
    same."""
    data = shown(frame)
    alike = data.groupby(["panel", "inner"])["ran"].transform("nunique") == 1
    data["guard"] = data["panel"].where(alike.groupby(data["panel"]).transform("all"), data["panel"] + ", in " + data["outer"])
    for guard, said in SAID.items():
        data["guard"] = data["guard"].str.replace(guard, said, regex=False)
    data = data.drop_duplicates(["guard", "inner"]).rename(columns={"ran": "runs"})
    return data.assign(of="called again by", by=data["inner"].replace(SAME, "callback"))


FIGURES = (
    Figure(
        "fig-contexts",
        "Is a call traced that an interrupt makes while the callback runs?",
        chart=lambda frame: heat_map("runs", rows="guard", columns="by", facet="of")(drawn(frame)),
        table=table,
        alt="A panel per kind of guard, a row for the context in which the function is called, a column for the one that "
        "interrupts "
        "its callback and calls it again: how often the callback runs.",
        legend="In the table runs+misses counted.",
        limits="Emulated. The callback adds the context to the preempt count, calls the "
        "function, and takes it off again, at every "
        "depth. Runs per call from outside. `same`: no interrupt, the callback calls.",
    ),
)
