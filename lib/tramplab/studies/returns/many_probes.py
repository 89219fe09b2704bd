"""What does each further probe on returns take: on the same function, in instructions, and on another function, in memory?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from ...analyse.returns import PARTS, SHADOW, held
from ...emulate.machine import COUNT
from ...ftrace.ops import Request
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...publish.figures.chart import lines
from ...publish.figures.figure import Figure
from ...publish.said import isa_name, listed, on_each, slug
from ...publish.table import pivot
from ...trampolines.bpf import Bpf
from ...trampolines.fprobe import Fprobe
from ...trampolines.kprobe import Kretprobe
from ..once import once
from .mechanisms import FEXIT, FPROBE, KRETPROBE, KRETPROBE_BPF, LATEST, MULTI, breaks
from .return_costs import ARGUMENTS, FUNCTION, added

NAME = "many_probes"
TITLE = "Many probes on returns: on one function, on many"
#: Probes on one function; functions with a probe each.
PROBES, FUNCTIONS = (1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 12)
#: A mechanism -> what asks for so many on one function, with bare handlers and then with BPF programs. The function graph tracer
#: alone has one user here.
_ON_ONE: dict[str, Callable[[str, int], list[Request]]] = {
    KRETPROBE: lambda isa, k: [Kretprobe(breakpoint=breaks(isa, LATEST), several=k)],
    FPROBE: lambda isa, k: [Fprobe(entry=False, exit=True) for _ in range(k)],
    KRETPROBE_BPF: lambda isa, k: [Kretprobe(breakpoint=breaks(isa, LATEST), several=k, bpf=True)],
    MULTI: lambda isa, k: [Fprobe(entry=False, exit=True, multi=True) for _ in range(k)],
    FEXIT: lambda isa, k: [Bpf(fexit=k)],
}
#: The same -> what asks for one on each of some functions; the memory of programs is not compared.
_ON_EACH: dict[str, Callable[[str, tuple[str, ...]], list[Request]]] = {
    KRETPROBE: lambda isa, names: [Kretprobe(breakpoint=breaks(isa, LATEST), filter=names)],
    FPROBE: lambda isa, names: [Fprobe(entry=False, exit=True, filter=names)],
    FEXIT: lambda isa, names: [Bpf(fexit=1, filter=(name,)) for name in names],
}
BARE, PROGRAM = (KRETPROBE, FPROBE), (KRETPROBE_BPF, MULTI, FEXIT)
#: As sentences call them.
CALLED = {
    KRETPROBE: "a kretprobe",
    FPROBE: "an fprobe",
    KRETPROBE_BPF: "a kretprobe",
    MULTI: "an fprobe",
    FEXIT: "fexit",
}
UNITS = {"instructions": "insns", "bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism of the newest kernel and number: probes on one function, or functions with one probe each.

    Columns: isa, mechanism, probes, functions, instructions (that a call of the function has more, without the handlers), bytes
    (held for all of it, without shadow stacks, which there are or not, and without what finds a probe).
    """
    out = []
    for isa in ISAS:
        kernel = Kernel(isa, LATEST, meter=COUNT)
        for mechanism in _ON_ONE:
            out += [_on_one(kernel, mechanism, k) for k in PROBES]
            out += [_on_each(kernel, mechanism, n) for n in FUNCTIONS if n > 1 and mechanism in _ON_EACH]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _on_one(kernel: Kernel, mechanism: str, probes: int) -> dict[str, object]:
    requests = _ON_ONE[mechanism](kernel.isa.name, probes)
    return _row(kernel, mechanism, requests, (FUNCTION,), probes)


def _on_each(kernel: Kernel, mechanism: str, functions: int) -> dict[str, object]:
    names = _functions(kernel)[:functions]
    return _row(kernel, mechanism, _ON_EACH[mechanism](kernel.isa.name, names), names, 1)


def _functions(kernel: Kernel) -> tuple[str, ...]:
    """Those that BPF can be attached to, the one that is called first."""
    plain = [name for name in kernel.functions if name != FUNCTION and "struct" not in name]
    return (FUNCTION, *plain)


def _row(kernel: Kernel, mechanism: str, requests: list[Request], names: tuple[str, ...], probes: int) -> dict[str, object]:
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS)
    with kernel.attached(function if len(names) == 1 else None, *requests) as registered:
        more = added(kernel.call(function, *ARGUMENTS), idle)
        parts = [held(kernel, ops, 0) for ops in registered]
        one = parts if registered[0].shares is None else [parts[0], *({**p, "code": 0} for p in parts[1:])]  # one tracer's for all
    return {
        "isa": kernel.isa.name,
        "mechanism": mechanism,
        "probes": probes,
        "functions": len(names),
        "instructions": more.instructions,
        "bytes": sum(part[p] for part in one for p in PARTS if p != SHADOW),
    }


# --- What is shown


