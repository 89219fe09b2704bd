"""Where is the callsite's ops, seen from the function, and how does the common trampoline find it?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tramplab.ftrace import releases
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.lab.view import Function
from tramplab.trampolines.plain import Ops

from ...publish.figures.figure import Figure
from ...publish.phrases import listed, marked
from ..memo import once

NAME = "literals"
TITLE = "Where the callsite's ops is, and what finds it"
#: Functions that take integers only, so that each can be called.
FUNCTIONS = ("no_args", "one_arg", "two_args", "three_args", "four_args", "five_args", "six_args", "calls_others", "tail_call")
ARGUMENTS = (1, 2, 3, 4, 5, 6)
ALIGNED = 8
UNITS = {"literal": "B", "behind": "B", "instructions": "n", "loads": "n"}


@dataclass(frozen=True)
class Build:
    """An image that has the ops before its functions: what differs from others of its ISA, and the features that make it so;
    hypothetical: no kernel has it."""

    isa: str
    built: str
    overrides: dict[str, Any] = field(default_factory=dict)
    hypothetical: bool = False


BUILDS = (
    Build("arm64", "no BTI"),
    Build("arm64", "BTI", {"bti": True}),
    Build("riscv64", "compressed"),
    Build("riscv64", "full size", {"compressed": False}),
    Build("x86_64", "no IBT", {"call_ops": True, "ibt": False, "trampoline_endbr": False}, True),
    Build("x86_64", "IBT", {"call_ops": True}, True),
)


@once
def rows() -> pd.DataFrame:
    """One row per image and function that was called with an ops.

    Columns: isa, release, built, hypothetical, function, literal (bytes from the function's first byte to the ops), behind (bytes
    from the ops to where the site's call returns), aligned (does it start at a multiple of eight?), read (did ftrace_caller load
    exactly these bytes?), right (was the ops called, and does the function return what it returns unhooked?), code (the
    instructions that lead to the ops, the load last, a line each), instructions (how many), loads (how many of them load).
    """
    records = []
    for b in BUILDS:
        kernel = Kernel(b.isa, releases.LATEST, **b.overrides)
        head = {"isa": b.isa, "release": releases.LATEST, "built": b.built, "hypothetical": b.hypothetical}
        for name in FUNCTIONS:
            function = kernel.function(name)
            unhooked = kernel.call(function, *ARGUMENTS)
            with kernel.attached(function, Ops()):
                run = kernel.call(function, *ARGUMENTS)
            right = run.hits == (1,) and run.value == unhooked.value
            records.append({**head, "function": name, **_found(run, function), "right": right})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _found(run: Run, function: Function) -> dict[str, object]:
    """How one call found the ops."""
    site = function.site
    at = site.literal or 0
    steps = [s for s in run.steps if run.component_of(s.pc) == "trampoline"]
    read = [n for n, s in enumerate(steps) if (at, ALIGNED, False) in s.accesses]
    code = _leading([run.instructions[s.pc].text for s in steps[: read[0] + 1]], run.isa.sp) if read else []
    kept = [s for s in steps[: read[0] + 1] if run.instructions[s.pc].text in code] if read else []
    return {
        "literal": at - site.entry,
        "behind": site.body - at,
        "aligned": at % ALIGNED == 0,
        "read": bool(read),
        "code": "\n".join(code),
        "instructions": len(code),
        "loads": sum(any(not is_store for *_, is_store in s.accesses) for s in kept),
    }


def _leading(texts: list[str], sp: str) -> list[str]:
    """The last of some instructions, and those before it that make the address it loads from, back to what the stack pointer or the
    link register brings.

    >>> _leading(["sub sp, sp, #8", "and x11, x30, #-8", "mov x1, x9", "ldr x11, [x11, #-16]"], "sp")
    ['and x11, x30, #-8', 'ldr x11, [x11, #-16]']
    >>> _leading(["mov rdi, [rsp + 8]", "sub rdi, 5", "mov rdx, rdi", "and rdx, -8", "mov rdx, [rdx - 8]"], "rsp")
    ['mov rdi, [rsp + 8]', 'sub rdi, 5', 'mov rdx, rdi', 'and rdx, -8', 'mov rdx, [rdx - 8]']
    """
    needed = _registers(texts[-1].split(",", 1)[-1]) - {sp}
    items = [texts[-1]]
    for text in reversed(texts[:-1]):
        name, _, operands = text.partition(" ")
        to, _, source = operands.partition(", ")
        if to not in needed:
            continue
        items.insert(0, text)
        # an instruction of two operands that is no move works on its first
        needed = needed - {to} | (_registers(source) - {sp}) | ({to} if "," not in source and name not in _MOVES else set())
    return items


#: Instructions that replace their first operand.
_MOVES = ("mov", "lea", "ldr", "ldur", "ld")


def _registers(operands: str) -> set[str]:
    return set(re.findall(r"\b[a-z]+\d*\b", operands)) - {"qword", "ptr"}


def images(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per image: how many functions were called, the distances (one each, or all of them), and the code."""
    keys = ["isa", "built", "hypothetical"]
    records = []
    for key, part in frame.groupby(keys, sort=False):
        together = {c: "/".join(map(str, dict.fromkeys(part[c]))) for c in ("literal", "behind", "instructions", "loads", "code")}
        records.append({**dict(zip(keys, key, strict=True)), "functions": len(part), **together})
    return pd.DataFrame(records)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per image: functions, the distances in bytes, and what finds the ops."""
    found = images(frame)
    printed = found.drop(columns=["hypothetical", "code"])
    printed["built"] = [marked(str(r.built), r.hypothetical) for r in found.itertuples()]
    printed = printed.rename(columns={"literal": "ops", "behind": "return"})
    printed.attrs = {"right": ("ops", "return", "instructions", "loads"), "units": {"ops": "B", "return": "B"}}
    return printed


def code(frame: pd.DataFrame) -> pd.DataFrame:
    """The instructions that find the ops: a row each; images in which they are the same share them."""
    records: list[dict[str, object]] = []
    for isa, part in images(frame).groupby("isa", sort=False):
        for texts, same in part.groupby("code", sort=False):
            built = marked(listed(same["built"]), bool(same["hypothetical"].any()))
            records += [{"isa": isa, "built": built, "instruction": text} for text in str(texts).split("\n")]
    return pd.DataFrame(records)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by image, such as "arm64-bti-before", bytes from the ops to the function at the most, "-back", to
    where the call returns, and "-instructions", how many find it; and of the images that kernels have "calls-total", and in how
    many of these an aligned pointer, as near as in the others, was loaded and its ops called, "calls-right"."""
    real = frame[~frame["hypothetical"]]
    right = real[["aligned", "read", "right"]].all(axis=1) & (real["literal"] == real["literal"].max())
    values: dict[str, object] = {"calls-right": int(right.sum()), "calls-total": len(real)}
    for r in images(frame).itertuples():
        key = f"{r.isa}-{r.built.lower().replace(' ', '-')}"
        values[f"{key}-before"] = max(-int(n) for n in r.literal.split("/"))
        values |= {f"{key}-back": r.behind, f"{key}-instructions": r.instructions, f"{key}-loads": r.loads}
    return values


_LIMITS = (
    "From the lab's images, each function called once with an ops. Compressed or not: the traced functions; the trampoline's "
    "own code is the same in both."
)

FIGURES = (
    Figure(
        "fig-literals",
        "Where is the ops, seen from the function?",
        table=table,
        limits=f"ops: bytes from the function's first byte. return: bytes from the ops to where the site's call returns. {_LIMITS}",
        hypothetical=True,
    ),
    Figure(
        "fig-literals-code",
        "Which instructions find the ops?",
        rows=code,
        table=lambda frame: frame,
        limits=_LIMITS,
        hypothetical=True,
    ),
)
