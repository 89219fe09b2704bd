"""How many times as dear as another hook is a hook: as published, and as far as the lab has both?"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from ..analyse import cycles
from ..analyse.cores import get as core
from ..emulate.machine import RECORD
from ..errors import TramplabError
from ..ftrace import hooks, shapes
from ..ftrace.kernel import Kernel
from ..ftrace.run import Run
from ..publish import published
from ..publish.chart import scatter
from ..publish.figure import Figure

NAME = "published_pairs"
TITLE = "Two hooks of one published table, and the lab's nearest to them"
FUNCTION = "one_arg"
UNITS: dict[str, str] = {}

#: Something the lab can call: ISA, release, and what is attached, a hook or a shape.
Lab = tuple[str, str, str | shapes.Shape]


@dataclass(frozen=True)
class Pair:
    """One comparison.

    run: whose measurement, in short. what: dearer / cheaper; "call / jump" is how the patch site reaches the trampoline.
    dearer, cheaper: functions that give what each added, in any one unit. labs: the lab's nearest to both, None where it
    has nothing near. cores: what cycles are estimated for. missing: what the published hooks have and the lab's have not.
    """

    isa: str
    run: str
    what: str
    dearer: Callable[[], float]
    cheaper: Callable[[], float]
    labs: tuple[Lab, Lab] | None
    cores: tuple[str, ...]
    missing: str

    @property
    def ratio(self) -> float:
        """The published ratio of what both add."""
        return self.dearer() / self.cheaper()


def _time(name: str, base: str) -> Callable[[], float]:
    """Nanoseconds that a hook adds: of its time, or the inverse of its rate, less the base's."""
    return lambda: published.get(name).ns - published.get(base).ns


def _loss(name: str) -> Callable[[], float]:
    """What a hook adds to an event, as a part of the event without it; from the loss of events per second in percent."""

    def added() -> float:
        m = published.get(name)
        if m.unit != "percent loss vs base":
            raise TramplabError(f"{name} is in {m.unit}, not a loss.")
        return m.value / (100 - m.value)

    return added


_FLORENT, _XU, _JMP = "arm64-rpi4-florent-trig-", "arm64-pi4-xu-trig-", "x86-jmp-"
_DIRECT_ARM64: Lab = ("arm64", "v6.4", "direct")
_BPF = "fprobe, and a BPF program's entry and exit"
_COUNT = "kernel-count"

PAIRS = (
    Pair(
        "arm64",
        "Xu",
        "fprobe / direct",
        _time(f"{_XU}fentry-indirect", f"{_XU}base"),
        _time(f"{_XU}fentry-direct", f"{_XU}base"),
        (("arm64", "v6.2", "ops"), _DIRECT_ARM64),
        ("cortex-a72",),
        _BPF,
    ),
    Pair(
        "arm64",
        "Florent",
        "fprobe+CALL_OPS/direct",
        _time(f"{_FLORENT}fentry-indirect", f"{_FLORENT}base"),
        _time(f"{_FLORENT}fentry-direct", f"{_FLORENT}base"),
        (("arm64", "v6.4", "ops"), _DIRECT_ARM64),
        ("cortex-a72",),
        _BPF,
    ),
    Pair(
        "arm64",
        "RFC",
        "fprobe, slow / direct",
        _loss("arm64-rfc-fprobe-no-optimisation"),
        _loss("arm64-rfc-direct-calls"),
        (("arm64", "v6.1", "ops-regs"), _DIRECT_ARM64),
        ("cortex-a72",),
        _BPF,
    ),
    Pair(
        "arm64",
        "RFC",
        "fprobe, fast / direct",
        _loss("arm64-rfc-fprobe-all-optimisations"),
        _loss("arm64-rfc-direct-calls"),
        (("arm64", "v6.4", "ops"), _DIRECT_ARM64),
        ("cortex-a72",),
        _BPF,
    ),
    Pair(
        "x86_64",
        "2025",
        "kprobe-multi / fentry",
        _time(f"{_JMP}before-kprobe-multi", f"{_JMP}before-{_COUNT}"),
        _time(f"{_JMP}before-fentry", f"{_JMP}before-{_COUNT}"),
        (("x86_64", "v6.18", "ops"), ("x86_64", "v6.18", "direct")),
        ("skylake", "zen3", "zen5"),
        _BPF,
    ),
    Pair(
        "x86_64",
        "2025",
        "fexit, call / jump",
        _time(f"{_JMP}before-fexit", f"{_JMP}before-{_COUNT}"),
        _time(f"{_JMP}after-fexit", f"{_JMP}after-{_COUNT}"),
        (("x86_64", "v7.2", shapes.Shape(5, 3, False)), ("x86_64", "v7.2", shapes.Shape(5, 3, True))),
        ("skylake", "zen3", "zen5"),
        "a trampoline that calls the function itself",
    ),
    Pair(
        "x86_64",
        "2025",
        "fmod_ret, call / jump",
        _time(f"{_JMP}before-fmodret", f"{_JMP}before-{_COUNT}"),
        _time(f"{_JMP}after-fmodret", f"{_JMP}after-{_COUNT}"),
        (("x86_64", "v7.2", shapes.Shape(5, 3, False)), ("x86_64", "v7.2", shapes.Shape(5, 3, True))),
        ("skylake", "zen3", "zen5"),
        "a trampoline that calls the function itself",
    ),
    Pair(
        "x86_64",
        "2019",
        "fexit / fentry",
        _time("x86-2019-task_rename-no-fexit", "x86-2019-task_rename-no-base"),
        _time("x86-2019-task_rename-no-fentry", "x86-2019-task_rename-no-base"),
        None,
        (),
        "fexit",
    ),
    Pair(
        "x86_64",
        "2019",
        "kprobe / fentry",
        _time("x86-2019-task_rename-no-kprobe", "x86-2019-task_rename-no-base"),
        _time("x86-2019-task_rename-no-fentry", "x86-2019-task_rename-no-base"),
        None,
        (),
        "kprobe",
    ),
)


