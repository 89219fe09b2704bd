"""What makes BPF through an fprobe expensive: one reason removed after the other, and what is left over a direct call."""

from __future__ import annotations

import itertools

import pandas as pd

from ...isa import ISAS
from ...lab.run import Run
from ...publish.claims.verdict import BY_ISA, Verdict, across, judges
from ...publish.figures.chart import stacked_bars, waterfall
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, isa_name, listed, marked, on_each
from ..once import once
from .stages import DIRECT, OPTIMISED, REASONS, SEQUENCE, UNOPTIMISED, WITHOUT_NODE, Stage, every, run

NAME = "fprobe_parts"
TITLE = "What makes BPF through an fprobe expensive"
#: Part of a call -> what its functions' names begin with; what begins with none is a trampoline's or a site's.
PARTS = {
    "list function": ("ftrace_ops_list_func", "hash_contains_ip"),
    "fprobe": ("fprobe_handler", "lab_fprobe_args_handler"),
    "return hook": ("rethook_", "arch_rethook_", "objpool_", "rcu_is_watching", "fprobe_exit_handler", "bpf_fprobe_exit"),
    "copying": ("bpf_fprobe_entry",),
    "program, guarded": ("lab_bpf_", "__bpf_prog_", "update_prog_stats", "migrate_", "__rcu_read_"),
}
TRAMPOLINE = "site, trampoline"
ORDER = (TRAMPOLINE, *PARTS)
_BOTH = "fprobe, return hook"
#: A reason counts if removing only this reason saves at least this share of what the unoptimised fprobe adds. The thread gave no
#: number; this one is ours.
LEAST = 0.05
#: Copying is much if it adds at least this share of what a direct call adds. The mail gave no number; this one is ours.
MUCH = 0.1
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
            known = {name: getattr(stage, name, False) for name in CHOSEN}
            head = {"isa": isa, "way": DIRECT if stage == DIRECT else "fprobe", "hypothetical": stage != DIRECT, **known}
            records += [{**head, **part} for part in _parts(hooked, idle)]
    return pd.DataFrame(records)


def _parts(hooked: Run, idle: Run) -> list[dict[str, object]]:
    """What each part executes; the function itself is left out, and so is what the idle site does."""
    found = dict.fromkeys(ORDER, idle.counts.total - idle.counts.total)
    for name, counts in hooked.counts.by_symbol.items():
        part = next((part for part, starts in PARTS.items() if name.startswith(starts)), TRAMPOLINE)
        found[part] += counts
    found[TRAMPOLINE] -= idle.counts.total
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
def four_reasons(frame: pd.DataFrame | None = None) -> Verdict:
    """True of a reason on an ISA if removing only this reason saves LEAST of what the unoptimised fprobe adds."""
    frame = rows() if frame is None else frame
    found = alone(frame)
    cases = found.assign(truth=found["share"] >= LEAST)
    kind, on = across(cases, {"reason": "the reason", **BY_ISA})
    shares = [
        f"{_the(str(name))} {listed(f'{100 * r.share:.1f} % on {isa_name(r.isa)}' for r in part.itertuples())}"
        for name, part in found.groupby("reason", sort=False)
    ]
    because = (
        f"Each reason, removed by itself, saves this share of the instructions that BPF through an unoptimised fprobe adds: "
        f"{'; '.join(shares)}. A reason counts from {100 * LEAST:.0f} %; the thread gave no number, this one is ours. One CPU: the "
        "mail calls the freelist slow under contention, which is d8's matter. One ops, so the list is as short as can be. "
        "Hypothetical: no kernel runs BPF's fentry on an fprobe."
    )
    return Verdict(kind, because, {f"{r.isa}, {r.reason}": f"{100 * r.share:.1f} %" for r in found.itertuples()}, on)


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
    """The same with fprobe and return hook as one: a chart has five colours."""
    data = ways(frame)
    data["part"] = data["part"].replace({"fprobe": _BOTH, "return hook": _BOTH})
    return data.groupby(["isa", "hook", "part"], sort=False)["instructions"].sum().reset_index()


