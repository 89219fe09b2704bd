"""What does a callback cost a function whose arguments are in registers that the standard calling convention has for none?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.emulate.walk import stepping
from tramplab.ftrace import releases
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.plain import Ops

from ....publish.figures.figure import Figure
from ... import faults
from ...memo import once
from ...shared.guests import with_functions

NAME = "own_convention"
TITLE = "A function with a calling convention of its own"
ISA = "riscv64"
#: The function, compiled by Clang, and what calls it; their source stands behind the guest's functions.c.
FUNCTION, CALLER, ARGUMENTS = "twelve_own_args", "calls_own_args", (1, 2, 3, 4)
SOURCE = Path(__file__).parent / "fastcc.c"
#: What the callback does -> the guest's function.
CALLBACKS = {"counts": "lab_callback", "overwrites": "lab_observe_clobber"}
#: Whose frame ftrace_caller makes -> is it Clang's? Clang's kernels save t2 to t6 since v6.16.
FRAMES = {"GCC's": False, "Clang's": True}
GCC, CLANG = FRAMES
#: What the figure has: the release in which one argument is lost under any callback, and the newest.
SHOWN = ("v6.12", releases.LATEST)
CLANG_RELEASES = tuple(r for r in releases.shown() if releases.parse(r) >= (6, 16))
_FURTHER = tuple(f"t{n}" for n in range(3, 7))


@once
def rows() -> pd.DataFrame:
    """One row per release, frame and callback.

    Columns: isa, release, frame ("GCC's", or "Clang's" where it is another one), callback (a name of CALLBACKS), lost (the
    registers with an argument that have another value when the function's body begins), result ("right" or "wrong").
    """
    with with_functions(SOURCE.read_text("utf-8")) as guest:
        items = [row for release in releases.shown() for row in _of(release, GCC, guest)]
        return pd.DataFrame([*items, *(row for release in CLANG_RELEASES for row in _of(release, CLANG, guest))])


def _of(release: str, frame: str, guest: Path) -> Iterator[dict[str, object]]:
    kernel = Kernel(ISA, release, meter=RECORD, guest=guest, clang_frame=FRAMES[frame])
    wanted, arrived = kernel.call(CALLER, *ARGUMENTS).value, _at_body(kernel)
    for name, callback in CALLBACKS.items():
        with kernel.attached(FUNCTION, Ops(callback=callback)):
            now = _at_body(kernel)
            lost = [r for r in _FURTHER if now[r] != arrived[r]]
            right = kernel.call(CALLER, *ARGUMENTS).value == wanted
        head = {"isa": ISA, "release": release, "frame": frame, "callback": name}
        yield {**head, "lost": " ".join(lost), "result": "right" if right else "wrong"}


def _at_body(kernel: Kernel) -> dict[str, int]:
    """The registers when a call of the caller comes to the function's own first instruction."""
    machine, body = kernel.machine, kernel.function(FUNCTION).site.body
    start, stack = kernel.passed(ARGUMENTS, {}, CALLER)
    states = stepping(machine, kernel.function(CALLER).address, start, stack)
    return next(state for state in states if state[kernel.isa.pc] == body)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per release and callback."""
    return frame.assign(lost=frame["lost"].replace("", "-"))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: how many arguments are in t-registers ("further"), how many of them are lost, "v6-12-counts-lost" (and
    "clang-v7-2-counts-lost"), in how many of the "releases" results are wrong, "counts-wrong" and "overwrites-wrong", and with
    Clang's frame, "clang-wrong" of "clang-lines"."""
    gcc, clang = (frame[frame["frame"] == name] for name in FRAMES)
    values: dict[str, object] = {"further": len(_FURTHER), "releases": gcc["release"].nunique(), "clang-lines": len(clang)}
    for r in frame.itertuples():
        values[f"{'clang-' * (r.frame == CLANG)}{r.release.replace('.', '-')}-{r.callback}-lost"] = len(r.lost.split())
    for callback, part in gcc.groupby("callback"):
        values[f"{callback}-wrong"] = int((part["result"] == "wrong").sum())
    return values | {"clang-wrong": int((clang["result"] == "wrong").sum())}


FIGURES = (
    Figure(
        "fig-own-convention",
        "What does a function with a convention of its own lose?",
        rows=lambda frame: frame[frame["release"].isin(SHOWN)],
        table=table,
        limits="Emulated: a function of twelve arguments that only its own file calls, compiled by Clang for riscv64, which passes "
        "four of them in t3 to t6, with one ops on it. In a kernel built by GCC no function has arguments there. Clang's frame is "
        f"that of v6.16 and later. {faults.said(['clang_arguments'])}",
    ),
)
