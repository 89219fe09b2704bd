"""Which of what a trampoline saves do live patching and kprobes read, and what is the least that serves them?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...emulate.machine import RECORD
from ...errors import TramplabError
from ...isa import ISAS, Isa
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.chart import heat_map
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..once import once

NAME = "consumers"
TITLE = "What live patching and kprobes need of a trampoline"
#: Save set -> what it is called here. "args" is the kernel's own trampoline.
SETS = {"live": "live", "ip": "ip", "args": "args", "own-regs": "all"}
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: Per ISA, a register that no function takes and every function keeps; and what the caller has in it.
KEPT, MARK = {"x86_64": "rbx", "arm64": "x19", "riscv64": "s1"}, 0x5EED_0000_1234_5678
WORD = 8
UNITS: dict[str, str] = {}


@dataclass(frozen=True)
class Consumer:
    """Who is called: its callback; which guest word it writes what it read to, and what that must be ("" and None: none).

    go_to: the function that calls go on in, for live patching.
    """

    callback: str
    go_to: str = ""
    wrote: str = ""
    wanted: int | None = None


CONSUMERS = {
    "live patching": Consumer("lab_livepatch", go_to=f"new_{FUNCTION}"),
    "kprobe, counts": Consumer("lab_kprobe"),
    "kprobe, argument": Consumer("lab_kprobe_argument", wrote="lab_probed", wanted=ARGUMENTS[0]),
    "kprobe, register": Consumer("lab_kprobe_register", wrote="lab_probed", wanted=MARK),
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, consumer and save set: one call of a three-argument function in the newest release.

    Columns: isa, consumer, save (a name of SETS), served (does the consumer do what it should, and the call give the right
    result?), instructions (around the function), saved (words that the trampoline writes to its frame before the callback),
    read and wrote (words of the frame that the callback loads and stores), names (of those, in the order of the frame).
    Without `served` by being refused, the other columns are empty.
    """
    out = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, meter=RECORD)
        plain = kernel.call(FUNCTION, *ARGUMENTS).value
        start, stack = kernel.passed(ARGUMENTS, {})
        patched = kernel.machine.call(kernel.image.address(f"new_{FUNCTION}"), start, stack).registers[isa.returns[0]]
        for name, consumer in CONSUMERS.items():
            for save, called in SETS.items():
                head = {"isa": isa.name, "consumer": name, "save": called}
                out.append(head | _call(kernel, consumer, save, patched if consumer.go_to else plain))
    counts = ("instructions", "saved", "read", "wrote")
    frame = pd.DataFrame(out).astype(dict.fromkeys(counts, "Int64"))
    frame["names"] = frame["names"].fillna("")
    frame.attrs["units"] = UNITS
    return frame


def _call(kernel: Kernel, consumer: Consumer, save: str, result: int) -> dict[str, object]:
    isa, image, machine = kernel.isa, kernel.image, kernel.machine
    try:
        request = Ops(save=save, callback=consumer.callback, go_to=consumer.go_to)
    except TramplabError:  # this save set does not let it change the ip
        return {"served": False}
    if consumer.wrote:
        machine.write_u64(image.address(consumer.wrote), 0)
    with kernel.attached(kernel.function(FUNCTION), request):
        run = kernel.call(FUNCTION, *ARGUMENTS, registers={KEPT[isa.name]: MARK})
    told = machine.read_u64(image.address(consumer.wrote)) if consumer.wrote else None
    served = run.value == result and run.hits == (1,) and told == consumer.wanted
    total = run.counts.total - run.counts.by_component["function"]
    return {"served": served, "instructions": total.instructions, **_frame(kernel, run)}


