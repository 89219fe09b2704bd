"""What a hook costs, in one table: instructions, mispredicted returns and, where there is one, a measured time."""

from __future__ import annotations

import re

import pandas as pd

from tramplab.estimate.returnstack import replay
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.measure import run

from ...publish import phrases, published
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ..memo import once
from ..time import saved_times

NAME = "answers"
TITLE = "What a hook costs"
_KRETPROBE = {isa: hooks.of_release("kretprobe", releases.features(of, releases.LATEST, {})).name for isa, of in ISAS.items()}
#: Row -> ISA -> its hook there, and how many callbacks. A row says where the called code lies: near, the site calls it; far,
#: ftrace_caller finds it. BPF's code is far on riscv64, and on arm64, where KASLR puts it out of reach, see releases.reach.
_NEAR, _FAR = ("x86_64", "arm64"), ("arm64", "riscv64")
CASES: dict[str, tuple[dict[str, str], int]] = {
    "one ops": (dict.fromkeys(ISAS, "ops"), 1),
    "two ops": (dict.fromkeys(ISAS, "ops"), 2),
    "direct call, near": (dict.fromkeys(_NEAR, "direct"), 1),
    "direct call, far": (dict.fromkeys(_FAR, "direct-far"), 1),
    "direct call and an ops": (dict.fromkeys(ISAS, "direct+ops"), 1),
    "BPF fentry, near": ({"x86_64": "bpf-fentry"}, 1),
    "BPF fentry, far": (dict.fromkeys(_FAR, "bpf-fentry"), 1),
    "BPF fexit, near": ({"x86_64": "bpf-fexit"}, 1),
    "BPF fexit, far": (dict.fromkeys(_FAR, "bpf-fexit"), 1),
    "fprobe, entry": (dict.fromkeys(ISAS, "fprobe"), 1),
    "fprobe, return": (dict.fromkeys(ISAS, "fprobe-exit"), 1),
    "kretprobe": (_KRETPROBE, 1),
}
#: (ISA, case) -> published figures: what was timed, and the base to subtract.
PUBLISHED = {
    ("arm64", "one ops"): ("arm64-callops-after-r1-i0-overhead", None),
    ("arm64", "two ops"): ("arm64-callops-after-r2-i0-overhead", None),
    ("arm64", "BPF fentry, far"): ("ebpf-exporter-m1-fentry-empty", "ebpf-exporter-m1-none"),
    ("riscv64", "one ops"): ("riscv-callops-k1-after-r1-i0-overhead", None),
    ("riscv64", "two ops"): ("riscv-callops-k1-after-r2-i0-overhead", None),
}
#: In place of a count, where no kernel of that ISA has the case.
NONE = "-"
UNITS = {"instructions": "added", "missed": "a call", "ns": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and case that it has, in the newest release, on a function of one argument.

    Columns: isa, case, hook, instructions (that one call has more), missed (mispredicted returns, in the call and of its callers),
    ns (a time as measured or published; None where there is none), timed (machine and kernel that it is of, "" for none).
    """
    out = []
    for isa in ISAS:
        base = run(isa, "none")
        for case, (names, callbacks) in CASES.items():
            if isa not in names:
                continue
            hooked = run(isa, names[isa], callbacks=callbacks)
            added = hooked.counts.total.instructions - base.counts.total.instructions
            ns, timed = _published(isa, case) or _measured(isa, names[isa], callbacks) or (None, "")
            missed = replay(hooked)
            head = {"isa": isa, "case": case, "hook": names[isa], "instructions": added, "missed": missed.own + missed.outer}
            out.append({**head, "ns": ns, "timed": timed})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _published(isa: str, case: str) -> tuple[float, str] | None:
    """Nanoseconds that the hook added in a published table, and on what; None where there is none."""
    if (isa, case) not in PUBLISHED:
        return None
    name, less = PUBLISHED[isa, case]
    whole = published.get(name)
    chip = re.match(r".*?\b[A-Z]\d\b", whole.machine)  # "Apple M1" of what is said of the machine
    machine = chip[0] if chip else whole.machine.partition(",")[0]
    kernel = re.match(r"v?\d+\.\d+(-rc\d+)?", whole.kernel)
    return round(whole.ns - (published.get(less).ns if less else 0), 2), f"{machine}, {kernel[0] if kernel else whole.kernel}"


def _measured(isa: str, hook: str, callbacks: int) -> tuple[float, str] | None:
    """The same of the first saved machine whose windows agree on the hook."""
    found = saved_times.rows(hooks.several(hook, callbacks), isa=isa)
    if not found:
        return None
    machine, row = next(iter(found.items()))
    return round(float(str(row["ns_over"])), 2), f"{machine}, {releases.LATEST}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and case; no time is an empty cell."""
    out = frame[["isa", "case", "instructions", "missed"]].rename(columns={"instructions": "insns"})
    out["ns"] = ["" if pd.isna(n) else f"{n:g}" for n in frame["ns"]]
    out["timed on"] = frame["timed"]
    out.attrs["units"] = {"insns": "added", "missed": "a call", "ns": "added"}
    out.attrs["right"] = ("ns",)
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions that a case adds, "arm64-bpf-fentry-far-added"."""
    return {f"{r.isa}-{phrases.slug(r.case)}-added": int(r.instructions) for r in frame.itertuples()}


def body(frame: pd.DataFrame) -> Body:
    """A line per case: on each ISA the instructions and, where there is one, a time with the letter of its machine and kernel; and
    mispredicted returns."""
    letters = dict(zip(dict.fromkeys(frame.loc[frame["ns"].notna(), "timed"]), "abcdefgh", strict=False))
    lines = []
    for case in CASES:
        some = frame[frame["case"] == case].set_index("isa")
        cells = {phrases.isa_name(isa): _cell(some, isa, letters) for isa in ISAS}
        missed = [str(some["missed"][isa]) if isa in some.index else NONE for isa in ISAS]
        lines.append({"added to a call by": case, **cells, "returns missed": ", ".join(missed)})
    note = "; ".join(f"{letter}: {timed}" for timed, letter in letters.items())
    return Grid(pd.DataFrame(lines), "What a hook adds to a call", note=f"Timed on {note}.")


def _cell(some: pd.DataFrame, isa: str, letters: dict[str, str]) -> str:
    if isa not in some.index:
        return NONE
    row = some.loc[isa]
    time = "" if pd.isna(row["ns"]) else f"\n{row['ns']:g} ns ({letters[row['timed']]})"
    return f"{row['instructions']}{time}"


FIGURES = (
    Figure(
        "fig-answers",
        f"What a hook adds to one call ({releases.LATEST})",
        table=table,
        body=body,
        limits="Rewritten trampolines and a lab C core, not Linux; a function of one argument. Dynamic and static ops add the "
        "same. missed: mispredicted returns, in the call and of its callers. Times of x86-64 are native ones of the same code in "
        "user mode, those of arm64 and riscv64 published ones of kernels, which do not say where code lay; the table has machine "
        "and kernel.",
        kind="measured",
        machine=saved_times.MACHINES,
    ),
)
