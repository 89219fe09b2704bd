"""What does it take to hand registers from one light structure to the next?"""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace.releases import LATEST
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.ways.ways import COPY, IN_PLACE, STACK
from tramplab.sparsity.ways.ways_convert import CHAIN, CONVERSIONS, convert

from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, marked
from ..memo import once
from ..shared.hypothetical import named
from . import kprobe_multi

NAME = "ways_conversions"
TITLE = "Copies between light structures"
#: Conversion -> what readers call its two ends.
TITLES = {
    "to_fprobe": "entry to fprobe",
    "to_bpf": "fprobe to BPF",
    "to_perf": "BPF to perf",
    "to_regs": "perf to pt_regs",
    "back": "BPF to entry",
}
UNITS = {"instructions": "count", "read": "B", "written": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and conversion: columns isa, conversion, hypothetical, chain (is it on the way to perf?), source, target (the
    guest's structures), instructions, loads, stores, read, written (bytes), copied (words that came unchanged)."""
    records = []
    for isa in ISAS:
        kernel = Kernel(isa)
        for name in CONVERSIONS:
            c = convert(kernel, name)
            head = {"isa": isa, "conversion": name, "hypothetical": True, "chain": name in CHAIN}
            head |= {"source": c.source, "target": c.target, "instructions": c.instructions, "loads": c.loads, "stores": c.stores}
            records.append({**head, "read": c.read, "written": c.written, "copied": len(c.copied)})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


# -- what is shown


def told(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the conversions as readers call them, marked."""
    return named(frame.assign(conversion=frame["conversion"].map(TITLES)), "conversion")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and conversion, and one for all that a call goes through on its way to perf."""
    columns = ["instructions", "loads", "stores", "read", "written"]
    items = []
    for isa, part in frame.groupby("isa", sort=False):
        lines = told(part)[["isa", "conversion", *columns]]
        whole = part.loc[part["chain"], columns].sum()
        items += [lines, pd.DataFrame([{"isa": isa, "conversion": marked("up to a pt_regs"), **whole}])]
    whole = pd.concat(items, ignore_index=True)
    whole.attrs["units"] = {"read": "B", "written": "B"}
    return whole


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: of the chain to perf "arm64-chain-copies"; what it adds to a link, "arm64-chain-added", and the fill
    that it is held against, "arm64-fill-added", as GCC compiles it "riscv64-fill-called-added"."""
    chains = frame[frame["chain"]].groupby("isa", sort=False)
    values: dict[str, object] = {f"{isa}-chain-copies": len(part) for isa, part in chains}
    for r in cases(frame, kprobe_multi.rows()).itertuples():
        values |= {f"{r.isa}-chain-added": int(r.added), f"{r.isa}-fill-added": int(r.fill)}
        values[f"{r.isa}-fill-called-added"] = int(r.called)
    return values


def cases(frame: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA: columns isa, added (instructions of the chain in a link), fill (instructions of the fill that a program and
    perf are served by, on the stack or in place, and inlined as the chain is), called (the same as GCC compiles it)."""
    entry = shares[shares["probe"] == kprobe_multi.ENTRY]
    inlined = kprobe_multi.inlined()
    records = []
    for isa in dict.fromkeys(frame["isa"]):
        part = entry[entry["isa"] == isa]
        end = part[part["way"] == "chain"].iloc[0]
        fills = part[(part["kind"] == COPY) & part["place"].isin((STACK, IN_PLACE)) & part["way"].str.startswith("kernel")]
        copies = inlined[(inlined["isa"] == isa) & inlined["way"].isin(fills["way"])]
        called = int(fills["instructions"].min())
        fill = int(copies["inline"].min()) if len(copies) else called
        records.append({"isa": isa, "added": end["instructions"], "fill": fill, "called": called})
    return pd.DataFrame(records)


FIGURES = (
    Figure(
        "fig-ways-conversions",
        "What does a conversion between light structures copy?",
        chart=lambda frame: stacked_bars("instructions", bars=("isa",), stack="conversion", facet="way")(
            told(frame[frame["chain"]]).assign(way="to perf", isa=[isa_name(i) for i in frame.loc[frame["chain"], "isa"]])
        ),
        table=table,
        alt="A bar per ISA: the instructions of the conversions that a call goes through on its way from the entry to perf. The "
        "table has loads, stores and bytes of each.",
        limits=f"Emulated counts of copies alone, without the calls around them; the first and the last structure are {LATEST}'s.",
        hypothetical=True,
    ),
)