def _frame(kernel: Kernel, run: Run) -> dict[str, object]:
    """What is written to the trampoline's frame before the callback, and what the callback does there."""
    own = [s for s in run.steps if run.component_of(s.pc) == "trampoline"]
    called = next(i for i, s in enumerate(run.steps) if run.component_of(s.pc) == "callback")
    bottom, top = min(s.sp for s in own), own[0].sp

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
    """One row per ISA and consumer: the smallest save set that serves it, its instructions, and those with all registers."""
    out = []
    for (isa, consumer), part in frame[frame["served"]].groupby(["isa", "consumer"], sort=False):
        best = part.loc[part["instructions"].idxmin()]
        every = part.set_index("save").loc["all"]
        row = {"isa": isa, "consumer": consumer, "save": best["save"], "instructions": int(best["instructions"])}
        uses = {"all": int(every["instructions"]), "saved": int(every["saved"]), "read": int(every["read"])}
        out.append(row | uses | {"wrote": int(every["wrote"]), "names": every["names"]})
    return pd.DataFrame(out)


def served(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows, without a number of instructions where the consumer is not served."""
    out = frame.assign(instructions=frame["instructions"].where(frame["served"]).astype(float))
    out.attrs["units"] = UNITS
    return out


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and consumer: instructions around a call with each set that serves it; of the frame with all registers, words
    written by the trampoline, and which the callback reads or writes."""
    wide = served(frame).pivot(index=["isa", "consumer"], columns="save", values="instructions")
    wide = wide[list(SETS.values())].astype("Int64")
    every = frame[frame["save"] == "all"].set_index(["isa", "consumer"])[["saved", "names"]]
    out = wide.join(every).reindex(every.index).reset_index().rename(columns={"names": "used"})
    out.columns.name = None
    out.attrs["units"] = dict.fromkeys(SETS.values(), "insns") | {"saved": "words"}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by ISA and the consumer's last word: "x86_64-patching-saved", words saved of all registers,
    "-used", words of them that the consumer touches, "-least", the instructions of the smallest set that serves, "-all"."""
    out: dict[str, object] = {}
    for r in least(frame).itertuples():
        name = f"{r.isa}-{r.consumer.split()[-1]}"
        out |= {f"{name}-saved": r.saved, f"{name}-used": len(r.names.split()), f"{name}-least": r.instructions}
        out |= {f"{name}-all": r.all, f"{name}-save": r.save}
    return out


def _in_words(isa: Isa | str) -> str:
    return str(isa).replace("x86_64", "x86-64")


@judges("v7")
def gains_from_saving_less(frame: pd.DataFrame | None = None) -> Verdict:
    """Would gain: a set with fewer registers than all serves the consumer, with fewer instructions. Decided by consumer."""
    frame = rows() if frame is None else frame
    best = least(frame)
    truth = (best["save"] != "all") & (best["instructions"] < best["all"])
    kind, on = across(best.assign(truth=truth), {"isa": "the ISA", "consumer": "the consumer"})
    kind_of = dict(list(best.groupby("consumer", sort=False)))
    sentences = []
    for consumer, part in kind_of.items():
        each = ", ".join(f"{r.instructions} for {r.all} on {_in_words(r.isa)}" for r in part.itertuples())
        sets = " or ".join(dict.fromkeys(part["save"]))
        sentences.append(f"{consumer}: {sets} ({each})")
    patching = kind_of["live patching"]
    touched = ", ".join(
        f"{len(r.names.split())} of {r.saved} words on {_in_words(r.isa)}" for r in patching.itertuples()
    )
    because = (
        "The smallest save set that serves each, and the instructions around a call with it for those with all registers: "
        f"{'; '.join(sentences)}. Of a frame with all registers live patching touches {touched}."
    )
    values = {f"{_in_words(r.isa)}, {r.consumer}": f"{r.save}, {r.instructions} for {r.all}" for r in best.itertuples()}
    return Verdict(kind, because, values, on)


FIGURES = (
    Figure(
        "fig-consumers",
        "Which save sets serve live patching and kprobes, and at what cost?",
        chart=lambda frame: heat_map("instructions", rows="consumer", columns="save")(served(frame)),
        table=table,
        alt="A panel per ISA: instructions around a call, a row per consumer and a column per save set, from live arguments "
        "to all registers. An empty cell: the set does not serve. The table below has every number.",
        limits="Emulated counts of instructions in one call of a three-argument function, without the function; no timing. The "
        "consumers are the lab's, without their guards and look-ups. live, ip and all: trampolines that no kernel has.",
    ),
)
