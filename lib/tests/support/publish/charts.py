"""Example charts of every kind, with made-up rows in the form of the studies'."""

import functools

import pandas as pd
import pytest

from tramplab_book.publish.figures import chart
from tramplab_book.publish.figures.chart import (
    dumbbell,
    flame,
    heat_map,
    lines,
    scatter,
    stacked_bars,
    state_strip,
    steps,
    theme,
    waterfall,
)

ISAS = ("x86_64", "arm64", "riscv64")
LAYOUTS = ("wide", "narrow")

# The numbers of the rows mean nothing.


def bar_rows() -> pd.DataFrame:
    hooks, parts = ("none", "ops", "direct+ops"), ("site", "trampoline", "core", "callback", "function")
    return pd.DataFrame(
        {"isa": isa, "release": "v6.16", "hook": hook, "component": part, "instructions": (i + 1) * (j + 2)}
        for isa in ISAS
        for i, hook in enumerate(hooks)
        for j, part in enumerate(parts)
    )


def line_rows() -> pd.DataFrame:
    costs = {
        "ops": (40, 12),
        "ops-regs": (60, 12),
        "direct": (9, 0),
        "fprobe entry+exit": (90, 30),
        "kprobe": (300, 90),
    }
    frame = pd.DataFrame(
        {"isa": isa, "hook": hook, "callbacks": n, "instructions": first + (each + k) * n}
        for k, isa in enumerate(ISAS)
        for hook, (first, each) in costs.items()
        for n in (1, 2, 4, 8, 16, 32)
        if not (hook == "direct" and n > 8)
    )
    frame.attrs["units"] = {"instructions": "per call"}
    return frame


def heat_rows() -> pd.DataFrame:
    """Without arm64's "direct" and the first releases of riscv64; one row has no number."""
    hooks, releases = ("ops", "direct", "direct+ops", "fprobe exit shadow"), ("v5.15", "v6.1", "v6.4", "v6.12", "v6.16")
    frame = pd.DataFrame(
        {"isa": isa, "hook": hook, "release": release, "loads": 40.0 * i + 17 * j + 5 * k}
        for k, isa in enumerate(ISAS)
        for i, hook in enumerate(hooks)
        for j, release in enumerate(releases)
        if not (isa == "arm64" and hook == "direct") and not (isa == "riscv64" and j < 2)
    )
    frame.loc[0, "loads"] = float("nan")
    return frame


def release_rows() -> pd.DataFrame:
    """arm64's "direct" begins later, x86_64 never gets CALL_OPS, and two lines of riscv64 nearly meet."""
    costs = {"ops": (123, 122, 39, 39, 44), "ops x2": (159.5, 158, 160, 160, 160), "direct": (30, 30, 30, 35, 36)}
    return pd.DataFrame(
        {"isa": isa, "hook": hook, "release": release, "instructions": value + k, "CALL_OPS": isa != "x86_64" and at >= 2}
        for k, isa in enumerate(ISAS)
        for hook, values in costs.items()
        for at, (release, value) in enumerate(zip(("v5.17", "v6.1", "v6.4", "v6.12", "v7.2"), values, strict=True))
        if not (isa == "arm64" and hook == "direct" and at < 2)
    )


LETTERS = {"restored": "R", "kept": "K", "lost to the callback": "C", "lost to the hook": "H", "never met": "N"}
MEANINGS = {
    "restored": theme.RIGHT,
    "kept": theme.NOTHING,
    "lost to the callback": theme.WRONG,
    "lost to the hook": theme.WRONG,
    "never met": theme.NOTICED,
}


def fate_rows() -> pd.DataFrame:
    """Registers of their own in every panel; riscv64 lacks a hook, and no cell has the last of LETTERS."""
    registers = {
        "x86_64": ("rdi rsi", "rax", "r10 r11"),
        "arm64": ("x0-x7", "x9"),
        "riscv64": ("a0-a7", "t0", "s0-s11"),
    }
    return pd.DataFrame(
        {"isa": isa, "register": register, "hook": hook, "fate": list(LETTERS)[(i + j) % 4]}
        for isa, names in registers.items()
        for i, register in enumerate(names)
        for j, hook in enumerate(("ops", "ops-regs", "direct", "direct+ops"))
        if not (isa == "riscv64" and hook == "ops-regs")
    )


STEPS = ("1: boot", "2: a", "3: a + other", "4: a", "5: boot")
LIFE = {
    "target": ("nothing", "ftrace_trampoline[0]", "ftrace_caller", "ftrace_caller", "nothing"),
    "callee": ("nothing", "lab_callback", "ftrace_ops_list_func", "lab_callback", "nothing"),
    "bytes at the site": ("nop", "call", "call", "call", "nop"),
    "count": ("0", "1", "2", "1", "0"),
}


def strip_rows() -> pd.DataFrame:
    return pd.DataFrame(
        {"isa": isa, "step": step, "lane": lane, "state": states[i]}
        for isa in ISAS
        for lane, states in LIFE.items()
        for i, step in enumerate(STEPS)
    )