def by_probes(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of one function."""
    return frame[frame["functions"] == 1]


def by_functions(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of one probe on each function."""
    return frame[(frame["probes"] == 1) & frame["mechanism"].isin(_ON_EACH)]


def _wide(frame: pd.DataFrame, over: str, value: str) -> pd.DataFrame:
    return pivot(value, over, index=("isa", "mechanism"), total=False)(frame).rename(columns=str)


def probes_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions: a line per ISA and mechanism, a column per number of probes."""
    return _wide(by_probes(frame), "probes", "instructions")


def functions_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Bytes: a line per ISA and mechanism, a column per number of functions."""
    return _wide(by_functions(frame), "functions", "bytes")


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions by probes, then bytes by functions."""
    counts, held_ = probes_table(frame), functions_table(frame)
    counts.insert(2, "of", "insns")
    held_.insert(2, "of", "bytes")
    shared = [c for c in counts.columns if c in held_.columns]
    return pd.concat([counts[shared], held_[shared]]).sort_values("isa", key=lambda c: c.map([*ISAS].index), kind="stable")


def _value(frame: pd.DataFrame, isa: str, mechanism: str, column: str, probes: int = 1, functions: int = 1) -> int:
    keys = {"isa": isa, "mechanism": mechanism, "probes": probes, "functions": functions}
    here = frame.loc[(frame[[*keys]] == pd.Series(keys)).all(axis=1), column]
    return int(here.iloc[0])


def further(frame: pd.DataFrame, isa: str, mechanism: str) -> int:
    """Instructions that the last probe on the function adds."""
    most, before = PROBES[-1], PROBES[-2]
    more = _value(frame, isa, mechanism, "instructions", most) - _value(frame, isa, mechanism, "instructions", before)
    return round(more / (most - before))


def each(frame: pd.DataFrame, isa: str, mechanism: str) -> int:
    """Bytes that a further function takes, in the mean."""
    most = FUNCTIONS[-1]
    more = _value(frame, isa, mechanism, "bytes", functions=most) - _value(frame, isa, mechanism, "bytes")
    return round(more / (most - 1))


def cheaper_from(frame: pd.DataFrame, isa: str) -> int:
    """The number of probes on one function from which on fprobes add less than kretprobes; 0 if they never do."""
    found = 0
    for k in reversed(PROBES):
        if _value(frame, isa, FPROBE, "instructions", k) >= _value(frame, isa, KRETPROBE, "instructions", k):
            break
        found = k
    return found


def _by_mechanism(frame: pd.DataFrame, told: Callable[[pd.DataFrame, str, str], int], of: Iterable[str]) -> str:
    """A number for each of these mechanisms and each ISA, in a sentence."""
    return "; ".join(f"{CALLED[m]} {on_each({isa: told(frame, isa, m) for isa in ISAS})}" for m in of)


def answer(frame: pd.DataFrame) -> str:
    """What a further probe adds, and from how many on fprobes are the cheaper ones."""
    begins = {isa_name(isa): cheaper_from(frame, isa) for isa in ISAS}
    always, never = (listed(isa for isa, n in begins.items() if n == this) for this in (1, 0))
    where = [f"{n} and more on {isa}" for isa, n in begins.items() if n > 1]
    where += [f"{word} number on {isas}" for word, isas in (("any", always), ("no", never)) if isas]
    return (
        f"Each further probe on a function adds, in instructions of {LATEST} with a bare handler: "
        f"{_by_mechanism(frame, further, BARE)}. Each further one with a BPF program adds: "
        f"{_by_mechanism(frame, further, PROGRAM)}. On one function fprobes with bare handlers add fewer instructions than as many "
        f"kretprobes with {listed(where)}."
    )


def memory_answer(frame: pd.DataFrame) -> str:
    """What a further function takes."""
    return f"Each further function with a probe holds, in bytes: {_by_mechanism(frame, each, _ON_EACH)}."


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, as in "x86_64-kretprobe-step": instructions that a further probe adds; "-each", bytes that a further
    function takes; "-2-added", what two on one function add, and so for PROBES; and "x86_64-from" (cheaper_from(), "no number")."""
    out: dict[str, object] = {}
    for isa in ISAS:
        out[f"{isa}-from"] = cheaper_from(frame, isa) or "no number"
        for m in _ON_ONE:
            key = f"{isa}-{slug(m)}"
            out |= {f"{key}-step": further(frame, isa, m)} | ({f"{key}-each": each(frame, isa, m)} if m in _ON_EACH else {})
            out |= {f"{key}-{k}-added": _value(frame, isa, m, "instructions", k) for k in PROBES}
    return out


FIGURES = (
    Figure(
        "fig-return-many",
        "What does each further probe on a function's return add?",
        rows=by_probes,
        chart=lines("instructions", over="probes", series=("mechanism",)),
        table=probes_table,
        answer=answer,
        alt="A panel per ISA with a line per mechanism: instructions that a call has more, against how many probes see it return.",
        limits="Emulated counts of one call in the newest release, without the handlers: BPF programs where that is said and with "
        "fexit, else bare ones; all probes are of a kind.",
    ),
    Figure(
        "fig-return-functions",
        "What does a probe on many functions' returns hold?",
        rows=by_functions,
        chart=lines("bytes", over="functions", series=("mechanism",), log="xy"),
        table=functions_table,
        answer=memory_answer,
        alt="A panel per ISA with a line per mechanism: bytes of memory held, against how many functions have a probe each.",
        limits="Bytes of structs, pools and code in the lab, on one CPU; pools as kernels make them. Without shadow stacks, hashes "
        "and tables.",
    ),
)
