"""What does each further probe on returns take: on the same function, in instructions, and on another function, in memory?"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.hooks import several
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.returns import PARTS, SHADOW, held
from tramplab.returns.mechanisms import FEXIT, FPROBE, KRETPROBE, KRETPROBE_BPF, LATEST, MULTI, breaks, get
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.fprobe import Fprobe
from tramplab.trampolines.kprobe import Kretprobe
from tramplab.vmlinux.booted.mitigations import INDIRECT_MORE, NONE, RETURN_MORE, SRSO
from tramplab.vmlinux.saved import saved

from ....publish.figures.chart import lines
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ....publish.table import pivot
from ...memo import once
from .return_costs import ARGUMENTS, FUNCTION, added, part

NAME = "many_probes"
TITLE = "Many probes on returns: on one function, on many"
#: Probes on one function; functions with a probe each.
PROBES, FUNCTIONS = (1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 12)
#: Mechanisms of which there are so many on one function, with bare handlers and then with BPF programs. The function graph tracer
#: alone has one user here.
_ON_ONE = (KRETPROBE, FPROBE, KRETPROBE_BPF, MULTI, FEXIT)
#: A mechanism -> what asks for one on each of some functions; the memory of programs is not compared.
_ON_EACH: dict[str, Callable[[str, tuple[str, ...]], list[Request]]] = {
    KRETPROBE: lambda isa, names: [Kretprobe(breakpoint=breaks(isa, LATEST), filter=names)],
    FPROBE: lambda isa, names: [Fprobe(entry=False, exit=True, filter=names)],
    FEXIT: lambda isa, names: [Bpf(fexit=1, filter=(name,)) for name in names],
}
BARE, PROGRAM = (KRETPROBE, FPROBE), (KRETPROBE_BPF, MULTI, FEXIT)
#: A kernel of x86-64 that is booted without mitigations, and one with retpolines and SRSO's safe return.
PLAIN, MITIGATED = "plain", "mitigated"
#: Functions of the lab whose indirect call is a static one in the kernel (guest/core/fgraph.c): direct, once it is booted.
_STATIC_CALLS = ("function_graph_enter_regs", "ftrace_return_to_handler")
#: Probes of a kind, and those that they are cheaper than or not.
PAIRS = {"bare handlers": (FPROBE, KRETPROBE), "a BPF program behind each": (MULTI, KRETPROBE_BPF)}
#: What the number from which on the first of each pair is cheaper is called in the prose.
_FROM = dict(zip(("from", "program-from"), PAIRS.values(), strict=True))
#: What is counted in Debian's kernels, too; fexit's trampoline is not Debian's there.
_DEBIAN = (KRETPROBE, FPROBE, KRETPROBE_BPF, MULTI)
UNITS = {"instructions": "insns", "bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism of the newest kernel and number: probes on one function, or functions with one probe each.

    Columns: isa, mechanism, probes, functions, instructions (that a call of the function has more, without the handlers), returns
    and indirect (of these, returns, and calls of what a register or memory holds, in the kernel), bytes (held for all of it,
    without shadow stacks, which there are or not, and without what finds a probe).
    """
    records = []
    for isa in ISAS:
        kernel = Kernel(isa, LATEST, meter=RECORD)
        for mechanism in _ON_ONE:
            records += [_on_one(kernel, mechanism, k) for k in PROBES]
            records += [_on_each(kernel, mechanism, n) for n in FUNCTIONS if n > 1 and mechanism in _ON_EACH]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _on_one(kernel: Kernel, mechanism: str, probes: int) -> dict[str, object]:
    requests = get(kernel.isa.name, mechanism).hook.requests(probes)
    return _row(kernel, mechanism, requests, (FUNCTION,), probes)


def _on_each(kernel: Kernel, mechanism: str, functions: int) -> dict[str, object]:
    names = _functions(kernel)[:functions]
    return _row(kernel, mechanism, _ON_EACH[mechanism](kernel.isa.name, names), names, 1)