def rows() -> pd.DataFrame:
    """One row per pair and core; one without estimate for a pair the lab has nothing near to.

    Columns: isa, run, what (dearer / cheaper), published (how many times as much it adds), core, instructions,
    cycles, low, high (the lab's ratios of what both add; cycles with their band), missing.
    """
    out = []
    for p in PAIRS:
        head = {"isa": p.isa, "run": p.run, "what": p.what, "published": round(p.ratio, 2)}
        if p.labs is None:
            out.append(
                {**head, "core": None, **dict.fromkeys(("instructions", "cycles", "low", "high")), "missing": p.missing}
            )
            continue
        dearer, cheaper = map(_runs, p.labs)
        instructions = _added(dearer) / _added(cheaper)
        for name in p.cores:
            e = cycles.relative(dearer, cheaper, core(name))
            lab = {"instructions": instructions, "cycles": e.mid, "low": e.low, "high": e.high}
            out.append({**head, "core": name, **{k: round(v, 2) for k, v in lab.items()}, "missing": p.missing})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache
def _runs(lab: Lab) -> tuple[Run, Run]:
    """A hooked call and the same call before."""
    isa, release, attached = lab
    kernel = Kernel(isa, release, meter=RECORD)
    function = kernel.function(FUNCTION)
    unhooked = kernel.call(function, 1)
    if isinstance(attached, shapes.Shape):
        with shapes.attached(kernel, function, attached):
            return kernel.call(function, 1), unhooked
    with kernel.attached(function, *hooks.get(attached).requests(1)):
        return kernel.call(function, 1), unhooked


def _added(runs: tuple[Run, Run]) -> int:
    hooked, unhooked = runs
    return hooked.counts.total.instructions - unhooked.counts.total.instructions


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Published and estimated ratios, one part per core; what the lab lacks stands in the page."""
    core_of = frame["core"].fillna("not in the lab")
    out = pd.DataFrame(
        {"isa": frame["isa"] + ", " + core_of, **{c: frame[c] for c in ("run", "what", "published", "cycles")}}
    )
    out["from"], out["to"] = frame["low"], frame["high"]
    return out.astype(object).where(out.notna(), "-")


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: per pair a number from 1, "3-published", "3-cycles" and "3-band" of its first core, and
    "3-zen3-band" of each."""
    out: dict[str, object] = {}
    places = {key: n for n, key in enumerate(dict.fromkeys(zip(frame["run"], frame["what"], strict=True)), 1)}
    for r in frame.to_dict("records"):
        n = places[r["run"], r["what"]]
        out.setdefault(f"{n}-published", f"{r['published']:g}")
        if isinstance(r["core"], str):
            out.setdefault(f"{n}-cycles", f"{r['cycles']:g}")
            out.setdefault(f"{n}-band", f"{r['low']:g} to {r['high']:g}")
            out[f"{n}-{r['core']}-band"] = f"{r['low']:g} to {r['high']:g}"
    return out


_CHART = scatter("cycles", "published", "run", "what", low="low", high="high", facet="core")
_LIMITS = (
    "Ratios of what two hooks add to a call. The lab's hooks lack what the published ones have around them (fprobe, BPF entry "
    "and exit), so its ratios show the trampolines' part."
)

FIGURES = (
    Figure(
        "fig-published-pi4",
        "How much dearer than a direct call is fprobe on a Raspberry Pi 4?",
        rows=lambda frame: frame[frame["isa"] == "arm64"],
        chart=_CHART,
        table=table,
        alt="Estimated against published ratios of what fprobe and a direct call add, a point per published round. The table "
        "below has every number.",
        limits=_LIMITS,
    ),
    Figure(
        "fig-published-x86",
        "How much dearer is one x86 hook than another?",
        rows=lambda frame: frame[(frame["isa"] == "x86_64") & frame["core"].notna()],
        chart=_CHART,
        table=table,
        alt="A panel per core: estimated against published ratios of what two hooks add. The table below has every number.",
        limits=_LIMITS,
    ),
)