def change_rows() -> pd.DataFrame:
    steps = {
        "ops in v6.1": 190,
        "call_ops literal": -23,
        "no change": 0,
        "registers of a longer name": -9.5,
        "guard": 30,
    }
    return pd.DataFrame(
        {"isa": isa, "change": step, "instructions": value + k}
        for k, isa in enumerate(ISAS)
        for step, value in steps.items()
        if not (isa == "arm64" and step == "no change")
    )


def pair_rows() -> pd.DataFrame:
    """Bands of all sizes, one of them none at all."""
    frame = pd.DataFrame(
        {"isa": isa, "case": f"{hook} {n}", "core": core, "measured": n + 0.5, "predicted": (n + 0.25) * (k + 1)}
        for isa in ISAS
        for k, core in enumerate(("Cortex-A72", "a core with a longer name"))
        for hook in ("ops", "direct")
        for n in ((1, 2, 40) if hook == "ops" else (3, 11))
    )
    frame["least"], frame["most"] = frame["predicted"] * 0.8, frame["predicted"] * [1 + n % 3 / 4 for n in range(30)]
    frame.attrs["units"] = {"measured": "ns", "predicted": "cycles"}
    return frame


def dumbbell_rows() -> pd.DataFrame:
    """Some with a band and some without, one alone in its line, and two that say the same."""
    frame = pair_rows()
    measured = frame[frame["core"] == "Cortex-A72"].assign(core="measured", predicted=lambda f: f["measured"])
    frame = pd.concat([measured.assign(least=float("nan"), most=float("nan")), frame], ignore_index=True)
    frame = frame[(frame["case"] != "direct 3") | (frame["core"] == "measured")]
    return frame.assign(predicted=frame["predicted"].where(frame["case"] != "ops 2", 2.5).clip(frame["least"], frame["most"]))


def flame_rows() -> pd.DataFrame:
    """A function below a trampoline and two callbacks, of which one is too short for its name; the last return is mispredicted."""
    boxes = (
        ("one_arg", "site", 0, 160, 0),
        ("ftrace_caller", "trampoline", 2, 158, 1),
        ("ftrace_ops_list_func", "core", 20, 120, 2),
        ("lab_callback", "callback", 30, 5, 3),
        ("a_longer_callback", "callback", 40, 95, 3),
        ("one_arg", "function", 160, 40, 0),
    )
    columns = ("isa", "name", "part", "start", "depth", "instructions", "missed")
    return pd.DataFrame(
        dict(zip(columns, (isa, name, part, k * start, depth, k * length, int(depth == 0)), strict=True))
        for k, isa in enumerate(ISAS, 1)
        for name, part, start, length, depth in boxes
    )


EXAMPLES = {
    "bars": lambda: stacked_bars("instructions")(bar_rows()),
    "lines": lambda: lines("instructions", over="callbacks", series="hook")(line_rows()),
    "lines, log": lambda: lines("instructions", over="callbacks", shared=False, log="xy")(line_rows()),
    "heat": lambda: heat_map("loads", rows="hook", columns="release")(heat_rows()),
    "heat, rows": lambda: heat_map("loads", per_row=True)(heat_rows()),
    "heat, letters": lambda: heat_map("fate", "register", "hook", meanings=MEANINGS, letters=LETTERS)(fate_rows()),
    "pairs": lambda: scatter("predicted", "measured", "case", "core", "least", "most")(pair_rows()),
    "flame": lambda: flame("instructions", mispredicted="missed", facet="isa")(flame_rows()),
    "steps": lambda: steps("instructions", since="CALL_OPS")(release_rows()),
    "dumbbells": lambda: dumbbell("predicted", "case", "core", "least", "most")(dumbbell_rows()),
    "strip": lambda: state_strip()(strip_rows()),
    "waterfall": lambda: waterfall("instructions", step="change")(change_rows()),
}
# By role: what a mark is called by, and what its value is called.
NAMED = {
    "bar": (("panel", "bar", "part"), "instructions"),
    "point": (("panel", "series", "over"), "instructions (per call)"),
    "stage": (("panel", "series", "stage"), "instructions"),
    "pair": (("panel", "series", "name", "against"), "predicted (cycles)"),
    "function": (("panel", "name", "part", "start"), "instructions"),
    "dumbbell": (("panel", "name", "series"), "predicted (cycles)"),
    "cell": (("panel", "row", "column"), "loads"),
    "letter": (("panel", "row", "column"), "fate"),
    "state": (("panel", "step", "lane"), "state"),
    "step": (("panel", "step"), "instructions"),
}


@functools.cache
def example(kind: str) -> chart.Drawing:
    return EXAMPLES[kind]()


@functools.cache
def picture(kind: str, layout: str = "wide") -> str:
    return example(kind).svg(layout)


every_kind = pytest.mark.parametrize("kind", EXAMPLES)
both_layouts = pytest.mark.parametrize("layout", LAYOUTS)

