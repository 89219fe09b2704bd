"""Print the lab's speed as ratios, which hold on any machine better than seconds do."""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tramplab import native
from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import COUNT, NONE, RECORD
from tramplab.estimate import cores, pipeline
from tramplab.estimate.lower import lower
from tramplab.estimate.program import program
from tramplab.isa import ISAS
from tramplab.lab.call import RecordedCall
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import counts_of
from tramplab.trampolines.plain import Ops

from . import loops

CALLS, ROUNDS = 20_000, 10
#: Seconds of a build of the book, of which nothing is said if it takes longer.
LONGEST = 200


def seconds_per_instruction(isa: str, meters: tuple[str, ...]) -> list[float]:
    """Per meter, the best of some rounds of one loop of hooked calls, per guest instruction; the meters take turns."""
    kernel = Kernel(isa, meter=COUNT)
    function, loop = kernel.function("three_args"), loops.prepare(kernel)
    best = [float("inf")] * len(meters)
    with kernel.attached(function, Ops()):
        per_call = loops.run(kernel, loop, function.address, 200).tally.instructions / 200
        for _ in range(ROUNDS):
            for i, meter in enumerate(meters):
                kernel.machine.set_meter(meter)
                loops.run(kernel, loop, function.address, 100)
                best[i] = min(best[i], timed(lambda: loops.run(kernel, loop, function.address, CALLS)))
    return [b / (per_call * CALLS) for b in best]


def timed(action: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def book_build() -> float | None:
    """Seconds of what `make book` runs, into a folder of its own; None outside a checkout, or where it fails or takes LONGEST."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "_config.yml").is_file():
        return None
    with tempfile.TemporaryDirectory() as out:
        build = [sys.executable, "book/_ext/book_build.py", "build", ".", "-W", "-n", "--keep-going", "--path-output", out]
        start = time.perf_counter()
        try:
            done = subprocess.run(build, check=False, cwd=root, capture_output=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return None
        return time.perf_counter() - start if done.returncode == 0 else None


def model_speed(name: str) -> float:
    """Estimates per second of a call of ten ops by the model of a core."""
    core = cores.get(name)
    kernel = Kernel(core.isa, meter=RECORD)
    function = kernel.function("three_args")
    with kernel.attached(function, *(Ops() for _ in range(10))):
        call = RecordedCall.of(kernel.call(function, 1, 2, 3))
    lowered, rounds = lower(program(call), core, core.values), 50
    return rounds / timed(lambda: [pipeline.cycles(lowered, call, core.in_order) for _ in range(rounds)])


def cold_study() -> float:
    """Seconds that the rows of a study take from an empty cache in a process that has made nothing yet, compiling included.

    With what a process keeps, or finds in the cache or in the folder of a build, it would be a copy that is timed.
    """
    program = (
        "import time; from tramplab_book.studies.variants.one_callback import single_callback\n"
        "start = time.perf_counter(); single_callback.rows(); print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as empty:
        without = {**os.environ, "TRAMPLAB_CACHE": empty, "TRAMPLAB_ROWS": ""}
        return float(_said(["-c", program], without))


def _said(arguments: list[str], env: dict[str, str] | None = None) -> str:
    """What another Python prints. Raises TramplabError with the last line of what it says, where it fails."""
    here = {**(env or os.environ), "PYTHONSAFEPATH": ""}  # this package is in the folder that the bench runs in
    done = subprocess.run([sys.executable, *arguments], check=False, env=here, capture_output=True, encoding="utf-8")
    if done.returncode:
        last = (done.stderr.splitlines() or [f"a process for it ended with status {done.returncode}."])[-1]
        raise TramplabError(f"it cannot be measured: {last.removeprefix('tramplab: ')}")
    return done.stdout


def native_figures() -> None:
    """How long the native run takes, and how well instruction counts and estimates tell its times."""
    from tramplab_book.publish.figures.fitted import fitted_table  # here, so that the other figures do without the book
    from tramplab_book.studies.time import native_shapes

    try:
        print(f"native run of all hooks: {timed(native.time_hooks):.1f} s")
        result = native.time_shapes()
    except TramplabError as e:
        print(f"native run: {e}")
        return
    print(f"shapes timed on {result.provenance['cpu']}: rank correlation, and median error after one scale factor")
    print(fitted_table(native_shapes.table(native_shapes.frame({"here": result})), split="isa"), end="")
    print(result.cautions())


def main() -> int:
    """Measure and print everything, each line when it is known; takes some minutes, and ten at most."""
    say = functools.partial(print, flush=True)
    say(f"{'':<10}{'raw M/s':>9}{'counting/raw':>14}{'count, ms':>12}")
    for isa in ISAS:
        raw, counted = seconds_per_instruction(isa, (NONE, COUNT))
        counts_of(isa, "ops")
        warm = statistics.median(timed(functools.partial(counts_of, isa, "ops")) for _ in range(15))
        say(f"{isa:<10}{1e-6 / raw:>9.0f}{raw / counted:>14.2f}{warm * 1e3:>12.1f}")
    speeds = ", ".join(f"{name} {model_speed(name):.0f}" for name in ("zen3", "cortex-a72", "sifive-u74"))
    say(f"models of cores, estimates/s of a call of ten ops: {speeds}")
    native_figures()
    say(f"single_callback study from an empty cache: {cold_study():.2f} s")
    book = book_build()
    say(f"book build: {book:.0f} s" if book else f"book build: not in {LONGEST} s (or no checkout, or `make book` fails)")
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    say(f"peak memory of a child (the book's kernels, the compiler): {children / 1024:.0f} MiB")
    say(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    here = {**os.environ, "PYTHONSAFEPATH": ""}
    return subprocess.run([sys.executable, "-m", "bench", "races"], check=False, env=here).returncode  # with a peak of its own
