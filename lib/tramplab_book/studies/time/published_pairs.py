"""The ratio of what two hooks cost, as published, and in the lab as far as it has both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.estimate import cycles, judged
from tramplab.estimate.cores import get as core
from tramplab.lab.measure import run
from tramplab.lab.run import Run

from ...publish import published
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ...publish.phrases import estimated
from ..memo import once

NAME = "published_pairs"
TITLE = "Two hooks of one published table, and the lab's nearest to them"
UNITS: dict[str, str] = {}

#: Something the lab can call: ISA, release, and the hook.
Lab = tuple[str, str, str]


@dataclass(frozen=True)
class Pair:
    """One comparison.

    run: whose measurement, in short.
    what: costly / cheap; "call / jump" is how the patch site reaches the trampoline.
    costly, cheap: functions that give what each added, in any one unit.
    labs: the lab's nearest to both, None where it has nothing near.
    cores: the cores for which cycles are estimated, none for the usable ones.
    missing: what the published hooks have and the lab's do not.
    """

    isa: str
    run: str
    what: str
    costly: Callable[[], float]
    cheap: Callable[[], float]
    labs: tuple[Lab, Lab]
    cores: tuple[str, ...]
    missing: str

    @property
    def ratio(self) -> float:
        """The published ratio of what both add."""
        return self.costly() / self.cheap()


def _time(table: str, name: str, base: str = "base") -> Callable[[], float]:
    """Nanoseconds that a hook adds: of its time, or the inverse of its rate, less the base's; ids begin with `table`."""
    return lambda: published.get(table + name).ns - published.get(table + base).ns


def _loss(name: str) -> Callable[[], float]:
    """What a hook adds to an event, as a part of the event without it; from the loss of events per second in percent."""

    def added() -> float:
        m = published.get(name)
        if m.unit != "percent loss vs base":
            raise TramplabError(f"{name} is in {m.unit}, not a loss.")
        return m.value / (100 - m.value)

    return added


_XU, _FLORENT, _2019 = "arm64-pi4-xu-trig-", "arm64-rpi4-florent-trig-", "x86-2019-task_rename-no-"
_BEFORE, _AFTER = "x86-jmp-before-", "x86-jmp-after-"
_BPF = "fprobe, and a BPF program's entry and exit"
_DIRECT: Lab = ("arm64", "v6.4", "direct")

_arm64 = functools.partial(Pair, isa="arm64", cores=("cortex-a72",), missing=_BPF)
#: The CPUs are not named: of x86-64's cores those whose models are usable.
_x86 = functools.partial(Pair, isa="x86_64", cores=())

PAIRS = (
    _arm64(
        run="Xu",
        what="fprobe / direct",
        costly=_time(_XU, "fentry-indirect"),
        cheap=_time(_XU, "fentry-direct"),
        labs=(("arm64", "v6.2", "ops"), _DIRECT),
    ),
    _arm64(
        run="Florent",
        what="fprobe+CALL_OPS/direct",
        costly=_time(_FLORENT, "fentry-indirect"),
        cheap=_time(_FLORENT, "fentry-direct"),
        labs=(("arm64", "v6.4", "ops"), _DIRECT),
    ),
    _arm64(
        run="RFC",
        what="fprobe, slow / direct",
        costly=_loss("arm64-rfc-fprobe-no-optimisation"),
        cheap=_loss("arm64-rfc-direct-calls"),
        labs=(("arm64", "v6.1", "ops-regs"), _DIRECT),
    ),
    _arm64(
        run="RFC",
        what="fprobe, fast / direct",
        costly=_loss("arm64-rfc-fprobe-all-optimisations"),
        cheap=_loss("arm64-rfc-direct-calls"),
        labs=(("arm64", "v6.4", "ops"), _DIRECT),
    ),
    _x86(
        run="2025",
        what="kprobe-multi / fentry",
        costly=_time(_BEFORE, "kprobe-multi", "kernel-count"),
        cheap=_time(_BEFORE, "fentry", "kernel-count"),
        labs=(("x86_64", "v6.18", "kprobe-multi"), ("x86_64", "v6.18", "bpf-fentry")),
        missing="",
    ),
    _x86(
        run="2025",
        what="fexit / fentry, call",
        costly=_time(_BEFORE, "fexit", "kernel-count"),
        cheap=_time(_BEFORE, "fentry", "kernel-count"),
        labs=(("x86_64", "v6.18", "bpf-fexit"), ("x86_64", "v6.18", "bpf-fentry")),
        missing="",
    ),
    *(
        _x86(
            run="2025",
            what=f"{title}, call / jump",
            costly=_time(_BEFORE, name, "kernel-count"),
            cheap=_time(_AFTER, name, "kernel-count"),
            labs=(("x86_64", "v6.18", f"bpf-{name}"), ("x86_64", "v6.19", f"bpf-{name}")),
            missing="",
        )
        for title, name in (("fexit", "fexit"), ("fmod_ret", "fmodret"))
    ),
    _x86(
        run="2019",
        what="fexit / fentry",
        costly=_time(_2019, "fexit"),
        cheap=_time(_2019, "fentry"),
        labs=(("x86_64", "v6.1", "bpf-fexit"), ("x86_64", "v6.1", "bpf-fentry")),
        missing="",
    ),
    _x86(
        run="2019",
        what="kprobe / fentry",
        costly=_time(_2019, "kprobe"),
        cheap=_time(_2019, "fentry"),
        labs=(("x86_64", "v6.1", "kprobe-bpf"), ("x86_64", "v6.1", "bpf-fentry")),
        missing="",
    ),
)


