"""The registers that each provider passes: every slot of every structure, found out by running the code that fills it."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import view_frame
from tramplab.sparsity.structures import program, state
from tramplab.sparsity.structures.classify import CONSTANT, DERIVED, GARBAGE, OUTSIDE, TRUE
from tramplab.sparsity.structures.frames import frame as frame_of
from tramplab.sparsity.structures.providers import of
from tramplab.sparsity.structures.registers import register_of
from tramplab.sparsity.structures.views import PARTIAL, PERF, views

from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import slug
from ..memo import once
from ..variants.one_callback.register_map import as_ranges, broken

NAME = "register_frames"
TITLE = "The registers that each provider passes"
UNITS = {"size": "B"}
#: A register that a structure has no slot for.
ABSENT = "no slot"
LETTERS = {TRUE: "T", DERIVED: "D", CONSTANT: "C", GARBAGE: "G", OUTSIDE: "O", ABSENT: "-"}
MEANINGS = {
    TRUE: theme.RIGHT,
    DERIVED: theme.ONE,
    CONSTANT: theme.TWO,
    GARBAGE: theme.WRONG,
    OUTSIDE: theme.PLAIN,
    ABSENT: theme.NOTHING,
}
ARGUMENTS, ALL, RETURN = "ftrace_caller", "ftrace_regs_caller", "return_to_handler"


#: Providers as the chart calls them, from the fullest down; a kretprobe's trampoline has two names.
PROVIDERS = {
    "breakpoint": "breakpoint",
    ALL: "entry, all",
    "kprobe_ftrace_handler": "kprobe",
    "__kretprobe_trampoline": "kretprobe",
    "arch_rethook_trampoline": "kretprobe",
    ARGUMENTS: "entry",
    f"{ARGUMENTS}, {PARTIAL}": "partial",
    f"{ARGUMENTS}, {PERF}": "perf",
    RETURN: "return",
    program.NAME: "BPF",
}
#: Groups of registers in the chart, and of what several of a group are, what it shows: the first of these.
ROLES = ("args", "ip", "sp", "fp", "kept", "mode")
_WORST = (GARBAGE, OUTSIDE, CONSTANT, ABSENT, DERIVED, TRUE)


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release shown, provider (sparsity/structures/providers.py; also what is made of the structure that
    ftrace_caller has, and a BPF trampoline), and slot of its structure, or register that the structure has no slot for.

    Columns: isa, release, provider, struct, size (of the structure), slot ("" for none), register (that it is named after, "pc" for
    the program counter, "" for none), kind (one of LETTERS), rule.
    """
    records = [row for isa in ISAS for release in releases.shown() for row in _rows(isa, release)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _rows(isa: str, release: str) -> list[dict[str, object]]:
    kernel = Kernel(isa, release)
    made = [v for v in views(kernel) if v.provider.name == ARGUMENTS and v.way in (PARTIAL, PERF)]
    found = {p.name: frame_of(kernel, p) for p in of(kernel.features)} | {v.name: view_frame(kernel, v) for v in made}
    named = {name: {slot: register_of(kernel.isa, slot) for slot in one.slots} for name, one in found.items()}
    if program.offered(kernel):
        found[program.NAME] = program.program_frame(kernel)
        named[program.NAME] = dict(zip(found[program.NAME].slots, kernel.isa.args, strict=False))
    records: list[dict[str, object]] = []
    for name, one in found.items():
        head = {"isa": isa, "release": release, "provider": name, "struct": one.struct, "size": one.size}
        records += [
            {**head, "slot": slot, "register": named[name][slot], "kind": s.kind, "rule": s.rule} for slot, s in one.slots.items()
        ]
        left = [register for register in every(isa) if register not in named[name].values()]
        records += [{**head, "slot": "", "register": register, "kind": ABSENT, "rule": ""} for register in left]
    return records


def every(isa: str) -> list[str]:
    """The registers of a full set on an ISA, in the order of its list, then the program counter, flags and mode."""
    return [*ISAS[isa].registers, "pc", *state.STATES[isa]]


# -- what is shown


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each ISA and provider in the newest release that has it."""
    order = {release: n for n, release in enumerate(releases.shown())}
    last = frame.groupby(["isa", "provider"])["release"].transform(lambda r: max(r, key=order.__getitem__))
    return frame[frame["release"] == last]


def _role(isa: str, register: str) -> str:
    """One of ROLES; "" for what the chart leaves out: scratch registers, links and fixed ones."""
    record = ISAS[isa]
    single = {"pc": "ip", record.sp: "sp", record.fp: "fp"}
    groups = {"args": record.args, "kept": record.callee_saved, "mode": state.STATES[isa]}
    return single.get(register) or next((role for role, names in groups.items() if register in names), "")


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The worst that a provider does to a group of registers, a kretprobe's trampoline being the newest: columns isa, provider,
    role, kind."""
    some = newest(frame)
    some = some[some["register"] != ""]
    some = some.assign(
        at=some["provider"].map(list(PROVIDERS).index),
        role=[_role(str(r.isa), str(r.register)) for r in some.itertuples()],
        rank=some["kind"].map(_WORST.index),
        since=some["release"].map(releases.shown().index),
    )
    some = some[some["role"] != ""].assign(provider=some["provider"].map(PROVIDERS))
    some = some[some["since"] == some.groupby(["isa", "provider"])["since"].transform("max")]
    worst = some.groupby(["isa", "at", "provider", "role"], sort=False)["rank"].min().reset_index()
    worst = worst.sort_values("role", key=lambda roles: roles.map(ROLES.index), kind="stable").sort_values("at", kind="stable")
    worst = worst.sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable", ignore_index=True)
    return worst.assign(kind=[_WORST[rank] for rank in worst["rank"]])[["isa", "provider", "role", "kind"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, provider and kind: the registers, in as many lines as they need."""
    some = newest(frame)
    some = some[some["register"] != ""]
    items = []
    for (isa, release, name), part in some.groupby(["isa", "release", "provider"], sort=False):
        for kind in MEANINGS:
            registers = [r for r in every(str(isa)) if r in set(part["register"][part["kind"] == kind])]
            head = {"isa": isa, "release": release, "provider": name, "kind": kind}
            items += [{**head, "registers": line} for line in broken(as_ranges(registers).split(), _ROOM) if line]
    return pd.DataFrame(items)


#: Characters of the registers in a line of the table.
_ROOM = 22


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: how many slots, or registers without one, each provider has of each kind, by LETTERS."""
    some = newest(frame)
    kernels = (some["isa"] + " " + some["release"]).rename("kernel")
    wide = pd.crosstab([kernels, some["provider"]], some["kind"])
    order = pd.MultiIndex.from_frame(pd.DataFrame({"kernel": kernels, "provider": some["provider"]}).drop_duplicates())
    wide = wide.reindex(order)[[kind for kind in LETTERS if kind in wide]]
    return wide.rename(columns=LETTERS).rename_axis(columns=None).reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by names like "arm64-ftrace_caller-true": registers that a provider passes in a way, in the newest
    release that has it; "arm64-registers", of how many; "arm64-ftrace_caller-size", bytes of its structure; what the slots of the
    stack pointer, flags and mode are, "x86_64-return_to_handler-cs-slot", one of LETTERS; how many registers that arguments or
    the stack pointer are in ftrace_caller does not pass as they were, "arm64-needed-lost", and how many it does of which a call, a
    stack trace and a result need none either, "arm64-beyond"."""
    values: dict[str, object] = {}
    for (isa, provider), part in newest(frame).groupby(["isa", "provider"], sort=False):
        kinds = part[part["register"] != ""]["kind"].value_counts()
        name = slug(str(provider))
        values |= {f"{isa}-{name}-{slug(kind)}": int(kinds.get(kind, 0)) for kind in LETTERS}
        values[f"{isa}-{name}-size"] = int(part["size"].iloc[0])
        kept = part[part["register"].isin((ISAS[str(isa)].sp, *state.STATES[str(isa)]))]
        values |= {f"{isa}-{name}-{r.register}-slot": r.kind for r in kept.itertuples()}
        values[f"{isa}-registers"] = len(every(str(isa)))
        if provider == ARGUMENTS:
            record, there = ISAS[str(isa)], {*part["register"][part["kind"] == TRUE], ""}
            needed, back = {*record.args, record.sp}, {"", "pc", record.fp, record.link, record.struct_return, *record.returns}
            values |= {f"{isa}-needed-lost": len(needed - there), f"{isa}-beyond": len(there - needed - back)}
    return values


FIGURES = (
    Figure(
        "fig-register-frames",
        "Which registers does each provider pass?",
        chart=lambda frame: heat_map("kind", "provider", "role", meanings=MEANINGS)(drawn(frame)),
        table=table,
        alt="A panel per ISA: the providers of a register structure down the side, groups of registers across, and in every cell a "
        "colour for the worst that the structure holds of the group. The table has the registers.",
        limits="The lab's providers, each in the newest release shown that has it; calls with two sets of values in the registers "
        "and two contents of the stack below, each with each.",
    ),
)