def _functions(kernel: Kernel) -> tuple[str, ...]:
    """The functions that BPF can be attached to; the one that is called comes first."""
    plain = [name for name in kernel.functions if name != FUNCTION and "struct" not in name]
    return (FUNCTION, *plain)


def _row(kernel: Kernel, mechanism: str, requests: list[Request], names: tuple[str, ...], probes: int) -> dict[str, object]:
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS)
    with kernel.attached(function if len(names) == 1 else None, *requests) as registered:
        hooked = kernel.call(function, *ARGUMENTS)
        more, branches = added(hooked, idle), [a - b for a, b in zip(_branches(hooked), _branches(idle), strict=True)]
        parts = [held(kernel, ops, 0) for ops in registered]
        one = parts if registered[0].shares is None else [parts[0], *({**p, "code": 0} for p in parts[1:])]  # one tracer's for all
    return {
        "isa": kernel.isa.name,
        "mechanism": mechanism,
        "probes": probes,
        "functions": len(names),
        "instructions": more.instructions,
        "returns": branches[0],
        "indirect": branches[1],
        "bytes": sum(part[p] for part in one for p in PARTS if p != SHADOW),
    }


def _branches(run: Run) -> tuple[int, int]:
    """Returns of a call, and its calls of what a register or memory holds; without the handlers'."""
    if run.isa.name != "x86_64":  # no other ISA has thunks for them here
        return 0, 0
    names = {pc: run.symbol_of(pc) for pc in run.instructions}
    counted = {pc for pc, name in names.items() if name == FUNCTION or part(name)}
    returns = {pc for pc in counted if run.instructions[pc].mnemonic == "ret"}
    indirect = {
        pc for pc in counted
        if run.instructions[pc].mnemonic in ("call", "jmp") and not run.instructions[pc].operands.startswith("0x")
        and names[pc] not in _STATIC_CALLS
    }  # fmt: skip
    return tuple(int(run.recording.each(chosen.__contains__).sum()) for chosen in (returns, indirect))  # type: ignore[return-value]


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
    """The table that data/expected/ keeps: instructions by probes, those with mitigations, and bytes by functions."""
    tables = {"insns": probes_table(frame), MITIGATED: probes_table(mitigated(frame)), "bytes": functions_table(frame)}
    for of, one in tables.items():
        one.insert(2, "of", of)
    shared = [c for c in tables["insns"].columns if c in tables["bytes"].columns]
    return pd.concat([one[shared] for one in tables.values()]).sort_values("isa", key=lambda c: c.map([*ISAS].index), kind="stable")


def _value(frame: pd.DataFrame, isa: str, mechanism: str, column: str, probes: int = 1, functions: int = 1) -> int:
    keys = {"isa": isa, "mechanism": mechanism, "probes": probes, "functions": functions}
    values = frame.loc[(frame[[*keys]] == pd.Series(keys)).all(axis=1), column]
    return int(values.iloc[0])


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


def cheaper_from(frame: pd.DataFrame, isa: str, pair: tuple[str, str] = (FPROBE, KRETPROBE)) -> int:
    """The number of probes on one function from which on the first of two kinds adds fewer instructions than as many of the second;
    0 if it never does."""
    found = 0
    for k in reversed(PROBES):
        one, other = (_value(frame, isa, mechanism, "instructions", k) for mechanism in pair)
        if one >= other:
            break
        found = k
    return found


