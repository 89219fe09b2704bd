"""Time hooks, and trampolines of given shapes, on the host's CPU."""

from __future__ import annotations

import errno
import os
import statistics
from collections.abc import Iterable
from pathlib import Path

from ..errors import TramplabError
from ..ftrace import hooks, releases, shapes
from ..ftrace.kernel import LATEST
from ..isa import Isa
from . import host
from .result import Result
from .run import Outcome, run
from .script import CHAIN, CHAIN_ADDITIONS, COUNTERS, Answers, Plan
from .states import BASELINE, Attach, hook, shape, subject

ROUNDS, MAX_ROUNDS = 1500, 20_000
#: Numbers of callbacks that are timed where a hook takes several.
CALLBACKS = (1, 2, 10)
#: The third quartile so much above the minimum means that something else used the core.
SPREAD = 0.25


def default_hooks(isa: Isa, release: str = LATEST) -> tuple[str, ...]:
    """Every hook that a release has on an ISA, with 1, 2 and 10 callbacks where it takes several."""
    features = releases.features(isa, release, {})
    had = [h for h in hooks.HOOKS.values() if features[h.needs] and h.name != BASELINE]
    return tuple(f"{h.name}:{k}" if k > 1 else h.name for h in had for k in (CALLBACKS if h.counts else (1,)))


def measure(
    specs: Iterable[str] | None = None,
    release: str = LATEST,
    *,
    rounds: int = ROUNDS,
    args: int = 1,
    cpu: int | None = None,
) -> Result:
    """Time hooks on this machine (NAME or NAME:CALLBACKS; default: all of the release).

    rounds: batches per hook. args: integer arguments of the traced function, 0 to 6. cpu: the one to stay on. Raises
    TramplabError where nothing can run natively.
    """
    isa = host.isa()
    specs = default_hooks(isa, release) if specs is None else specs
    return _timed(isa, release, {s: hook(s) for s in specs if s != BASELINE}, rounds, args, cpu)


def time_shapes(
    chosen: Iterable[shapes.Shape] = shapes.GRID, *, rounds: int = ROUNDS, args: int = 2, cpu: int | None = None
) -> Result:
    """Time trampolines of given shapes on this machine; rows have saves, nested and balanced besides."""
    every = {str(s): s for s in chosen}
    result = _timed(host.isa(), LATEST, {name: shape(s) for name, s in every.items()}, rounds, args, cpu)
    for row in result.rows:
        s = every.get(row["hook"])
        row.update(saves=s and s.saves, nested=s and s.nested, balanced=s and s.balanced)
    return result


def check(
    isa: Isa, variants: dict[str, Attach], release: str = LATEST, args: int = 1, runner: tuple[str, ...] = ()
) -> Outcome:
    """Call every variant once natively and compare with the emulated call; raises TramplabError where they differ.

    runner: the words that run a program of that ISA here, e.g. ("qemu-aarch64",); none for the host's own.
    """
    return run(subject(isa, release, variants, args), Plan(), runner)


def _timed(isa: Isa, release: str, variants: dict[str, Attach], rounds: int, args: int, cpu: int | None) -> Result:
    if not 1 <= rounds <= MAX_ROUNDS:
        raise TramplabError(f"a native run takes 1 to {MAX_ROUNDS} rounds, not {rounds}.")
    plan = Plan(host.last_cpu() if cpu is None else cpu, rounds=rounds, counters=COUNTERS)
    facts = host.facts(plan.cpu)
    outcome = run(subject(isa, release, variants, args), plan)
    out, warnings = outcome.answers, host.warnings(facts)
    if out.pinned:
        warnings.append(f"the run could not be kept on CPU {plan.cpu} ({os.strerror(out.pinned)}): it may have moved.")
        facts["pinned to"] = None
    nanoseconds = min(out.time.pop(CHAIN)) / CHAIN_ADDITIONS
    facts |= {
        "GHz": round(1 / nanoseconds, 3),
        "release": release,
        "arguments": args,
        "rounds": rounds,
        "calls": plan.calls,
    }
    counts, why = _counts(out)
    rows = _rows(out, plan, nanoseconds, counts)
    uneven = [r["hook"] for r in rows if r["ns_q3"] > (1 + SPREAD) * r["ns_min"]]
    if uneven:
        warnings.append(
            f"the batches of {len(uneven)} of {len(rows)} hooks spread by more than {SPREAD:.0%} between minimum and third "
            "quartile: something else used the core; the minima are from its quiet moments."
        )
    return Result(tuple(rows), (*warnings, *why), outcome.failures, facts)


def _rows(out: Answers, plan: Plan, cycle: float, counts: dict[str, dict[str, float]]) -> list[dict[str, object]]:
    """One row per hook; cycle is in nanoseconds."""
    rows = []
    for name, batches in out.time.items():
        ns = sorted(b / plan.calls for b in batches)
        quartiles = statistics.quantiles(ns, n=4, method="inclusive") if len(ns) > 1 else ns * 3
        rows.append(
            {"hook": name, "ns_min": ns[0], **dict(zip(("ns_q1", "ns_median", "ns_q3"), quartiles, strict=True))}
        )
    base = rows[0]["ns_min"]
    direct = next((r["ns_min"] - base for r in rows if r["hook"] == "direct"), None)
    for r in rows:
        over = r["ns_min"] - base
        ratio = over / direct if direct and direct > 0 else None
        r |= {"ns_over": over, "cycles_over": over / cycle, "ratio_direct": ratio, **counts.get(r["hook"], {})}
    return [{k: round(v, 4) if isinstance(v, float) else v for k, v in r.items()} for r in rows]


def _counts(out: Answers) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Hardware counters per call and hook, and a sentence for what is not there."""
    refused = {name: code for (name, *_), code in zip(COUNTERS, out.counters, strict=True) if code}
    names = [name.replace("-", "_") for name, *_ in COUNTERS if name not in refused]
    why = [f"no {', '.join(refused)} counter: {_no_counter(next(iter(refused.values())))}."] if refused else []
    counts, shared = {}, False
    for hooked, batches in out.count.items():
        shared |= any(counted < wanted for _, wanted, counted, *_ in batches)
        calls, _, _, *values = min(batches, key=lambda b: b[2])  # of the batch that took the least time
        counts[hooked] = {n: v / calls for n, v in zip(names, values, strict=True)}
    if shared:
        return {}, [
            *why,
            "other programs use the hardware counters too, so ours ran only part of the time and are left out.",
        ]
    return counts, why


def _no_counter(code: int) -> str:
    if code in (errno.EACCES, errno.EPERM):
        try:
            level = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
        except OSError:
            level = "unknown"
        return f"they are not permitted (kernel.perf_event_paranoid is {level})"
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "this CPU, or the machine it is emulated by, shows none"
    return os.strerror(code)
