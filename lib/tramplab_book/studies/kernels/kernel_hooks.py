"""What does each hook cost in real kernels? Debian's, of several releases and flavours, as saved from their images."""

from __future__ import annotations

import textwrap

import pandas as pd

from tramplab.base.width import WIDTH
from tramplab.ftrace.releases import LATEST
from tramplab.isa import ISAS
from tramplab.vmlinux import hooks
from tramplab.vmlinux.results.result import added, made
from tramplab.vmlinux.saved import saved

from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..memo import once

NAME = "kernel_hooks"
TITLE = "What hooks cost in Debian's kernels"
UNITS = {"instructions": "added"}
PLAIN = "plain"
#: What a hook takes: a call at the entry; one at the return as well, or there only; or a breakpoint's exception.
ENTRY, RETURN, EXCEPTION = "entry", "return", "breakpoint"
_RETURNS = ("bpf-fexit", "graph", "fprobe-exit", "kretprobe-multi", "kprobe-session", "kretprobe", "kretprobe-bpf")
#: The flavour whose differences are drawn.
RT = "rt"


@once
def rows() -> pd.DataFrame:
    """One row per kernel and hook: what it adds to one call of a function that is called without it.

    Columns: isa, release, flavour ("plain", "cloud", "rt", "16k"), version, hook, made (what of it is the lab's, see result.MADE),
    status, reason, instructions, loads, stores, frame_bytes, stack_bytes (0 where it is not measured). status: of the result, or
    "uncounted" of a hook that it has not yet.
    """
    records = []
    for found in saved.every():
        kernel, package = found["kernel"], found["package"]
        idle = next(r for r in found["hooks"] if r["hook"] == "none")
        for row in saved.rows(found):
            if row["hook"] == "none":
                continue
            head = {"isa": kernel["isa"], "release": kernel["release"], "flavour": package["flavour"] or PLAIN}
            counts = added(row, idle) if row["status"] == "measured" else {}
            some = {name: counts.get(name, 0) for name in ("instructions", "loads", "stores")}
            sizes = {name: row.get(name, 0) for name in ("frame_bytes", "stack_bytes")}
            texts = {"made": made(row) if counts else "", "status": row["status"], "reason": row.get("reason", "")}
            records.append({**head, "version": kernel["version"], "hook": row["hook"], **texts, **some, **sizes})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the usual kernels that were measured."""
    part = frame[(frame["flavour"] == PLAIN) & (frame["status"] == "measured")]
    part.attrs["units"] = UNITS
    return part


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The hooks with one consumer that all ISAs have in the newest release of all of them, the most expensive first; columns isa,
    hook, kind (what it takes: ENTRY, RETURN or EXCEPTION), instructions."""
    part = plain(frame)
    part = part[~part["hook"].str.contains("[:+]")]
    both = part.groupby("release", sort=False)["isa"].nunique()
    part = part[part["release"] == both.index[both == len(ISAS)][-1]]
    part = part[part.groupby("hook")["isa"].transform("nunique") == len(ISAS)]
    means = part.groupby("hook")["instructions"].mean().sort_values(ascending=False)
    part = part.sort_values("hook", key=lambda names: names.map(list(means.index).index), kind="stable")
    part = part.sort_values("isa", key=lambda names: names.map(list(ISAS).index), kind="stable")
    out = part.assign(kind=part["hook"].map(_kind))[["isa", "hook", "kind", "instructions"]]
    out.attrs["units"] = UNITS
    return out


def _kind(hook: str) -> str:
    if "-brk" in hook:
        return EXCEPTION
    return RETURN if hook in _RETURNS else ENTRY


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and hook, a column per release: instructions added."""
    shown = plain(frame)
    wide = shown.pivot(index=["isa", "hook"], columns="release", values="instructions").astype("Int64")
    order = [(isa, hook) for isa in dict.fromkeys(shown["isa"]) for hook in hooks.HOOKS if (isa, hook) in wide.index]
    releases = list(dict.fromkeys(shown["release"]))
    wide = wide.reindex(pd.MultiIndex.from_tuples(order, names=["isa", "hook"]))[releases]
    wide = wide.astype("string").fillna("-").reset_index()
    made = shown.groupby(["isa", "hook"])["made"].max()
    wide["hook"] = [", ".join(filter(None, (r.hook, made[r.isa, r.hook]))) for r in wide.itertuples()]
    wide.attrs["right"] = releases
    return wide


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions that each hook adds in the plain kernels, like "arm64-ops-static-v6-1-added"; and by how
    much, at the most, a hook adds more or less than there in the real-time flavour, "rt-most-percent", and in all other
    flavours, "others-most-percent"; that hook of the former, with its kernel, "rt-most"; and the same of BPF trampolines on
    x86-64 in the newest release, "rt-x86-bpf-percent"."""
    values: dict[str, object] = {
        f"{slug(f'{r.isa} {r.hook} {r.release}')}-added": int(r.instructions) for r in plain(frame).itertuples()
    }
    off = flavours(frame)
    percent, rt = 100 * (off["here"] / off[PLAIN] - 1).abs(), off["flavour"] == RT
    worst = off.loc[percent[rt].idxmax()]
    bpf = rt & (off["isa"] == "x86_64") & (off["release"] == LATEST) & off["hook"].str.startswith("bpf-")
    values["rt-x86-bpf-percent"] = round(float(percent[bpf].max()), 1) if bpf.any() else 0
    values["rt-most"] = f"{worst['hook']} on {isa_name(worst['isa'])} {worst['release']}"
    return values | {f"{name}-most-percent": round(float(percent[of].max()), 1) for name, of in (("rt", rt), ("others", ~rt))}


