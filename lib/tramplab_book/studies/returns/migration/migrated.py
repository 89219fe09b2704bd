"""Which fields that a kretprobe's users read are the same under what is to replace it, and which come back with a shim?"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from tramplab.base.errors import unknown
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.returns.migration import BEFORE, FEXIT, FPROBE, MULTI, PERFS, REGISTERS, SHIMS, Told, told
from tramplab.sparsity.structures.classify import TRUE
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.saved import frames_saved

from ....publish.claims.verdict import Seen, in_kernels
from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name, listed, slug
from ....publish.table import pivot
from ...memo import once

NAME = "return_migrated"
TITLE = "What a kretprobe's users read, under the replacement"
LATEST = releases.LATEST
#: Releases since fprobes are on the graph tracer in which it was otherwise somewhere: what return_to_handler stores, and what
#: ftrace_partial_regs() fills in.
OLDER = ("v6.16", "v6.18")
#: Read as before; not, but a shim's handler is told it as before; gone; wrong before already; what the ISA has not.
SAME, SHIMMED, LOST, NEVER, NOT_ASKED = "same", "with a shim", "lost", "was wrong", "not there"
MEANINGS = {SAME: theme.RIGHT, LOST: theme.NOTICED, SHIMMED: theme.ONE, NEVER: theme.PLAIN, NOT_ASKED: theme.NOTHING}
#: The uses, by what takes the kretprobe's place.
API, EVENT, PROGRAM, TYPED, STAP = "handler", "event", "kprobe_multi", "fexit", "systemtap"
#: Uses in few letters, ISAs, and the fields that several uses read, as the chart calls them.
PANELS = {API: "handler", EVENT: "event", PROGRAM: "kprobe_multi", TYPED: "fexit", STAP: "systemtap"}
COLUMNS = {"x86_64": "x86", "arm64": "arm64", "riscv64": "riscv"}
DRAWN = {
    "value": "value",
    "back": "return addr",
    "ip": "return addr",
    "fp": "frame ptr",
    "sp": "stack ptr",
    "trace": "stack trace",
    "others": "other regs",
    "kept": "kept regs",
}
#: The graph tracer's return trampoline.
_GRAPH = "return_to_handler"
_EXTRA = {"kept registers": "kept", "other registers": "others"}


@dataclass(frozen=True)
class Use:
    """The users of one interface.

    teller: the provider of its fields afterwards, except for those in `others`.
    fields: the user's word for a field -> its name in `migration`.
    others: the user's word -> the provider of it afterwards.
    """

    teller: str
    fields: dict[str, str]
    others: dict[str, str]

    def of(self, read: str) -> str:
        """The provider of the field with this name in the user's words."""
        return self.others.get(read, self.teller)


