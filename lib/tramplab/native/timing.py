"""Time hooks, and trampolines of given shapes, on the host's CPU."""

from __future__ import annotations

from collections.abc import Iterable

from .. import isa as isas
from ..base.arguments import names, whole
from ..ftrace import releases
from ..ftrace.releases import LATEST
from ..isa import Isa
from ..lab import hooks
from ..trampolines import shapes
from . import host
from .result import Result
from .run import Outcome, run
from .script import TimingPlan
from .states import BASELINE, EMPTY, Attach, hook, shape, subject
from .windows import MOST, Series, fill

ROUNDS, MAX_ROUNDS, MAX_WINDOWS = 500, 20_000, 1000
#: The number of CPUs in the child's mask.
MAX_CPUS = 8192
#: Numbers of callbacks that are timed where a hook takes several.
CALLBACKS = (1, 2, 10)


def default_hooks(isa: Isa, release: str = LATEST) -> tuple[str, ...]:
    """Every hook that a release has on an ISA, but those of breakpoints; with 1, 2 and 10 callbacks where it takes so many."""
    features = releases.features(isa, release, {})
    had = [h for h in hooks.HOOKS.values() if h.there(features) and h.name != BASELINE and not h.traps]
    counts = {h: [k for k in CALLBACKS if k <= h.most] if h.counts else [1] for h in had}
    return tuple(hooks.several(h.name, k) for h, taken in counts.items() for k in taken)


def time_hooks(
    specs: Iterable[str] | None = None,
    release: str = LATEST,
    *,
    rounds: int = ROUNDS,
    windows: int = MOST,
    args: int = 1,
    cpu: int | None = None,
) -> Result:
    """Time hooks on this machine (NAME or NAME:CALLBACKS; default: all of the release).

    rounds: batches per hook in a window.
    windows: how many at most.
    args: integer arguments of the traced function, 0 to 6.
    cpu: the CPU to stay on.

    Raises TramplabError where nothing can run natively.
    """
    series = _of_hooks(specs, release, rounds, windows, args, cpu)
    fill([series], windows)
    return series.result()


def time_shapes(
    chosen: Iterable[shapes.Shape] = shapes.GRID,
    *,
    rounds: int = ROUNDS,
    windows: int = MOST,
    args: int = 2,
    cpu: int | None = None,
) -> Result:
    """Time trampolines of given shapes on this machine; rows have saves, nested and balanced besides."""
    series = _of_shapes(chosen, rounds, windows, args, cpu)
    fill([series], windows)
    return series.result()


def time_both() -> tuple[Result, Result]:
    """All hooks and all shapes: what time_hooks() and time_shapes() give, their windows in turn."""
    both = _of_hooks(None, LATEST, ROUNDS, MOST, 1, None), _of_shapes(shapes.GRID, ROUNDS, MOST, 2, None)
    fill(both)
    return both[0].result(), both[1].result()


def check(
    isa: Isa, variants: dict[str, Attach], release: str = LATEST, args: int = 1, runner: tuple[str, ...] = (), calls: int = 1
) -> Outcome:
    """Call every variant natively and compare with the emulated call; raises TramplabError where they differ.

    calls: how often. runner: the words that run a program of that ISA here, e.g. ("qemu-aarch64",); none for the host's own.
    """
    return run(subject(isa, release, variants, args), TimingPlan(calls=whole(calls, "calls", 1)), runner)


def outdated(result: Result) -> tuple[str, ...]:
    """The hooks, or shapes, of a result that execute something else now than when they were timed, or that there are no more."""
    facts = result.provenance
    isa, release, args = isas.get(str(facts["isa"])), str(facts["release"]), int(str(facts["arguments"]))
    every = {str(s): shape(s) for s in shapes.GRID}
    was = {str(r["hook"]): r["code"] for r in result.rows}
    known = {*every, *EMPTY, *hooks.HOOKS}
    variants = {name: every.get(name) or hook(name) for name in was if hooks.parted(name)[0] in known}
    now = {s.name: s.code for s in subject(isa, release, variants, args).states}
    return tuple(name for name, code in was.items() if now.get(name) != code)


def _of_hooks(
    specs: Iterable[str] | None, release: str, rounds: int, windows: int, args: int, cpu: int | None
) -> Series:
    rounds, windows, cpu = _limits(rounds, windows, cpu)
    isa = host.isa()
    specs = default_hooks(isa, release) if specs is None else names(specs, "specs")
    return Series(subject(isa, release, {s: hook(s) for s in specs if s != BASELINE}, args), rounds, args, cpu)


def _of_shapes(chosen: Iterable[shapes.Shape], rounds: int, windows: int, args: int, cpu: int | None) -> Series:
    rounds, windows, cpu = _limits(rounds, windows, cpu)
    isa = host.isa()
    every = {str(s): s for s in chosen}
    columns: dict[str, dict[str, object]] = {
        name: {"saves": s.saves, "nested": s.nested, "balanced": s.balanced} for name, s in every.items()
    }
    columns[BASELINE] = {"saves": None, "nested": None, "balanced": None}
    variants = {name: shape(s) for name, s in every.items()}
    return Series(subject(isa, LATEST, variants, args), rounds, args, cpu, columns)


def _limits(rounds: int, windows: int, cpu: int | None) -> tuple[int, int, int | None]:
    """These numbers as ints; raises TramplabError for those that a native run cannot have."""
    chosen = None if cpu is None else whole(cpu, "cpu", 0, MAX_CPUS - 1)
    return whole(rounds, "rounds", 1, MAX_ROUNDS), whole(windows, "windows", 1, MAX_WINDOWS), chosen
