"""Do the unwinders of real kernels find in a hooked call what the lab's find, and what do they take for reliable?"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import RECORD
from tramplab.ftrace import releases
from tramplab.ftrace.meant import fprobes_on_graph_tracer
from tramplab.lab.kernel import Kernel
from tramplab.unwind import orc, recovery
from tramplab.unwind.stacks import DOUBLED, MISSING, RETURNED, RIGHT, WRONG
from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.hooks import HOOKS
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import saved, walks_saved
from tramplab.vmlinux.saved.walks_saved import ASLEEP, ENTRY, PLACES, RETURN

from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..direct.stacks.stack_calls import ABSENT, FRAMES, PROGRAM, Variant, traced_both
from ..memo import once
from ..returns.unwinding import unwound_calls

NAME = "kernel_walks"
TITLE = "What the unwinders of Debian's kernels find in hooked calls"
#: The lab's places -> those of the saved walks.
_PLACES = {unwound_calls.ENTRY: ENTRY, unwound_calls.EXIT: RETURN, unwound_calls.SLEEPING: ASLEEP}
#: What a kernel's reliable walk says of a stack: that it is all there, that it is not, or that there is no such walk.
RELIABLE, REFUSED, PLAIN = "reliable", "refused", "no reliable walk"
#: What charts call a trace -> what that means, and its letter.
RIGHT_ONE, LOST = "right", "lost or misnamed"
MEANINGS = {
    RIGHT_ONE: theme.RIGHT,
    f"{RIGHT_ONE}, refused": theme.NOTICED,
    LOST: theme.WRONG,
    f"{LOST}, refused": theme.NOTICED,
}
LETTERS = {RIGHT_ONE: "R", f"{RIGHT_ONE}, refused": "r", LOST: "L", f"{LOST}, refused": "l"}
#: Kernels of the chart.
DRAWN = ("6.12-amd64", "7.2-amd64", "7.2-arm64", "7.2-riscv64")
#: In the table: the letter of a state, and the mark of what the reliable walk says.
_STATES = {RIGHT: "R", DOUBLED: "D", MISSING: "M", WRONG: "W", RETURNED: "-", ABSENT: "."}
_SIGNS = {RELIABLE: " +", REFUSED: " !", PLAIN: ""}
#: Characters of a line of hooks in the table.
_WIDE = 22
#: The code that ORC has no entries for, in traces.
_GENERATED = "bpf_trampoline"


@once
def rows() -> pd.DataFrame:
    """One row per kernel of a release that the studies show, hook that it has, and place where the walk begins.

    Columns: kernel (Debian's, "6.12-arm64"), isa, release, hook, place (of walks_saved.PLACES), function, caller, outer (what is
    found of them: unwind.stacks.STATES), lost (one is missing or has another's name), reliable (RELIABLE, REFUSED or PLAIN),
    generated (a BPF trampoline is on the stack), and of the lab's kernel of the release, as its unwinder finds in the same place:
    lab (does it have the hook?), lab_function, lab_caller, lab_outer, lab_refused (the chain ended early or in a guess), same (it
    finds the same of those frames that its own call has).
    """
    shown = {p.name for p in plain() if p.release in releases.shown()}
    kernels = [kernel for kernel in walks_saved.read()["kernels"] if kernel["name"] in shown]
    frame = pd.DataFrame([row for kernel in kernels for row in _of(kernel)])
    frame.attrs["units"] = {}
    return frame


def _of(kernel: dict[str, Any]) -> Iterator[dict[str, object]]:
    package = next(p for p in plain() if p.name == kernel["name"])
    overrides: dict[str, Any] = dict(beside.overrides(saved.read(package)["kernel"]))
    lab = Kernel(package.isa, package.release, meter=RECORD, **overrides)
    found = {hook: _lab(lab, hook) for hook in dict.fromkeys(walk["hook"] for walk in kernel["walks"])}
    for walk in kernel["walks"]:
        states = {name: walk[name] for name in FRAMES}
        here = found[walk["hook"]].get(walk["place"])
        yield {
            "kernel": package.name.removeprefix("debian-"),
            "isa": package.isa,
            "release": package.release,
            "hook": walk["hook"],
            "place": walk["place"],
            **states,
            "lost": bool({MISSING, WRONG} & set(states.values())),
            "reliable": {True: RELIABLE, False: REFUSED, None: PLAIN}[walk["reliable"]],
            "generated": _GENERATED in walk["trace"],
            "lab": here is not None,
            **{f"lab_{name}": here[name] if here else ABSENT for name in FRAMES},
            "lab_refused": bool(here and (here["error"] or here["guessed"])),
            "same": here is not None and all(here[name] in (state, ABSENT) for name, state in states.items()),
        }


def _lab(kernel: Kernel, hook: str) -> dict[str, dict[str, Any]]:
    """Place -> what the lab's unwinder finds as its first instruction is reached; nothing where it does not have the hook."""
    by_tracer = hook == "graph" or (hook.startswith("fprobe") and fprobes_on_graph_tracer(kernel.features))
    asked = by_tracer or recovery.HOOKS in recovery.ASKED[kernel.isa.name]
    handler = "lab_kprobe_pre" if hook.startswith("kprobe") else "lab_callback"
    try:
        traced = traced_both(kernel, Variant(HOOKS[hook].lab, handler), (asked,))
    except TramplabError:  # it has no such hook
        return {}
    places: dict[str, dict[str, Any]] = {}
    for row in traced:
        where = unwound_calls.ENTRY if row["where"] == PROGRAM else unwound_calls.place(row)
        if where in _PLACES:
            places.setdefault(_PLACES[where], row)
    return places


# -- what is shown


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per kernel of DRAWN, hook and place: what its walk finds, and says of that; `isa` names the kernel."""
    part = frame[frame["kernel"].isin(DRAWN)]
    part = part.assign(order=part["kernel"].map(DRAWN.index)).sort_values("order", kind="stable")
    names = [f"{isa_name(isa)} {release}" for isa, release in zip(part["isa"], part["release"], strict=True)]
    said = [
        (LOST if lost else RIGHT_ONE) + (", refused" if reliable == REFUSED else "")
        for lost, reliable in zip(part["lost"], part["reliable"], strict=True)
    ]
    return part.assign(isa=names, said=said)[["isa", "hook", "place", "said"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and hooks of which its walks say the same: the three frames by place, with what the reliable walk says.
    lab: does the lab's unwinder find the same, and where it does not, what."""
    lines = []
    for kernel, part in frame.groupby("kernel", sort=False):
        alike: dict[tuple[str, ...], list[str]] = {}
        for hook, walks in part.groupby("hook", sort=False):
            by = {row["place"]: row for row in walks.to_dict("records")}
            told = [_letters(by[place], "") + _SIGNS[by[place]["reliable"]] if place in by else "" for place in PLACES]
            alike.setdefault((*told, _beside(by)), []).append(str(hook))
        for cells_of, hooks in alike.items():
            for n, names in enumerate(textwrap.wrap(", ".join(hooks), _WIDE, break_on_hyphens=False)):
                head = {"image": kernel, "hooks": names}
                lines.append(head | dict(zip(_HEADS, cells_of if n == 0 else [""] * len(_HEADS), strict=True)))
    return pd.DataFrame(lines)


_HEADS = ("entry", "return", "asleep", "lab")


def _letters(row: dict[str, Any], side: str) -> str:
    return "".join(_STATES[row[f"{side}{name}"]] for name in FRAMES)


def _beside(by: dict[str, dict[str, Any]]) -> str:
    """What the lab's unwinder finds of a hook, beside these rows."""
    if not any(row["lab"] for row in by.values()):
        return "no hook"
    other = [f"{_HEADS[PLACES.index(place)]}: {_letters(row, 'lab_')}" for place, row in by.items() if not row["same"]]
    return ", ".join(other) or "same"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "walks" in all, and "compared" with the lab's, of which it finds "same".

    "x86-answers" are those of x86-64's among them, "x86-answers-same" where the lab's chain ends early or in a guess if the kernel
    refuses. "guessed" are x86-64's through BPF's trampolines in releases that guess there, "known" in later ones, each with
    "-refused". "probed": kernels of x86-64 with a breakpoint on the function's first instruction; in its handler "probed-lost" lose
    a frame, and "probed-passed" call the stack reliable. Per kernel, "x86_64-v7-2-asleep" are the walks of a sleeping task, with
    "-reliable" and "-lost" how many of them are; "-passed-lost" those of all places that lose a frame in a reliable stack.
    """
    compared, x86 = frame[frame["lab"]], frame[frame["isa"] == "x86_64"]
    answers, generated = x86[x86["lab"]], x86[x86["generated"]]
    guesses = generated["release"].map(releases.parse) < releases.parse(orc.KNOWN_SINCE)
    probed = x86[(x86["hook"] == "kprobe-brk") & (x86["place"] == ENTRY)]
    values: dict[str, object] = {
        "walks": len(frame),
        "kernels": frame["kernel"].nunique(),
        "compared": len(compared),
        "same": int(compared["same"].sum()),
        "x86-answers": len(answers),
        "x86-answers-same": int(((answers["reliable"] == REFUSED) == answers["lab_refused"]).sum()),
        "probed": len(probed),
        "probed-lost": int(probed["lost"].sum()),
        "probed-passed": int((probed["reliable"] == RELIABLE).sum()),
    }
    for name, part in (("guessed", generated[guesses]), ("known", generated[~guesses])):
        values |= {name: len(part), f"{name}-refused": int((part["reliable"] == REFUSED).sum())}
    for (isa, release), part in frame.groupby(["isa", "release"], sort=False):
        kernel, asleep, passed = slug(f"{isa}-{release}"), part[part["place"] == ASLEEP], part[part["reliable"] == RELIABLE]
        values |= {
            f"{kernel}-asleep": len(asleep),
            f"{kernel}-asleep-reliable": int((asleep["reliable"] == RELIABLE).sum()),
            f"{kernel}-asleep-lost": int(asleep["lost"].sum()),
            f"{kernel}-passed-lost": int(passed["lost"].sum()),
        }
    return values


FIGURES = (
    Figure(
        "fig-kernel-walks",
        "What do Debian's own unwinders find, and what do they call reliable?",
        table=table,
        chart=lambda frame: heat_map("said", "hook", "place", meanings=MEANINGS, letters=LETTERS, abreast=2)(cells(frame)),
        alt="A panel per kernel: for each hook a cell for the handler at the entry, the handler at the return and a sleeping task, "
        "with what the kernel's unwinder finds there, and whether its reliable walk refuses the stack.",
        limits="Emulated system calls in Debian's images: one CPU, a task that runs instead of one that was switched away from, "
        "and BPF trampolines that are the lab's.",
        legend="In the table: R right, D doubled, M missing, W another's name, - returned, of the function, its caller and that "
        "one's; + reliable, ! refused.",
        source="both",
    ),
)
