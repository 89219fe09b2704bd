"""How many times as dear as another hook is a hook: as published, and as far as the lab has both?"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...errors import TramplabError
from ...lab.measure import run
from ...lab.run import Run
from ...publish import published
from ...publish.figures.chart import scatter
from ...publish.figures.figure import Figure
from ..once import once

NAME = "published_pairs"
TITLE = "Two hooks of one published table, and the lab's nearest to them"
UNITS: dict[str, str] = {}

#: Something the lab can call: ISA, release, and the hook.
Lab = tuple[str, str, str]


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
_x86 = functools.partial(Pair, isa="x86_64", cores=("skylake", "zen3", "zen5"))

PAIRS = (
    _arm64(
        run="Xu",
        what="fprobe / direct",
        dearer=_time(_XU, "fentry-indirect"),
        cheaper=_time(_XU, "fentry-direct"),
        labs=(("arm64", "v6.2", "ops"), _DIRECT),
    ),
    _arm64(
        run="Florent",
        what="fprobe+CALL_OPS/direct",
        dearer=_time(_FLORENT, "fentry-indirect"),
        cheaper=_time(_FLORENT, "fentry-direct"),
        labs=(("arm64", "v6.4", "ops"), _DIRECT),
    ),
    _arm64(
        run="RFC",
        what="fprobe, slow / direct",
        dearer=_loss("arm64-rfc-fprobe-no-optimisation"),
        cheaper=_loss("arm64-rfc-direct-calls"),
        labs=(("arm64", "v6.1", "ops-regs"), _DIRECT),
    ),
    _arm64(
        run="RFC",
        what="fprobe, fast / direct",
        dearer=_loss("arm64-rfc-fprobe-all-optimisations"),
        cheaper=_loss("arm64-rfc-direct-calls"),
        labs=(("arm64", "v6.4", "ops"), _DIRECT),
    ),
    _x86(
        run="2025",
        what="kprobe-multi / fentry",
        dearer=_time(_BEFORE, "kprobe-multi", "kernel-count"),
        cheaper=_time(_BEFORE, "fentry", "kernel-count"),
        labs=(("x86_64", "v6.18", "ops"), ("x86_64", "v6.18", "direct")),
        missing=_BPF,
    ),
    _x86(
        run="2025",
        what="fexit / fentry, call",
        dearer=_time(_BEFORE, "fexit", "kernel-count"),
        cheaper=_time(_BEFORE, "fentry", "kernel-count"),
        labs=(("x86_64", "v6.18", "bpf-fexit"), ("x86_64", "v6.18", "bpf-fentry")),
        missing="",
    ),
    *(
        _x86(
            run="2025",
            what=f"{title}, call / jump",
            dearer=_time(_BEFORE, name, "kernel-count"),
            cheaper=_time(_AFTER, name, "kernel-count"),
            labs=(("x86_64", "v6.18", f"bpf-{name}"), ("x86_64", "v6.19", f"bpf-{name}")),
            missing="",
        )
        for title, name in (("fexit", "fexit"), ("fmod_ret", "fmodret"))
    ),
    _x86(
        run="2019",
        what="fexit / fentry",
        dearer=_time(_2019, "fexit"),
        cheaper=_time(_2019, "fentry"),
        labs=(("x86_64", "v5.17", "bpf-fexit"), ("x86_64", "v5.17", "bpf-fentry")),
        missing="",
    ),
    Pair(
        isa="x86_64",
        run="2019",
        what="kprobe / fentry",
        dearer=_time(_2019, "kprobe"),
        cheaper=_time(_2019, "fentry"),
        labs=None,
        cores=(),
        missing="kprobe",
    ),
)


@once
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
    isa, release, hook = lab
    return run(isa, hook, release), run(isa, "none", release)


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
    "Ratios of what two hooks add to a call. Where fprobe is on one side the lab has only the trampolines: neither fprobe nor, on "
    "both sides then, a BPF program's entry and exit. fentry, fexit and fmod_ret have those."
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