@once
def rows() -> pd.DataFrame:
    """One row per pair and core.

    Columns: isa, run, what (costly / cheap), published (how many times as much it adds), core, instructions,
    cycles, low, high (the lab's ratios of what both add; cycles with their band), missing.
    """
    records = []
    for p in PAIRS:
        head = {"isa": p.isa, "run": p.run, "what": p.what, "published": round(p.ratio, 2)}
        costly, cheap = map(_runs, p.labs)
        instructions = _added(costly) / _added(cheap)
        for name in p.cores or [c.name for c in judged.usable(p.isa)]:
            e = cycles.relative(costly, cheap, core(name))
            lab = {"instructions": instructions, "cycles": e.mid, "low": e.low, "high": e.high}
            records.append({**head, "core": name, **{k: round(v, 2) for k, v in lab.items()}, "missing": p.missing})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache
def _runs(lab: Lab) -> tuple[Run, Run]:
    """A hooked call and the same call before."""
    isa, release, hook = lab
    return run(isa, hook, release), run(isa, "none", release)


def _added(runs: tuple[Run, Run]) -> int:
    hooked, unhooked = runs
    return hooked.counts.total.instructions - unhooked.counts.total.instructions


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Published and estimated ratios, one part per core; what the lab lacks stands in the page."""
    printed = pd.DataFrame({"isa": frame["isa"] + ", " + frame["core"], **{c: frame[c] for c in ("run", "what")}})
    printed["published"] = [f"{v:.2f}" for v in frame["published"]]
    printed["estimated"] = [_ratio(r) for r in frame.to_dict("records")]
    printed.attrs["units"] = {"published": "ratio", "estimated": "ratio"}
    printed.attrs["right"] = ("published", "estimated")
    return printed


def _ratio(row: Mapping) -> str:
    """An estimated ratio with its band."""
    return estimated(row["cycles"], row["low"], row["high"], digits=2)


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per pair, core and who says it: the published ratio, and the estimated one with its band."""
    data = frame.assign(pair=frame["what"] + ", " + frame["run"])
    nothing = {"low": float("nan"), "high": float("nan")}
    both = [data.assign(by="published", ratio=data["published"], **nothing), data.assign(by="estimated", ratio=data["cycles"])]
    return pd.concat(both, ignore_index=True).astype({"ratio": float, "low": float, "high": float})


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: per pair a number from 1, "3-published", and the estimated ratio with its band, "3-estimated" on its
    first core and "3-zen3-estimated" on each; and of the pairs on all cores, "pairs-total", how often the estimate says which
    hook costs more, "pairs-right", and how often the published ratio is in its band, "pairs-inside"."""
    values: dict[str, object] = {}
    places = {key: n for n, key in enumerate(dict.fromkeys(zip(frame["run"], frame["what"], strict=True)), 1)}
    for r in frame.to_dict("records"):
        n = places[r["run"], r["what"]]
        values.setdefault(f"{n}-published", f"{r['published']:g}")
        values.setdefault(f"{n}-estimated", _ratio(r))
        values[f"{n}-{r['core']}-estimated"] = _ratio(r)
    return values | {"pairs-total": len(frame), "pairs-right": int(_right(frame).sum()), "pairs-inside": int(_inside(frame).sum())}


def _right(frame: pd.DataFrame) -> pd.Series:
    """Does the estimate say which hook of a pair costs more?"""
    return (frame["cycles"] > 1) == (frame["published"] > 1)


def _inside(frame: pd.DataFrame) -> pd.Series:
    """Is the published ratio in the band of the estimate?"""
    return frame["published"].between(frame["low"], frame["high"])


_CHART = dumbbell("ratio", "pair", "by", low="low", high="high", facet="core", columns=2, shared=True)
_LIMITS = (
    "Ratios of what two hooks add to a call. Where fprobe is on one side the lab has only the trampolines: neither fprobe nor, on "
    "both sides then, a BPF program's entry and exit. All others, kprobe and kprobe-multi too, run a BPF program with what is "
    "around it."
)

FIGURES = (
    Figure(
        "fig-published-pairs",
        "How much more does one hook cost than another?",
        chart=lambda frame: _CHART(dumbbells(frame)),
        table=table,
        alt="A panel per core and a line per pair of hooks: how many times as much the first adds, as published and as estimated, "
        "with its band. The table below has every number.",
        limits=_LIMITS,
        source="published",
        kind="estimate",
    ),
)
