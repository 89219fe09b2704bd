"""Which of what a trampoline saves do live patching and consumers of registers read, and what is the least that serves them?

A consumer of registers stands where a kprobe on a patch site would: it moves ip and puts it back, and reads what it likes. It is
no kprobe, see lab_consumer() in guest/consumers/callbacks.c; trampolines/kprobe has those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import RECORD
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import dumbbell
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once

NAME = "consumers"
TITLE = "What live patching and consumers of registers need of a trampoline"
#: Save set -> what it is called here; first the kernels' own, of which "regs" is x86-64's alone in the newest release.
SETS = {"args": "args", "regs": "regs", "live": "live", "ip": "ip", "own-regs": "all"}
REAL = ("args", "regs")
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: Per ISA, a register that no function takes and every function keeps; and what the caller has in it.
KEPT, MARK = {"x86_64": "rbx", "arm64": "x19", "riscv64": "s1"}, 0x5EED_0000_1234_5678
WORD = 8
UNITS = {"added": "insns", "saved": "words"}


@dataclass(frozen=True)
class Consumer:
    """A callback: its name; in words; the guest word that it writes its reading to, and the expected value of that word ("" and
    None: none).

    go_to: the function that calls go on in, for live patching.
    """

    callback: str
    words: str
    go_to: str = ""
    wrote: str = ""
    wanted: int | None = None


CONSUMERS = {
    "live patching": Consumer("lab_livepatch", "live patching", go_to=f"new_{FUNCTION}"),
    "consumer, counts": Consumer("lab_consumer", "a consumer of registers that counts"),
    "consumer, argument": Consumer("lab_consumer_argument", "one that reads an argument", wrote="lab_probed", wanted=ARGUMENTS[0]),
    "consumer, register": Consumer("lab_consumer_register", "one that reads another register", wrote="lab_probed", wanted=MARK),
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, consumer and save set: one call of a three-argument function in the newest release.

    Columns: isa, consumer, save (a name of SETS), hypothetical (no kernel has the save set), served (does the consumer do what
    it should, and the call give the right result?), generated (would a trampoline generated for BPF serve it: a program that
    changes nothing, and is shown the arguments?), added (instructions, the functions left out, less those of the unhooked call),
    saved (words that the trampoline writes to its frame before the callback), read and wrote (words of the frame that the
    callback loads and stores), names (of those, in the order of the frame). Where a set is refused, because the release has not
    got it or it cannot do what the consumer asks, `served` is false and what is counted is empty.
    """
    records = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, meter=RECORD)
        idle = kernel.call(FUNCTION, *ARGUMENTS)
        start, stack = kernel.passed(ARGUMENTS, {})
        patched = kernel.machine.call(kernel.image.address(f"new_{FUNCTION}"), start, stack).registers[isa.returns[0]]
        for name, consumer in CONSUMERS.items():
            wanted = patched if consumer.go_to else idle.value
            generated = _generated(kernel, consumer, wanted)
            for save, called in SETS.items():
                head = {"isa": isa.name, "consumer": name, "save": called, "hypothetical": called not in REAL}
                records.append({**head, "generated": generated, **_call(kernel, consumer, save, wanted, idle)})
    counts = ("added", "saved", "read", "wrote")
    frame = pd.DataFrame(records).astype(dict.fromkeys(counts, "Int64"))
    frame["names"] = frame["names"].fillna("")
    frame.attrs["units"] = UNITS
    return frame


def _generated(kernel: Kernel, consumer: Consumer, result: int) -> bool:
    """Does a generated trampoline give the consumer what it asks for: does the call end as it should, and is the register that
    it wants among the words that the program is shown?"""
    image, machine = kernel.image, kernel.machine
    seen, words = image.address("lab_bpf_seen"), image.struct("lab_bpf_seen").fields["words"]
    machine.write_u64(image.address("lab_bpf_seen_count"), 0)
    with kernel.attached(kernel.function(FUNCTION), Bpf(fentry=1, observe=True)):
        run = kernel.call(FUNCTION, *ARGUMENTS, registers={KEPT[kernel.isa.name]: MARK})
    shown = [machine.read_u64(seen + words.offset + WORD * n) for n in range(len(ARGUMENTS))]
    ran = machine.read_u64(image.address("lab_bpf_seen_count")) == 1
    return ran and run.value == result and (consumer.wanted is None or consumer.wanted in shown)


def _call(kernel: Kernel, consumer: Consumer, save: str, result: int, idle: Run) -> dict[str, object]:
    image, machine = kernel.image, kernel.machine
    if consumer.wrote:
        machine.write_u64(image.address(consumer.wrote), 0)
    try:
        request = Ops(save=save, callback=consumer.callback, go_to=consumer.go_to)
        with kernel.attached(kernel.function(FUNCTION), request):
            run = kernel.call(FUNCTION, *ARGUMENTS, registers={KEPT[kernel.isa.name]: MARK})
    except TramplabError:  # this save set does not let it change the ip, or the release has not got it
        return {"served": False}
    wrote = machine.read_u64(image.address(consumer.wrote)) if consumer.wrote else None
    served = run.value == result and run.hits == (1,) and wrote == consumer.wanted
    return {"served": served, "added": (run.counts.outside - idle.counts.outside).instructions, **_frame(kernel, run)}


