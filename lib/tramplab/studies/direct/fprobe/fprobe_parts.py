"""What makes BPF through an fprobe expensive: one reason removed after the other, and what is left over a direct call."""

from __future__ import annotations

import itertools

import pandas as pd

from ....isa import ISAS
from ....lab.run import Run
from ....publish.claims.claims import HOLDS, UNDECIDABLE
from ....publish.claims.verdict import BY_ISA, Verdict, across, judges
from ....publish.figures.chart import stacked_bars, waterfall
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name, listed, marked, on_each
from ...memo import once
from ..returns.signatures import FRAME, adapters
from .stages import ARGUMENTS, DIRECT, OPTIMISED, OWN_STACK, REASONS, SEQUENCE, UNOPTIMISED, WITHOUT_NODE, Stage, every, run

NAME = "fprobe_parts"
TITLE = "What makes BPF through an fprobe expensive"
#: Part of a call -> what its functions' names begin with; what begins with none is a trampoline's or a site's.
PARTS = {
    "list function": ("ftrace_ops_list_func", "hash_contains_ip"),
    "fprobe": ("fprobe_handler", "lab_fprobe_args_handler"),
    "return hook": ("rethook_", "arch_rethook_", "objpool_", "rcu_is_watching", "fprobe_exit_handler", "bpf_fprobe_exit"),
    "handler": ("bpf_fprobe_entry",),
    "program, guarded": ("lab_bpf_", "__bpf_prog_", "update_prog_stats", "migrate_", "__rcu_read_"),
}
#: What of the handler goes into the arguments alone: what it executes more than for a function without any.
COPYING, HANDLER, PROGRAM = "copying", "handler", "program, guarded"
TRAMPOLINE = "site, trampoline"
ORDER = (TRAMPOLINE, "list function", "fprobe", "return hook", COPYING, HANDLER, PROGRAM)
_BOTH, _CALLED = "fprobe, return hook", "handler, program"
#: From this share of what the unoptimised fprobe adds the figure's answer names a reason. No verdict rests on it.
LEAST = 0.05
#: Why d5 is no run's to decide.
UNDECIDED = "what overhead is acceptable is a judgement"
STEPS = ["unoptimised", *(f"no {name}" for name in REASONS.values()), "no node at all", "no fprobe"]
#: Columns that tell the stage.
CHOSEN = ("regs", "walk", "hook", "freelist", "node")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way to the program and part of the call: what a hooked call executes more than the unhooked one.

    Columns: isa, way ("fprobe" or "direct"), hypothetical (every fprobe is: no kernel runs BPF's fentry on one), regs, walk, hook,
    freelist, node (see stages.Stage; all False for the direct call), part (a name of ORDER), instructions, loads, stores.
    """
    records = []
    for isa in ISAS:
        stages: list[Stage | str] = [*every(), DIRECT]
        for stage in stages:
            hooked, idle = run(isa, stage)
            without, _ = run(isa, stage, arguments=False)
            known = {name: getattr(stage, name, False) for name in CHOSEN}
            head = {"isa": isa, "way": DIRECT if stage == DIRECT else "fprobe", "hypothetical": stage != DIRECT, **known}
            records += [{**head, **part} for part in _parts(hooked, idle, without)]
    return pd.DataFrame(records)


@once
def pools() -> pd.DataFrame:
    """What the unoptimised and the optimised fprobe add with their node from the shared list, the ring that came in v6.7, and the
    stack of each task that was proposed. One row per ISA and pool; columns isa, pool, unoptimised, optimised (instructions)."""
    out = []
    for isa in ISAS:
        for pool in ("freelist", "objpool", OWN_STACK):
            row: dict[str, object] = {"isa": isa, "pool": pool}
            for name, stage in (("unoptimised", UNOPTIMISED), ("optimised", OPTIMISED)):
                hooked, idle = run(isa, stage, pool)
                row[name] = hooked.counts.total.instructions - idle.counts.total.instructions
            out.append(row)
    return pd.DataFrame(out)


def _parts(hooked: Run, idle: Run, without: Run) -> list[dict[str, object]]:
    """What each part executes; the function itself is left out, and so is what the idle site does. without: the same hook on a
    function without arguments."""
    found = dict.fromkeys(ORDER, idle.counts.total - idle.counts.total)
    for name, counts in hooked.counts.by_symbol.items():
        part = next((part for part, starts in PARTS.items() if name.startswith(starts)), TRAMPOLINE)
        found[part] += counts
    found[TRAMPOLINE] -= idle.counts.total
    for name, counts in without.counts.by_symbol.items():
        if name.startswith(PARTS[HANDLER]):
            found[COPYING] += found[HANDLER] - counts
            found[HANDLER] = counts
    return [{"part": p, "instructions": c.instructions, "loads": c.loads, "stores": c.stores} for p, c in found.items()]


def total(frame: pd.DataFrame, isa: str, stage: Stage | str, column: str = "instructions") -> int:
    """What a stage adds to a call."""
    return int(chosen(frame, isa, stage)[column].sum())


def chosen(frame: pd.DataFrame, isa: str, stage: Stage | str) -> pd.DataFrame:
    """The rows of one stage, or of the direct call."""
    rows = frame[frame["isa"] == isa]
    if isinstance(stage, str):
        return rows[rows["way"] == DIRECT]
    rows = rows[rows["way"] != DIRECT]
    for name in CHOSEN:
        rows = rows[rows[name] == getattr(stage, name)]
    return rows


# --- One after the other


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """The waterfall, a row per ISA and step. Columns: isa, step, instructions (what the unoptimised one adds, then changes)."""
    items = []
    for isa in dict.fromkeys(frame["isa"]):
        stages: list[Stage | str] = [*SEQUENCE, WITHOUT_NODE, DIRECT]
        sums = [total(frame, isa, stage) for stage in stages]
        names = [marked(STEPS[0]), *STEPS[1:]]
        changes = [sums[0], *(b - a for a, b in itertools.pairwise(sums))]
        items += [{"isa": isa, "step": name, "instructions": n} for name, n in zip(names, changes, strict=True)]
    return pd.DataFrame(items)


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """What each reason takes when it alone is taken away, and what it brings back as the only one. Columns: isa, reason, off, share
    (of what the unoptimised one adds), back."""
    items = []
    for isa in dict.fromkeys(frame["isa"]):
        whole, best = total(frame, isa, UNOPTIMISED), total(frame, isa, OPTIMISED)
        for reason, name in REASONS.items():
            without = Stage(**{r: r != reason for r in REASONS})
            only = Stage(**{r: r == reason for r in REASONS})
            off = whole - total(frame, isa, without)
            row = {"isa": isa, "reason": name, "off": off, "share": off / whole, "back": total(frame, isa, only) - best}
            items.append(row)
    return pd.DataFrame(items)


def _steps_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per reason: instructions saved by removing only this reason, and added by leaving only this one, for each ISA."""
    wide = alone(frame)
    wide["said"] = [f"{-r.off:+d} / {r.back:+d}" for r in wide.itertuples()]
    out = wide.pivot(index="reason", columns="isa", values="said").reindex(index=list(REASONS.values()), columns=list(ISAS))
    out = out.reset_index()
    out.columns.name = None
    out.attrs["right"] = list(ISAS)
    return out


def _steps_answer(frame: pd.DataFrame) -> str:
    found = alone(frame)
    off = {isa: total(frame, isa, UNOPTIMISED) - total(frame, isa, OPTIMISED) for isa in ISAS}
    whole = {isa: f"{off[isa]} of {total(frame, isa, UNOPTIMISED)}" for isa in ISAS}
    counts = found[found["share"] >= LEAST].groupby("reason", sort=False)["isa"].apply(list)
    everywhere = [name for name in REASONS.values() if len(counts.get(name, [])) == len(ISAS)]
    nowhere = [name for name in REASONS.values() if name not in counts]
    text = f"The proposal's four reasons account for {on_each(whole, 'instructions that BPF through an fprobe adds')}. "
    text += f"Alone, {listed(map(_the, everywhere))} {'is' if len(everywhere) == 1 else 'are'} worth "
    text += f"{100 * LEAST:.0f} % or more on every ISA" if everywhere else "nothing is worth as much on every ISA"
    some = [name for name in REASONS.values() if name in counts and name not in everywhere]
    for name in some:
        text += f"; {_the(name)} on {listed(map(isa_name, counts[name]))}, too"
    return text + (f"; {listed(map(_the, nowhere))} nowhere." if nowhere else ".")


def _the(reason: str) -> str:
    """A reason in a sentence."""
    return "saving all registers" if reason == REASONS["regs"] else f"the {reason}"


@judges("d3")
def four_reasons(frame: pd.DataFrame | None = None, nodes: pd.DataFrame | None = None) -> Verdict:
    """True of a reason on an ISA if a call executes fewer instructions without it: the first three as the merged changes took them
    away, the fourth as it was to be, by a stack of each task. nodes: rows of pools()."""
    frame, nodes = rows() if frame is None else frame, pools() if nodes is None else nodes
    off = alone(frame).set_index(["isa", "reason"])["off"].astype(int)
    added = nodes.set_index(["isa", "pool"])
    ring = {isa: -int(off[isa, REASONS["freelist"]]) for isa in dict.fromkeys(frame["isa"])}
    for isa in ring:
        off[isa, REASONS["freelist"]] = added.loc[(isa, "freelist"), "unoptimised"] - added.loc[(isa, OWN_STACK), "unoptimised"]
    found = off.rename("off").reset_index()
    kind, on = across(found.assign(truth=found["off"] > 0), {"reason": "the reason", **BY_ISA})
    whole = {isa: int(added.loc[(isa, "freelist"), "unoptimised"]) for isa in ring}
    left = {isa: int(added.loc[(isa, OWN_STACK), "optimised"]) for isa in ring}
    least = found.loc[found["off"].idxmin()]
    one = next(iter(ring)) if "arm64" not in ring else "arm64"
    because = (
        f"Without each of the four a call executes fewer instructions, on every ISA. Without all of them {left[one]} of "
        f"{whole[one]} are left on {isa_name(one)}: what remains is fprobe's own. The ring per CPU that replaced the freelist in "
        "v6.7 executes more than the list on one CPU."
        if kind == HOLDS
        else f"Without {_the(str(least['reason']))} a call on {isa_name(str(least['isa']))} executes {-int(least['off'])} "
        "instructions more, not fewer."
    )
    values: dict[str, int | float | str] = {f"{isa_name(r.isa)}, without {_the(r.reason)}": int(-r.off) for r in found.itertuples()}
    values |= {f"{isa_name(isa)}, a ring for the list": ring[isa] for isa in ring}
    values |= {f"{isa_name(isa)}, {name}": of[isa] for name, of in (("all", whole), ("without the four", left)) for isa in ring}
    return Verdict(kind, because, values, on)


# --- What is left


def left(frame: pd.DataFrame) -> pd.DataFrame:
    """What the optimised fprobe executes more than the direct call, by part. Columns: isa, part, instructions, loads, stores."""
    names = ["instructions", "loads", "stores"]
    items = []
    for isa in dict.fromkeys(frame["isa"]):
        best, direct = (chosen(frame, isa, stage).set_index("part")[names] for stage in (OPTIMISED, DIRECT))
        items.append((best - direct).reset_index().assign(isa=isa))
    return pd.concat(items, ignore_index=True)[["isa", "part", *names]]


def ways(frame: pd.DataFrame) -> pd.DataFrame:
    """What the bars show: the unoptimised fprobe, the optimised one, and the direct call, by part."""
    fprobes = {"fprobe": UNOPTIMISED, "all four gone": OPTIMISED, "no node": WITHOUT_NODE}
    named: dict[str, Stage | str] = {marked(name): stage for name, stage in fprobes.items()} | {DIRECT: DIRECT}
    parts = [chosen(frame, isa, stage).assign(hook=name) for isa in ISAS for name, stage in named.items()]
    out = pd.concat(parts)[["isa", "hook", "part", "instructions", "loads", "stores"]]
    return out[out["instructions"] > 0]


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with fprobe and return hook as one, and handler and program: a chart has five colours."""
    data = ways(frame)
    data["part"] = data["part"].replace({"fprobe": _BOTH, "return hook": _BOTH, HANDLER: _CALLED, PROGRAM: _CALLED})
    return data.groupby(["isa", "hook", "part"], sort=False)["instructions"].sum().reset_index()


def _ways_table(frame: pd.DataFrame) -> pd.DataFrame:
    data = ways(frame)
    wide = data.pivot(index=["isa", "hook"], columns="part", values="instructions")
    lines = pd.MultiIndex.from_frame(data[["isa", "hook"]].drop_duplicates())
    wide = wide.reindex(index=lines, columns=list(ORDER)).astype("Int64").astype("string").fillna("-")
    wide.columns = ["tramp", "list", "fprobe", "rethook", "copying", "handler", "program"]
    out = wide.reset_index()
    out.attrs["right"] = list(wide.columns)
    return out


def _ways_answer(frame: pd.DataFrame) -> str:
    over, rest = {}, left(frame)
    for isa in ISAS:
        best, direct = (total(frame, isa, stage) for stage in (OPTIMISED, DIRECT))
        over[isa] = f"{best - direct} more than {direct}"
    of = {part: rest[rest["part"] == part].set_index("isa")["instructions"].astype(int).to_dict() for part in (COPYING, HANDLER)}
    said = f"With all four gone, an fprobe adds more instructions than a direct call: {on_each(over)}. "
    return said + f"Copying two arguments is {on_each(of[COPYING])} of them; the handler around it, {on_each(of[HANDLER])}."


@judges("d5")
def copying_is_too_much(frame: pd.DataFrame | None = None) -> Verdict:
    """What copying takes, whatever else an fprobe does; whether that is too much no run decides."""
    frame = rows() if frame is None else frame
    stored = adapters().set_index(["isa", "way", "arguments"])["instructions"]
    values: dict[str, int | float | str] = {}
    copying = {}
    for isa in dict.fromkeys(frame["isa"]):
        parts = chosen(frame, isa, WITHOUT_NODE).set_index("part")["instructions"]
        copying[isa], name = int(parts[COPYING]), isa_name(isa)
        values |= {f"{name}, copied from ftrace_regs": copying[isa], f"{name}, the handler around it": int(parts[HANDLER])}
        values[f"{name}, stored by a direct call's trampoline"] = int(stored[isa, FRAME, len(ARGUMENTS)])
        values[f"{name}, a direct call in all"] = total(frame, isa, DIRECT)
    because = (
        f"Copying two arguments from ftrace_regs takes {on_each(copying, 'instructions')}, more than storing them does. The "
        "handler around the copy, with cookie and run context, is the lab's. The mail names no acceptable overhead but zero."
    )
    return Verdict(UNDECIDABLE, because, values, UNDECIDED)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: every stage's total, and the direct call's."""
    keys = ["isa", "way", *CHOSEN]
    return frame.groupby(keys, sort=False)[["instructions", "loads", "stores"]].sum().reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, instructions: "arm64-unoptimised-added", "-optimised-added", "-direct-added", "-proposed-added" (the
    optimised one with a stack of nodes for each task), "-over" (the optimised one over the direct call), and per part
    "arm64-copying-over", "arm64-handler-over"; "arm64-all-registers-off" and so on, what a call saves without a reason;
    "arm64-ring-added", what the ring executes more than the list, and "arm64-stack-off", what a stack per task saves;
    "arm64-trampolines-apart", by how much the two trampolines differ."""
    values: dict[str, object] = {"least": f"{100 * LEAST:.0f} %"}
    for isa in ISAS:
        for name, stage in (("unoptimised", UNOPTIMISED), ("optimised", OPTIMISED), ("direct", DIRECT)):
            values[f"{isa}-{name}-added"] = total(frame, isa, stage)
        values[f"{isa}-over"] = total(frame, isa, OPTIMISED) - total(frame, isa, DIRECT)
    nodes = pools().set_index(["isa", "pool"])
    whole, best = nodes["unoptimised"], nodes["optimised"]
    values |= {f"{isa}-stack-off": int(whole[isa, "freelist"] - whole[isa, OWN_STACK]) for isa in ISAS}
    values |= {f"{isa}-proposed-added": int(best[isa, OWN_STACK]) for isa in ISAS}
    for r in left(frame).itertuples():
        values[f"{r.isa}-{r.part.replace(', ', '-').replace(' ', '-')}-over"] = int(r.instructions)
    for r in alone(frame).itertuples():
        values[f"{r.isa}-{r.reason.replace(' ', '-')}-off"] = int(r.off)
        if r.reason == REASONS["freelist"]:
            values[f"{r.isa}-ring-added"] = int(-r.off)
    rest = left(frame)
    apart = rest[rest["part"] == TRAMPOLINE].set_index("isa")["instructions"]
    values |= {f"{isa}-trampolines-apart": abs(int(n)) for isa, n in apart.items()}
    return values


_LIMITS = "Emulated counts of instructions in one call of a two-argument function with one program, less the unhooked call's; no "
_LIMITS += "timing. "
FIGURES = (
    Figure(
        "fig-fprobe-reasons",
        "What makes BPF through an fprobe expensive?",
        chart=lambda frame: waterfall("instructions", "step", end=DIRECT)(steps(frame)),
        table=_steps_table,
        answer=_steps_answer,
        alt="A waterfall per ISA: what BPF through an unoptimised fprobe adds to a call, in instructions, what goes with each of "
        "the four reasons that were named, one after the other, then with the hook's node and the fprobe itself, and the direct "
        "call that is left. The table has what removing only this reason saves, and what leaving only this one adds.",
        limits=f"{_LIMITS}One CPU and one ops. In the table: removed by itself / left by itself.",
        hypothetical=True,
    ),
    Figure(
        "fig-fprobe-left",
        "What is left over a direct call when all four are gone?",
        chart=lambda frame: stacked_bars("instructions", bars="hook", stack="part")(_drawn(frame)),
        table=_ways_table,
        answer=_ways_answer,
        alt="Four bars per ISA: BPF through an unoptimised fprobe, through one without the four reasons, through one that takes no "
        "node of a return hook either, and by a direct call, each made of its parts: site and trampoline, list function, fprobe "
        "and return hook, copying, and the program with its guards.",
        limits=f"{_LIMITS}riscv64's direct call comes through ftrace_caller.",
        hypothetical=True,
    ),
)