#: Use -> what it reads, in its words, and who tells it afterwards. Of an event, perf's own fill starts the callchain.
USES = {
    API: Use(
        FPROBE,
        {
            "return value": "value",
            "two words of it": "wide",
            "return address": "back",
            "function": "function",
            "running kprobe": "running",
            "stack pointer": "sp",
            **_EXTRA,
        },
        {},
    ),
    EVENT: Use(
        FPROBE, {"$retval": "value", "$stack": "sp", "$stack0": "word", "%reg": "kept", "callchain": "trace"}, {"callchain": PERFS}
    ),
    PROGRAM: Use(
        MULTI,
        {
            "PT_REGS_RC": "value",
            "PT_REGS_IP": "ip",
            "PT_REGS_SP": "sp",
            "PT_REGS_FP": "fp",
            "func_ip": "function",
            "stackid": "trace",
            **_EXTRA,
        },
        {},
    ),
    TYPED: Use(FEXIT, {"PT_REGS_RC": "value", "PT_REGS_IP": "ip", "PT_REGS_SP": "sp", "PT_REGS_FP": "fp", **_EXTRA}, {}),
    STAP: Use(
        MULTI,
        {
            "$return": "value",
            "ip": "ip",
            "sp": "sp",
            "fp": "fp",
            "backtrace": "trace",
            "user mode": "mode",
            "interrupts": "irqs",
            "conditions": "flags",
            **_EXTRA,
        },
        {},
    ),
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, use and field, in the newest release.

    Columns: isa, use (a key of USES), read (in the user's words), field (as migration calls it), before, after (is it right
    with a kretprobe, and with its replacement? None where the ISA has it not), least (the shim that fills least and has it right,
    "" where none does or none is asked), some (of a field that is several registers, does the replacement or a shim tell one?),
    outcome (one of MEANINGS).
    """
    return pd.DataFrame([row for isa in ISAS for use in USES for row in of_use(isa, use)])


@once
def older() -> pd.DataFrame:
    """rows() of what BPF's programs and scripts read, in the releases of OLDER, without asking shims; with a column release."""
    return pd.DataFrame(
        [{"release": r, **row} for r in OLDER for isa in ISAS for use in (PROGRAM, STAP) for row in of_use(isa, use, r)]
    )


def of_use(isa: str, use: str, release: str = LATEST) -> list[dict[str, object]]:
    """The rows of a use in a release, of an older release without shims; raises TramplabError for an unknown use."""
    if use not in USES:
        raise unknown("use of a kretprobe", use, USES)
    records: list[dict[str, object]] = []
    for read, field in USES[use].fields.items():
        before, after = (tells(isa, teller, release).right[field] for teller in (BEFORE, USES[use].of(read)))
        asked = SHIMS if use != TYPED and release == LATEST else ()
        shims = [s for s in asked if tells(isa, s, release).right[field]]
        row = {"isa": isa, "use": use, "read": read, "field": field, "before": before, "after": after, "least": (*shims, "")[0]}
        afterwards = (USES[use].of(read), *asked)
        told_by = [tells(isa, teller, release).registers for teller in afterwards if field in REGISTERS]
        some = any(set(REGISTERS[field](kernel(isa, release).isa)) & registers for registers in told_by)
        records.append({**row, "some": some, "outcome": outcome(before, after, bool(shims))})
    return records


@functools.cache
def kernel(isa: str, release: str = LATEST) -> Kernel:
    """The kernel in which all calls of an ISA and release are made."""
    return Kernel(isa, release)


@functools.cache
def tells(isa: str, teller: str, release: str = LATEST) -> Told:
    """What one of migration.TELLERS tells in that kernel."""
    return told(kernel(isa, release), teller)


def outcome(before: bool | None, after: bool | None, shimmed: bool) -> str:
    """One of MEANINGS, by whether a field is right before, after, and with a shim.

    >>> outcome(True, True, False), outcome(True, False, True), outcome(True, False, False), outcome(False, False, True)
    ('same', 'with a shim', 'lost', 'was wrong')
    """
    if before is None or after is None:
        return NOT_ASKED
    if not before:
        return NEVER
    return SAME if after else SHIMMED if shimmed else LOST


# --- What is shown


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and use: how many fields have which outcome."""
    counts = frame.pivot_table(index=["isa", "use"], columns="outcome", values="read", aggfunc="count", sort=False, fill_value=0)
    return counts.reindex(columns=list(MEANINGS), fill_value=0).astype(int).reset_index()


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per use and field, with the shim that is enough for it, by ISA, where there is one and it is needed."""
    told_by = frame.assign(said=[_said(r.outcome, r.least) for r in frame.itertuples()])
    return pivot("said", "isa", index=("use", "read"), total=False)(told_by).rename(columns=isa_name)


def _said(found: str, least: str) -> str:
    return f"shim {least}" if found == SHIMMED else "-" if found == NOT_ASKED else found


def stack_pointers() -> pd.DataFrame:
    """A row per kernel of Debian's whose return_to_handler was run. Columns: kernel, isa, told (does it pass the stack
    pointer?)."""
    isas = {package.name: package.isa for package in plain()}
    items = []
    for kernel_ in frames_saved.read()["kernels"]:
        name, isa = kernel_["name"].removeprefix("debian-"), isas[kernel_["name"]]
        for frame in kernel_["frames"]:
            slots = {slot["slot"]: slot["kind"] for slot in frame["slots"]}
            if frame["provider"] == _GRAPH and "sp" in slots:
                items.append({"kernel": name, "isa": isa, "told": slots["sp"] == TRUE})
    return pd.DataFrame(items)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "x86_64-kprobe_multi-same": how many fields; "-lost"; "-read", how many are right under a
    kretprobe; and in OLDER, "x86_64-v6-16-kprobe_multi-same". Of all uses and ISAs how often the value is read, "value-total", and
    the same, "value-same", and the kept registers, "kept-total", and lost, "kept-lost"; "without-sp", Debian's kernels whose
    return_to_handler does not pass the stack pointer, and by ISA how many do, "x86_64-sp-told"."""
    data = stack_pointers()
    values: dict[str, object] = {"without-sp": listed(data["kernel"][~data["told"]])}
    values |= {f"{isa}-sp-told": int(told.sum()) for isa, told in data.groupby("isa")["told"]}
    for field, kind, name in (("value", SAME, "same"), ("kept", LOST, "lost")):
        outcomes = frame["outcome"][frame["field"] == field]
        values |= {f"{field}-total": len(outcomes), f"{field}-{name}": int((outcomes == kind).sum())}
    parts = {"": frame} | {f"{slug(str(release))}-": part for release, part in older().groupby("release")}
    for of, part in parts.items():
        for _, r in counted(part).iterrows():
            key = f"{r['isa']}-{of}{slug(r['use'])}"
            values |= {f"{key}-same": int(r[SAME]), f"{key}-lost": int(r[LOST])}
            values[f"{key}-read"] = int(r[[SAME, LOST, SHIMMED]].sum())
    return values


@in_kernels("k5")
def on_debian() -> Seen:
    """Do Debian's trampolines leave out the stack pointer where the lab's do?"""
    frame, data = rows(), stack_pointers()
    same = frame[(frame["use"] == PROGRAM) & (frame["field"] == "sp")].set_index("isa")["outcome"] == SAME
    without, having = (listed(data["kernel"][data["told"] == given]) or "none" for given in (False, True))
    text = f"return_to_handler of Debian's {without} does not pass the stack pointer, that of {having} does."
    return Seen(text, bool((data["told"] == data["isa"].map(same)).all()))


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of DRAWN, each use with its fields in that order: columns panel, read, on, outcome."""
    some = frame[frame["field"].isin(DRAWN)]
    some = some.assign(on=some["isa"].map(COLUMNS), panel=some["use"].map(PANELS), read=some["field"].map(DRAWN))
    some = some.sort_values("read", key=lambda names: names.map(list(DRAWN.values()).index), kind="stable")
    some = some.sort_values("panel", key=lambda names: names.map(list(PANELS.values()).index), kind="stable")
    return some[["panel", "read", "on", "outcome"]]


FIGURES = (
    Figure(
        "fig-return-migrated",
        "Which fields read the same under the replacement?",
        chart=lambda frame: heat_map("outcome", "read", "on", facet="panel", meanings=MEANINGS, abreast=len(USES))(drawn(frame)),
        table=table,
        alt="A panel per use of a kretprobe, with a row per field that several uses read and a column per ISA: the same, the same "
        "with a shim, lost, or wrong under a kretprobe already. The table has every field of every use.",
        limits=f"Emulated in {LATEST}, and for k5 in {listed(OLDER)}: a field is right if it is told as it was at the function's "
        "return, in calls with other registers and another stack. kept registers: those that functions keep; other: arguments and "
        "scratch. No kernel has a shim.",
        hypothetical=True,
    ),
)
