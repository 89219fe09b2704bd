"""Which functions make the difference between the lab and a real kernel? Each comparison that is off by more than a little,
function by function."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.vmlinux.open.image import TRAMPOLINES
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.results.result import MADE
from tramplab.vmlinux.saved import saved

from ...publish.figures.chart import Drawing, stacked_bars
from ...publish.figures.figure import Figure
from ..memo import once
from . import real_kernels
from .names import NAMES

NAME = "kernel_functions"
TITLE = "Where the lab and Debian's kernels differ, function by function"
#: Percent of a part's instructions: what is off by less is not looked into.
LITTLE = 5
#: One of each kind: what further ops add is told by two.
_PLAIN = ("ops", "ops-regs", "ops-assist", "ops:2", "livepatch", "direct-far", "direct+ops", "bpf-fentry", "bpf-fexit")
_LOOKED_INTO = (*_PLAIN, *real_kernels.PROBES)
_COPIED = "ftrace_trampoline"
#: Names of what a breakpoint or a kretprobe runs -> under which it is compared, on each ISA: the kernel's for the lab's functions,
#: the entry's for labels behind it and for what saves its registers, and the caller's for what is part of that on one side.
_UNDER = {
    "x86_64": {
        **NAMES["x86_64"],
        **dict.fromkeys(("lab_error_entry", "error_entry", "error_return"), "asm_exc_int3"),
        **dict.fromkeys(("restore_regs_and_return_to_kernel", "early_xen_iret_patch"), "asm_exc_int3"),
        "native_irq_return_iret": "asm_exc_int3",
        "smp_text_poke_int3_handler": "poke_int3_handler",
    },
    "arm64": {
        **NAMES["arm64"],
        **dict.fromkeys(("vectors", "ret_to_kernel"), "el1h_64_sync"),
        **dict.fromkeys(("kprobe_busy_begin", "kprobe_busy_end"), "kretprobe_brk_handler"),
        **dict.fromkeys(("lab_oldest", "arch_kretprobe_fixup_return"), "__kretprobe_trampoline_handler"),
        "objpool_push": "recycle_rp_inst",
    },
    "riscv64": {**NAMES["riscv64"], "ret_from_exception": "handle_exception"},
}
#: Functions of each ISA in the chart.
_DRAWN = 5
#: Characters of a function's name in the table.
_ROOM = 24
UNITS = {"kernel": "insns", "lab": "insns"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook, part and function, of the parts that are off by more than LITTLE percent.

    Columns: isa, release, hook, part, function, kernel, lab (instructions in a call; 0 where there is no such function).
    """
    off = real_kernels.rows()
    off = off[(off["off"].abs() > LITTLE) & off["hook"].isin(_LOOKED_INTO)]
    found = {(r["kernel"]["isa"], r["kernel"]["release"]): r for r in saved.plain()}
    records = []
    for case in off.itertuples():
        result = found[case.isa, case.release]
        real = _whole_ones(_real(result, case.hook), _UNDER[case.isa])
        lab = beside.functions(case.isa, case.release, case.hook, *beside.overrides(result["kernel"]))
        lab = _whole_ones(lab, _UNDER[case.isa])
        part = case.part == real_kernels.TRAMPOLINE
        wanted = [name for name in {**real, **lab} if name not in MADE and _is_trampoline(name) == part]
        for name in sorted(wanted, key=lambda name: (-real.get(name, 0), name)):
            head = {"isa": case.isa, "release": case.release, "hook": case.hook, "part": case.part, "function": name}
            records.append({**head, "kernel": real.get(name, 0), "lab": lab.get(name, 0)})
    frame = pd.DataFrame(records, columns=["isa", "release", "hook", "part", "function", "kernel", "lab"])
    frame.attrs["units"] = UNITS
    return frame


def _real(result: dict, hook: str) -> dict[str, int]:
    """Instructions of the kernel's own functions in a saved call."""
    row = next(r for r in result["hooks"] if r["hook"] == hook)
    counts: dict[str, int] = {}
    for name, (instructions, *_) in row["symbols"].items():
        counts[beside.plain(name)] = counts.get(beside.plain(name), 0) + instructions
    return counts


