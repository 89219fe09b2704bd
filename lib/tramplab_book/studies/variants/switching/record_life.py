"""The life of one record: its counter, its flags, and its patch site, write by write, while ops come and go."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.steps import Step, Write
from tramplab.isa import ISAS
from tramplab.lab.run import Run

from ....publish.figures.chart import state_strip
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.merged_panels import merged
from . import record_flags
from .attached import FUNCTION, Hooked, request

NAME = "record_life"
TITLE = "The life of a record"
UNITS: dict[str, str] = {}
#: What is attached after each change; "+" stands for an ops that wants all registers where there is a trampoline for them,
#: else for a second plain one. The letters are those of attached.request().
LIFE = ("", "a", "a +", "a", "", "d", "d a", "d", "")
#: So many steps of it are drawn; the way back from there is in the table.
LIVED = 7
#: The part of it whose writes are drawn: step -> whether its writes are drawn one by one, or only what they leave.
DRAWN = {0: False, 1: True, 2: True, 3: False, 4: True}
FLAGS = ("REGS", "TRAMP", "DIRECT", "CALL_OPS")
#: The kernel's own ops, as a pointer beside a function may name them.
POINTERS = {"ftrace_nop_ops": "nop", "ftrace_list_ops": "list"}
TRAP = "trap"
#: What the chart calls a copy of a common trampoline that was made for one ops.
OWN = "own copy"


@once
def rows() -> pd.DataFrame:
    """One row per ISA and write to the function's patch site or ops pointer, in the newest release; and one before the first.

    Columns: isa, release, step (in LIFE), ops (what is attached, with "other" for the +), write ("int3", "tail", "first
    byte", "instruction", "ops pointer"; "" if a change needs none), last (of its step), count and flags (of the record),
    pointer (whose ops lie beside the function: a letter, "nop" or "list"; "" without CALL_OPS), site (bytes, hexadecimal),
    target (where the record says the site leads), leads (where a call then goes from the site: a symbol, "" for the body,
    "trap" for the handler of breakpoints), calls (what the trampoline calls), ran (whose callbacks, in order).
    """
    release = releases.LATEST
    records = []
    for isa in ISAS:
        subject = _Watched(isa, release)
        other = "r" if subject.can("r") else "b"
        for step, state in enumerate(LIFE):
            subject.reach(state.replace("+", other))
            seen = subject.writes or [{"write": "", **subject.state()}]
            for n, row in enumerate(seen, 1):
                named = {key: row[key].replace(other, "other") for key in ("pointer", "ran")}
                when = {"isa": isa, "release": release, "step": step, "ops": state.replace("+", "other")}
                records.append({**when, "last": n == len(seen), **row, **named})
    head = ["isa", "release", "step", "ops", "write", "last", "count", "flags"]
    frame = pd.DataFrame(records)[[*head, "pointer", "site", "target", "leads", "calls", "ran"]]
    frame.attrs["units"] = UNITS
    return frame


class _Watched(Hooked):
    """A subject whose plans are applied one step at a time; `writes` is what the last change did to site and pointer."""

    def __init__(self, isa: str, release: str) -> None:
        self.writes: list[dict[str, Any]] = []
        super().__init__(isa, release)

    def attach(self, letter: str) -> None:
        ops, steps = self.kernel.slowpath.register(dataclasses.replace(request(letter, self.kernel.features), filter=(FUNCTION,)))
        self._attached.append((letter, ops))
        self._apply(steps)

    def detach(self, place: int = -1) -> None:
        self._apply(self.kernel.slowpath.unregister(self._attached[place][1]))
        self._attached.pop(place)

    def state(self) -> dict[str, Any]:
        """The record, the site, and what a call makes of them."""
        site, slowpath = self.function.site, self.kernel.slowpath
        trap = self.kernel.machine.instruction_at(site.ip).mnemonic == "int3"
        run = None if trap else self._call()
        target = slowpath.target(FUNCTION)
        pointer, way = self._literal(), self._way(run) if run else {}
        return {
            "count": self._record.count,
            "flags": " ".join(self._record.names),
            "pointer": POINTERS.get(pointer, pointer),
            "site": self.kernel.machine.read(site.ip, site.body - site.ip).hex(),
            "target": self.kernel.names()(target) if target else "",
            "leads": way["target"] if run else TRAP,
            "calls": self._called(run, way["calls"]) if run else "",
            "ran": " ".join(self._ran(run)) if run else "",
        }

    def _called(self, run: Run, part: str) -> str:
        """What the trampoline calls; ftrace_stub may lie among the trampolines and so is no part of its own."""
        return part or ("ftrace_stub" if any(run.symbol_of(s.pc) == "ftrace_stub" for s in run.steps) else "")

    def _apply(self, steps: list[Step]) -> None:
        self.writes = []
        site = self.function.site
        for step in steps:
            self.kernel.apply([step])
            if isinstance(step, Write) and (site.holds(step.address) or step.address == site.literal):
                self.writes.append({"write": self._name(step), **self.state()})

    def _name(self, write: Write) -> str:
        """What a write of a plan is: known by its place and size."""
        site = self.function.site
        if write.address == site.literal:
            return "ops pointer"
        if len(write.data) == site.body - site.ip:
            return "instruction"
        if write.address > site.ip:
            return "tail"
        return "int3" if self.kernel.machine.instruction_at(site.ip).mnemonic == "int3" else "first byte"


# -- what is shown


def flag(names: str, name: str) -> str:
    """A flag with its _EN twin: "in force" if the site was made to follow it, "wanted" if only the record has it, or "-"."""
    flags = names.split()
    return ("in force" if f"{name}_EN" in flags else "wanted") if name in flags else "-"


def choosing_flags(names: str) -> str:
    """The flags that choose a trampoline; those that are wanted but not in force in brackets.

    >>> choosing_flags("ENABLED REGS REGS_EN DIRECT TOUCHED")
    'REGS (DIRECT)'
    """
    states = {name: flag(names, name) for name in FLAGS}
    return " ".join(name if state == "in force" else f"({name})" for name, state in states.items() if state != "-")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """What every change leaves: n, the counter; site, the bytes there. The ops pointers are among the writes."""
    last = frame[frame["last"]]
    columns = {"n": last["count"], "flags": last["flags"].map(choosing_flags), "target": last["target"], "site": last["site"]}
    printed = pd.DataFrame(
        {"isa": last["isa"] + " " + last["release"], "ops": last["ops"].str.replace(" ", " + "), **columns}
    )
    return printed.replace("", pd.NA)


def writes(frame: pd.DataFrame) -> pd.DataFrame:
    """Every write: what it is, what it leaves, and what a call then does."""
    out = frame[["ops", "write", "pointer", "site", "leads", "ran"]].rename(columns={"pointer": "ptr"})
    out.insert(0, "isa", frame["isa"] + " " + frame["release"])
    return out.assign(ops=out["ops"].str.replace(" ", " + ")).replace("", pd.NA)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: every write."""
    return writes(frame)


def life(frame: pd.DataFrame) -> pd.DataFrame:
    """The record after the changes drawn, as lanes: one row per ISA, step and lane."""
    items = []
    for row in frame[frame["last"] & (frame["step"] < LIVED)].rename(columns={"count": "wanted"}).itertuples(index=False):
        lanes = {
            "count": str(row.wanted),
            **{name: flag(row.flags, name) for name in FLAGS},
            "ops pointer": _NAMES.get(row.pointer, row.pointer) or "-",
            "target": _short(row.target) or "-",
        }
        head = {"isa": row.isa, "step": f"{row.step + 1}: {_attached(row.ops)}"}
        items += [{**head, "lane": lane, "state": state} for lane, state in lanes.items()]
    return pd.DataFrame(items)


def _attached(ops: str) -> str:
    """What is attached, in words: "first + direct"."""
    return " + ".join(_NAMES.get(letter, letter) for letter in ops.split()) or "none"


_NAMES = {"a": "first", "d": "direct"}
_NARROW = {"ftrace_caller": "caller", "ftrace_regs_caller": "regs caller", "lab_direct_near": "stub"}


def _short(symbol: str) -> str:
    """A symbol as a narrow block has room for it."""
    return OWN if symbol.startswith("ftrace_trampoline[") else _NARROW.get(symbol, symbol)


def order(frame: pd.DataFrame) -> pd.DataFrame:
    """Site and ops pointer after every write of the changes drawn, as lanes. An ISA that needs fewer writes for a change
    than another stays as it is for the rest."""
    most = frame.groupby(["step", "isa"]).size().groupby("step").max()
    records = []
    for isa, part in frame.groupby("isa", sort=False):
        idle = part["site"].iloc[0]
        called = {s for s, t in zip(part["site"], part["leads"], strict=True) if t and t != TRAP}
        for step, each in DRAWN.items():
            seen = list(part[part["step"] == step].itertuples(index=False))
            for n in range(most[step]) if each else [len(seen) - 1]:
                row = seen[min(n, len(seen) - 1)]
                head = {"isa": isa, "step": f"{_change(step)} {n + 1}" if each else _change(step)}
                lanes = {
                    "ops pointer": _NAMES.get(row.pointer, row.pointer) or "-",
                    "site": _site(row.site, idle, called),
                    "leads to": _short(row.leads) or "the body",
                    "callbacks": " ".join(_NAMES.get(letter, letter) for letter in row.ran.split()) or "none",
                }
                records += [{**head, "lane": lane, "state": state} for lane, state in lanes.items()]
    return pd.DataFrame(records)


def _change(step: int) -> str:
    """What a change is: "first added", "other removed"; "none" before the first."""
    if not step:
        return "none"
    before, after = LIFE[step - 1].split(), LIFE[step].split()
    moved = (set(before) ^ set(after)).pop()
    return f"{_NAMES.get(moved, 'other')} {'added' if len(after) > len(before) else 'removed'}"


def _site(site: str, idle: str, called: set[str]) -> str:
    """The bytes of a site in words: a breakpoint before the rest of a NOP is "INT3 + NOP"."""
    if site == idle:
        return "NOP"
    if site in called:
        return "call"
    rest = site[2:]
    return "INT3 + NOP" if rest == idle[2:] else "INT3 + call"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: on all ISAs together after how many changes the record was looked at ("seen-total"), how many
    different sets of ops were attached then ("attached-total"), and how many different records they had ("records-total"); and how
    many writes a change makes, "arm64-writes", or "2 or 3" where not all make the same number; besides, the numbers of
    record_flags."""
    last = frame[frame["last"]]
    records = last.assign(flags=last["flags"].map(choosing_flags))[["isa", "ops", "count", "flags", "pointer", "target"]]
    values: dict[str, object] = {"seen-total": len(records), "records-total": len(records.drop_duplicates())}
    values["attached-total"] = len(records[["isa", "ops"]].drop_duplicates())
    sizes = frame[frame["write"] != ""].groupby(["isa", "step"], sort=False).size()
    values |= record_flags.numbers(record_flags.rows())
    return values | {f"{isa}-writes": " or ".join(map(str, sorted(set(of)))) for isa, of in sizes.groupby("isa", sort=False)}




FIGURES = (
    Figure(
        "fig-record-life",
        f"What becomes of a record while ops come and go? ({releases.LATEST})",
        rows=lambda frame: frame[frame["last"]],
        chart=lambda frame: state_strip()(life(frame)),
        table=table,
        tabs="isa",
        alt="The counter, the flags that are ever set, the ops "
        "pointer and the target of one record, from nothing attached over an ops, two ops and a direct call back to nothing. The "
        "table has the bytes at the site too.",
        limits="A three-argument function. a: the first ops, plain; other: wants all registers on x86-64, plain elsewhere; d: a "
        "direct call, out of reach on riscv64. A flag in brackets is set without its _EN twin. n: the counter.",
    ),
    Figure(
        "fig-record-writes",
        f"In which order is a site rewritten? ({releases.LATEST})",
        chart=lambda frame: state_strip()(merged(order(frame))),
        table=writes,
        alt="A panel for x86-64, and one for arm64 and riscv64 together: ops pointer, site, where it leads and whose callbacks a "
        "call then runs, after every single write while one ops comes, another joins it, and the last one leaves. The table has "
        "all writes, the direct call's too.",
        limits="One CPU, which calls the function after every write. trap: the breakpoint's handler, which the lab does not "
        "have. ptr: the ops beside the function; ran: whose callbacks ran in a call at that moment, in order.",
    ),
)