def mitigated(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of x86-64 with the instructions that a kernel executes with retpolines and SRSO's safe return."""
    out = frame[frame["isa"] == "x86_64"]
    return out.assign(instructions=out["instructions"] + RETURN_MORE * out["returns"] + INDIRECT_MORE * out["indirect"])


def mitigations_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions on x86-64: two lines per mechanism, booted without mitigations and with them, a column per number of probes, and
    what one adds in Debian's kernel of the same release."""
    kernels = {PLAIN: by_probes(frame[frame["isa"] == "x86_64"]), MITIGATED: by_probes(mitigated(frame))}
    wide = pd.concat([_wide(of, "probes", "instructions").assign(booted=name) for name, of in kernels.items()])
    wide = wide.sort_values("mechanism", key=lambda s: s.map(_ON_ONE.index), kind="stable")
    counts = [_debian(str(r.mechanism), str(r.booted)) for r in wide.itertuples()]
    wide["Debian"] = ["-" if n is None else str(n) for n in counts]
    out = wide[["mechanism", "booted", *map(str, PROBES), "Debian"]].reset_index(drop=True)
    out.attrs["right"] = ("Debian",)
    return out


def _debian(mechanism: str, booted: str) -> int | None:
    hook = get("x86_64", mechanism).image if mechanism in _DEBIAN else ""
    counted = saved.with_mitigations(LATEST, hook, NONE if booted == PLAIN else SRSO)
    return counted and counted[0]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "x86_64-kretprobe-step": instructions that a further probe adds; "-each", bytes that a further
    function takes; "-2-added", what two on one function add, and so for PROBES; "x86_64-from" (cheaper_from(), "no number"),
    "x86_64-program-from" with BPF programs, and "x86_64-mitigated-from" and "x86_64-mitigated-program-from" with mitigations;
    "x86_64-kretprobe-returns" and "-indirect", of one; and "return-more", "indirect-more", what each has more with mitigations.
    "arm64-kretprobe-image-step": what each of eight further ones adds to two in Debian's image."""
    values: dict[str, object] = {}
    for isa in ISAS:
        values |= {f"{isa}-{name}": cheaper_from(frame, isa, pair) or "no number" for name, pair in _FROM.items()}
        for m in _ON_ONE:
            key = f"{isa}-{slug(m)}"
            values |= {f"{key}-step": further(frame, isa, m)} | ({f"{key}-each": each(frame, isa, m)} if m in _ON_EACH else {})
            values |= {f"{key}-{k}-added": _value(frame, isa, m, "instructions", k) for k in PROBES}
            if m in _DEBIAN:
                values[f"{key}-image-step"] = _image_step(isa, m)
    for m in _ON_ONE:
        values |= {f"x86_64-{slug(m)}-{what}": _value(frame, "x86_64", m, what) for what in ("returns", "indirect")}
    with_them = mitigated(frame)
    values |= {f"x86_64-mitigated-{name}": cheaper_from(with_them, "x86_64", pair) or "no number" for name, pair in _FROM.items()}
    return values | {"return-more": RETURN_MORE, "indirect-more": INDIRECT_MORE}


def _image_step(isa: str, mechanism: str) -> int | str:
    """Instructions that a further probe adds in Debian's image of the newest release; "no number" where none is counted."""
    two, ten = (saved.added(isa, LATEST, several(get(isa, mechanism).image, n)) for n in (2, 10))
    return "no number" if two is None or ten is None else round((ten - two) / 8)


FIGURES = (
    Figure(
        "fig-return-many",
        "What does each further probe on a function's return add?",
        rows=by_probes,
        chart=lines("instructions", over="probes", series=("mechanism",)),
        table=probes_table,
        alt="A panel per ISA with a line per mechanism: instructions that a call has more, against how many probes see it return.",
        limits="Emulated counts of one call in the newest release, without the handlers: BPF programs where that is said and with "
        "fexit, else bare ones; all probes are of a kind. x86-64 is booted without mitigations.",
    ),
    Figure(
        "fig-return-mitigated",
        "Do mitigations change how many probes are cheaper as fprobes?",
        rows=by_probes,
        table=mitigations_table,
        limits="Counts, no timing: a thunk takes longer than its instructions. mitigated: retpolines and SRSO's safe return, "
        f"{RETURN_MORE} and {INDIRECT_MORE} instructions each, as in Debian's images. Debian: its kernel, run so, with one probe.",
    ),
    Figure(
        "fig-return-functions",
        "What does a probe on many functions' returns hold?",
        rows=by_functions,
        chart=lines("bytes", over="functions", series=("mechanism",), log="xy"),
        table=functions_table,
        alt="A panel per ISA with a line per mechanism: bytes of memory held, against how many functions have a probe each.",
        limits="Bytes of structs, pools and code in the lab, on one CPU; pools as kernels make them. Without shadow stacks, hashes "
        "and tables.",
    ),
)
