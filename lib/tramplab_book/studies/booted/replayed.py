"""Does a callback get its own ops? A race of patching, replayed on booted kernels with two CPUs, as saved from these boots."""

from __future__ import annotations

import pandas as pd

from tramplab.boot import replays_saved

from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..memo import once

NAME = "replayed"
TITLE = "Ops and callback, a thread held between them"
#: Outcome of a replay -> whose ops the callback was passed.
_WHOSE = {"apart": "another's", "together": "its own", "waits": "kernel waits"}
_LIST = "arch_ftrace_ops_list_func"


@once
def rows() -> pd.DataFrame:
    """One row per kernel and order. Columns: kernel, isa, release, scheme, leaves (the tracer that leaves the function while the
    thread is held), entered (the callback), outcome (of replays.Came), oops (does the kernel end in one?)."""
    return pd.DataFrame(
        {
            "kernel": f"Debian {kernel['version'].partition('-')[0]}",
            "isa": kernel["isa"],
            "release": kernel["release"],
            "scheme": one["scheme"],
            "leaves": "function" if one["does"].startswith("turns the function tracer off") else "stack",
            "entered": one["entered"],
            "outcome": one["outcome"],
            "oops": bool(one["oops"]),
        }
        for kernel in replays_saved.read()["kernels"]
        for one in kernel["replays"]
    )


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and order."""
    called = {name: "list function" if name == _LIST else name for name in frame["entered"]}
    whose = [_WHOSE[o] + ", oops" * bad for o, bad in zip(frame["outcome"], frame["oops"], strict=True)]
    return pd.DataFrame(
        {
            "kernel": [k.removeprefix("Debian ") for k in frame["kernel"]],
            "ISA": frame["isa"].map(isa_name),
            "tracer off": frame["leaves"],
            "then enters": frame["entered"].map(called),
            "ops": whose,
        }
    )


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """All "kernels", those with each outcome ("apart-kernels"), those that end in an oops ("oops-kernels"); and the outcomes of
    each, "arm64-v6-1-replay", joined where they differ."""
    found: dict[str, object] = {"kernels": frame.groupby(["kernel", "isa"]).ngroups}
    for outcome in _WHOSE:
        found[f"{outcome}-kernels"] = frame[frame["outcome"] == outcome].groupby(["kernel", "isa"]).ngroups
    found["oops-kernels"] = frame[frame["oops"]].groupby(["kernel", "isa"]).ngroups
    for (isa, release), of in frame.groupby(["isa", "release"]):
        found[f"{isa}-{slug(release)}-replay"] = " and ".join(dict.fromkeys(of["outcome"]))
    return found


FIGURES = (
    Figure(
        "fig-replayed",
        "Whose ops is a callback passed?",
        table=table,
        limits="Debian's kernels on two CPUs of QEMU. CPU 1 is held between the load of the ops and the call, or inside the site, "
        "and takes interrupts there until CPU 0 has changed who traces the function.",
        source="booted",
    ),
)