def flavours(frame: pd.DataFrame) -> pd.DataFrame:
    """The hooks of which a flavour adds more or less than the plain kernel of the same release: both numbers."""
    both = _paired(frame)
    return both[both["here"] != both[PLAIN]].reset_index(drop=True)


def _paired(frame: pd.DataFrame) -> pd.DataFrame:
    """What every flavour adds beside the plain kernel of the same release, hook by hook."""
    measured = frame[frame["status"] == "measured"]
    usual = measured[measured["flavour"] == PLAIN].set_index(["isa", "release", "hook"])["instructions"]
    items = []
    for row in measured[measured["flavour"] != PLAIN].itertuples():
        other = usual.get((row.isa, row.release, row.hook))
        if other is not None:
            head = {"isa": row.isa, "release": row.release, "flavour": row.flavour, "hook": row.hook}
            items.append({**head, PLAIN: int(other), "here": row.instructions})
    return pd.DataFrame(items, columns=["isa", "release", "flavour", "hook", PLAIN, "here"])


def drawn_flavours(frame: pd.DataFrame) -> pd.DataFrame:
    """What RT kernels add to hooks with one consumer, beyond the plain kernels of their releases, largest first: columns kernel,
    hook, flavour, instructions. Hooks of which no RT kernel adds more are left out, and a kernel that differs as an older one of
    its ISA does."""
    off = _paired(frame)
    off = off[(off["flavour"] == RT) & ~off["hook"].str.contains("[:+]")]
    off = off.assign(kernel=off["isa"].map(isa_name) + " " + off["release"], instructions=off["here"] - off[PLAIN])
    off = off[off.groupby("hook")["instructions"].transform("max") > 0]
    seen: dict[tuple[str, frozenset], str] = {}
    for (isa, kernel), part in off.groupby(["isa", "kernel"], sort=False):
        seen.setdefault((str(isa), frozenset(zip(part["hook"], part["instructions"], strict=True))), str(kernel))
    off = off[off["kernel"].isin(seen.values())]
    most = off.groupby("hook")["instructions"].max().sort_values(ascending=False, kind="stable")
    off = off.sort_values("hook", key=lambda names: names.map(list(most.index).index), kind="stable")
    off = off.sort_values("kernel", key=lambda names: names.map(list(seen.values()).index), kind="stable")
    out = off[["kernel", "hook", "flavour", "instructions"]]
    out.attrs["units"] = {"instructions": "more than plain"}
    return out


def why_not(frame: pd.DataFrame) -> str:
    """Why a plain kernel has no count of a hook: each reason, and the hooks and kernels that it is true of, in lines of text."""
    part = frame[(frame["flavour"] == PLAIN) & (frame["status"] != "measured")]
    lines: list[str] = []
    reasons = [r.replace(f"{v} has", "it has") for r, v in zip(part["reason"], part["version"], strict=True)]
    for reason, group in part.assign(reason=reasons).groupby("reason", sort=False):
        lines += textwrap.wrap(f"{reason}:", WIDTH)
        for (isa, release), rows in group.groupby(["isa", "release"], sort=False):
            text = f"{isa_name(str(isa))} {release}: {', '.join(rows['hook'])}"
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


_LIMITS = (
    "Emulated counts of instructions in one call of bpf_fentry_test1(); no timing. The text of Debian's packages, booted without "
    "mitigations and without KASLR, so that arm64's site reaches BPF's code; callbacks and the traced function are left out. "
    "x86-64's kretprobe-brk is as functions without a patch site have it."
)
FIGURES = (
    Figure(
        "fig-kernel-hooks",
        "What does each hook add in Debian's kernels?",
        chart=lambda frame: stacked_bars("instructions", stack="kind")(drawn(frame)),
        table=table,
        alt="A panel per ISA, a bar per hook with one consumer: instructions that it adds to a call in the newest plain kernel "
        "that Debian has for all three. The table has all hooks and releases.",
        limits=_LIMITS,
        source="image",
    ),
    Figure(
        "fig-kernel-flavours",
        "Do a distribution's flavours differ?",
        chart=lambda frame: stacked_bars("instructions", stack="flavour", facet="kernel")(drawn_flavours(frame)),
        alt="A panel per PREEMPT_RT kernel, a bar per hook with one consumer: instructions that it adds to a call beyond those "
        "that it adds in the plain kernel of the same release. The table has all flavours and hooks.",
        table=flavours,
        limits=_LIMITS,
        source="image",
    ),
)