def _whole_ones(counts: dict[str, int], under: dict[str, str]) -> dict[str, int]:
    """Labels inside a common trampoline, and what is compared under one name, taken together."""
    by_name: dict[str, int] = {}
    for name, instructions in counts.items():
        whole = under.get(name) or _whole(name)
        by_name[whole] = by_name.get(whole, 0) + instructions
    return by_name


def _is_trampoline(name: str) -> bool:
    return name == _COPIED or bool(TRAMPOLINES.match(name))


def _whole(name: str) -> str:
    """The function that a name is a part of: the labels inside a common trampoline belong to it."""
    if not TRAMPOLINES.match(name) or any(of in name for of in ("return", "rethook", "kretprobe")):
        return name
    return "ftrace_regs_caller" if "regs" in name else "ftrace_caller"


def _cut(name: str) -> str:
    """A name as the table has room for it."""
    return name if len(name) <= _ROOM else f"{name[: _ROOM - 2]}.."


def _first(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without counts that an earlier hook has, too."""
    return frame.drop_duplicates(["isa", "release", "function", "kernel", "lab"])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, hook and function, of which a long name is cut; per release, of the three newest, the kernel's instructions
    and the lab's. Counts stand with the first hook that has them."""
    if frame.empty:
        return frame.drop(columns=["part"])
    frame = frame[frame["release"].isin(sorted(frame["release"].unique(), key=releases.parse)[-3:])]
    first = _first(frame)
    both = zip(first["kernel"], first["lab"], strict=True)
    shown = first.assign(cell=[f"{k} {n}" for k, n in both])
    keys = shown[["isa", "hook", "function"]].drop_duplicates()
    wide = shown.pivot(index=["isa", "hook", "function"], columns="release", values="cell")
    wide = wide.reindex(pd.MultiIndex.from_frame(keys)).fillna("-").reset_index()
    wide["function"] = wide["function"].map(_cut)
    wide.columns = [str(c) for c in wide.columns]
    wide.attrs["right"] = list(dict.fromkeys(frame["release"]))
    return wide


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The functions with the largest differences in one call in the newest release of each ISA, the largest first: columns isa,
    function, instructions (the difference), more (where there are more), said (of how many there)."""
    far = frame.assign(gap=(frame["kernel"] - frame["lab"]).abs()).sort_values("gap", ascending=False, kind="stable")
    far = far[(far["kernel"] > 0) & (far["lab"] > 0)]  # what is part of another function on one side tells nothing
    newest = frame.groupby("isa")["release"].transform(lambda r: max(r, key=releases.parse))[far.index]
    far = far[far["release"] == newest].drop_duplicates(["isa", "function"]).groupby("isa", sort=False).head(_DRAWN)
    far = far.sort_values("isa", key=lambda names: names.map(list(ISAS).index), kind="stable")
    more = (far["kernel"] > far["lab"]).map({True: "in the kernel", False: "in the lab"})
    said = [f"of {max(r.kernel, r.lab)}" for r in far.itertuples()]
    out = far.assign(more=more, said=said, instructions=far["gap"])[["isa", "function", "instructions", "more", "said"]]
    out.attrs["units"] = {"instructions": "more there"}
    return out


def chart(frame: pd.DataFrame) -> Drawing | None:
    """The bars of drawn(); None where nothing differs."""
    return None if frame.empty else stacked_bars("instructions", "function", "more", note="said", columns=1)(drawn(frame))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: how many counts of a function are not the same in kernel and lab, "different-total", and how many of
    those are larger in the kernel, "kernel-more-total"."""
    first = _first(frame)
    more = first["kernel"] > first["lab"]
    return {"different-total": int((first["kernel"] != first["lab"]).sum()), "kernel-more-total": int(more.sum())}


FIGURES = (
    Figure(
        "fig-kernel-functions",
        "Which functions make the difference?",
        chart=chart,
        table=table,
        alt="A panel per ISA, a bar for each of the functions with the largest differences in one call: how many instructions more "
        "it executes in the kernel or in the lab. The table has every function.",
        limits="Emulated counts of instructions in one call; no timing. Two numbers: the kernel's and the lab's; 0: no such "
        "function there, as where it is part of another.",
        source="both",
    ),
)