def _ways_table(frame: pd.DataFrame) -> pd.DataFrame:
    data = ways(frame)
    wide = data.pivot(index=["isa", "hook"], columns="part", values="instructions")
    lines = pd.MultiIndex.from_frame(data[["isa", "hook"]].drop_duplicates())
    wide = wide.reindex(index=lines, columns=list(ORDER)).astype("Int64").astype("string").fillna("-")
    wide.columns = ["site+tramp", "list", "fprobe", "rethook", "copying", "program"]
    out = wide.reset_index()
    out.attrs["right"] = list(wide.columns)
    return out


def _ways_answer(frame: pd.DataFrame) -> str:
    over, rest = {}, left(frame)
    for isa in ISAS:
        best, direct = (total(frame, isa, stage) for stage in (OPTIMISED, DIRECT))
        over[isa] = f"{best - direct} more than {direct}"
    copying = rest[rest["part"] == "copying"].set_index("isa")["instructions"]
    text = f"With all four gone, an fprobe adds more instructions than a direct call: {on_each(over)}. "
    return text + f"Copying arguments, cookie and context is {on_each({isa: int(copying[isa]) for isa in ISAS})} of them."


@judges("d5")
def copying_is_too_much(frame: pd.DataFrame | None = None) -> Verdict:
    """True on an ISA if copying alone adds MUCH of what a direct call adds, whatever else an fprobe does."""
    frame = rows() if frame is None else frame
    cases, shares = [], []
    values: dict[str, int | float | str] = {}
    for isa in dict.fromkeys(frame["isa"]):
        direct = chosen(frame, isa, DIRECT).set_index("part")["instructions"]
        copying = int(chosen(frame, isa, WITHOUT_NODE).set_index("part")["instructions"]["copying"])
        share = copying / direct.sum()
        cases.append({"isa": isa, "truth": share >= MUCH})
        whose = f"{100 * share:.0f} % of the {direct.sum()} ({direct[TRAMPOLINE]} its trampoline's)"
        shares.append(f"{copying} on {isa_name(isa)}, {whose}")
        values |= {f"{isa}, copying": copying, f"{isa}, share": f"{100 * share:.0f} %"}
    kind, on = across(pd.DataFrame(cases), BY_ISA)
    because = (
        "Were the fprobe itself free, copying arguments, cookie and run context would still add instructions to what a direct call "
        f"executes, whose trampoline copies too: {'; '.join(shares)}. From {100 * MUCH:.0f} % it counts as much; the mail gave no "
        "number, this one is ours, and what is acceptable no count can say. Hypothetical: no kernel runs BPF's fentry on an "
        "fprobe, and how the copy is written is the lab's."
    )
    return Verdict(kind, because, values, on)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: every stage's total, and the direct call's."""
    keys = ["isa", "way", *CHOSEN]
    return frame.groupby(keys, sort=False)[["instructions", "loads", "stores"]].sum().reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, instructions: "arm64-unoptimised-added", "-optimised-added", "-direct-added", "-over" (the
    optimised one over the direct call), and per part "arm64-copying-over"; "arm64-all-registers-off" and so on, what goes with
    a reason alone; "arm64-ring-added", what the ring adds instead of the list; "arm64-trampolines-apart", by how much the two
    trampolines differ."""
    values: dict[str, object] = {"least": f"{100 * LEAST:.0f} %"}
    for isa in ISAS:
        for name, stage in (("unoptimised", UNOPTIMISED), ("optimised", OPTIMISED), ("direct", DIRECT)):
            values[f"{isa}-{name}-added"] = total(frame, isa, stage)
        values[f"{isa}-over"] = total(frame, isa, OPTIMISED) - total(frame, isa, DIRECT)
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
        limits=f"{_LIMITS}One CPU and one ops. In the table: removed by itself / left by itself. {HYPOTHETICAL}",
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
        limits=f"{_LIMITS}riscv64's direct call comes through ftrace_caller. {HYPOTHETICAL}",
    ),
)