def _frame(kernel: Kernel, run: Run) -> dict[str, object]:
    """What is written to the trampoline's frame before the callback, and what the callback does there."""
    ours = [s for s in run.steps if run.component_of(s.pc) == "trampoline"]
    called = next(i for i, s in enumerate(run.steps) if run.component_of(s.pc) == "callback")
    bottom, top = min(s.sp for s in ours), ours[0].sp

    def words(steps: Iterable[Any], stores: bool) -> list[int]:
        accesses = (a for s in steps for a, _, w in s.accesses if w == stores)
        return sorted({a - a % WORD for a in accesses if bottom <= a < top})

    callback = [s for s in run.steps if run.component_of(s.pc) == "callback"]
    before = [s for s in run.steps[:called] if run.component_of(s.pc) == "trampoline"]
    read, wrote = words(callback, False), words(callback, True)
    # x86-64's call pushes the way back below the frame; what it calls finds the frame above that
    base = run.steps[called].sp + kernel.isa.call_pushes
    names = [_slot(kernel, at - base) for at in sorted({*read, *wrote})]
    return {"saved": len(words(before, True)), "read": len(read), "wrote": len(wrote), "names": " ".join(names)}


def _slot(kernel: Kernel, offset: int) -> str:
    """The name of the word at an offset in the frame that the callback is handed."""
    structs = kernel.image.structs
    whole = structs["ftrace_regs"].size == structs["pt_regs"].size  # then it is one
    names = ["pt_regs"] if whole else ["lab_more_regs", "ftrace_regs", "pt_regs"]
    for layout in (structs[name] for name in names if name in structs):
        for name, field in layout.fields.items():
            if name != "fregs" and field.offset <= offset < field.offset + field.size:
                return f"{name}[{(offset - field.offset) // WORD}]" if field.elements else name
    return f"+{offset}"


def least(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per ISA and consumer: the smallest save set that serves it, what it adds, and what all registers add."""
    items = []
    for (isa, consumer), part in frame[frame["served"]].groupby(["isa", "consumer"], sort=False):
        best = part.loc[part["added"].idxmin()]
        every = part.set_index("save").loc["all"]
        row = {"isa": isa, "consumer": consumer, "save": best["save"], "hypothetical": best["hypothetical"]}
        row |= {"added": int(best["added"]), "all": int(every["added"]), "generated": bool(best["generated"])}
        uses = {"saved": int(every["saved"]), "read": int(every["read"]), "wrote": int(every["wrote"])}
        items.append(row | uses | {"names": every["names"]})
    return pd.DataFrame(items)


def served(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows as readers see them: save sets that no kernel has are marked, and nothing is added where none is served."""
    named = [marked(r.save, r.hypothetical) for r in frame.itertuples()]
    plotted = frame.assign(save=named, instructions=frame["added"].where(frame["served"]).astype(float))
    plotted.attrs["units"] = UNITS
    return plotted


def _served(frame: pd.DataFrame) -> pd.DataFrame:
    return served(frame).dropna(subset=["instructions"])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and consumer: instructions added with each set that serves it; does a trampoline generated for BPF serve it; words
    of the frame with all registers that the callback reads or writes."""
    marks = served(frame)
    sets = list(dict.fromkeys(marks["save"]))
    wide = marks.pivot(index=["isa", "consumer"], columns="save", values="instructions")[sets].astype("Int64")
    every = frame[frame["save"] == "all"].set_index(["isa", "consumer"])[["generated", "names"]]
    printed = wide.join(every).reindex(every.index).reset_index().rename(columns={"generated": "BPF", "names": "uses"})
    printed.columns.name = None
    printed.attrs["units"] = dict.fromkeys(sets, "insns")
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by ISA and the consumer's last word: "x86_64-patching-saved-total", words saved of all registers,
    "-used-total", words of them that the consumer touches, "-read-total", words that it reads, "-least-added", instructions with
    the smallest set that serves, "-all-added", with all registers, and with what a kernel's trampolines save, where that serves,
    "-args-added", "-regs-added"."""
    values: dict[str, object] = {}
    for r in least(frame).itertuples():
        name = f"{r.isa}-{r.consumer.split()[-1]}"
        values |= {f"{name}-saved-total": r.saved, f"{name}-used-total": len(r.names.split()), f"{name}-read-total": r.read}
        values |= {f"{name}-least-added": r.added, f"{name}-all-added": r.all}
    for r in frame[frame["served"] & frame["save"].isin(REAL)].itertuples():
        values[f"{r.isa}-{r.consumer.split()[-1]}-{r.save}-added"] = int(r.added)
    return values


FIGURES = (
    Figure(
        "fig-consumers",
        "Which save sets serve which consumers, and what do they add?",
        chart=lambda frame: dumbbell("instructions", "consumer", "save", shared=True)(_served(frame)),
        table=table,
        alt="A panel per ISA with a line per consumer, and on it a mark for each save set that serves it: instructions added "
        "to a call. The set with the ip alone is the leftmost for live patching, all registers are the only one for a "
        "consumer of another register. The table below has every number.",
        limits="Emulated counts of instructions in one call of a three-argument function, less the unhooked call's, without the "
        "functions; no timing. The consumers are the lab's: those of registers move ip as a kprobe does, but are no kprobes.",
        hypothetical=True,
    ),
)
