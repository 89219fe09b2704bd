"""The Promela models of the patching schemes (tests/support/promela), as checkers that SPIN generates and a C compiler builds.

One checker for a scheme; what is left out of it, what its CPUs may fetch and how many threads there are is said when it runs. A
checker goes on behind what must not happen, so that one run tells all that can.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tramplab.base import cache

MODELS = Path(__file__).resolve().parents[1] / "tests" / "support" / "promela"
#: What makes a checker: SPIN runs the preprocessor of gcc by that name.
PROGRAMS = ("spin", "gcc")
#: No search of a model takes this long, in seconds.
_PATIENCE = 600
#: Steps of the longest way that a search goes, by the number of threads; too few would be said.
_DEPTH = {1: 100_000, 2: 1_000_000, 3: 4_000_000}
#: Slots of the table of states at first, as a power of two.
_TABLE = {1: 16, 2: 20, 3: 22}


@dataclass(frozen=True)
class Checked:
    """bad: the properties that can be violated, by the names of verdicts.py. seen: what shows that the model gets anywhere: "end",
    and the numbers of the ops that are called. states: how many there are, 0 where the search ended with the first that is bad."""

    bad: frozenset[str]
    seen: frozenset[str]
    states: int


def missing() -> str | None:
    """The program that is not there, if one is not."""
    return next((p for p in PROGRAMS if not shutil.which(p)), None)


@functools.cache
def _programs() -> str:
    """Which ones there are."""
    asked = (("spin", "-V"), ("gcc", "--version"))
    return "".join(subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout for command in asked)


class Checker:
    """Of one scheme's model, kept from run to run for the same sources, programs and options. folder: where it runs, and leaves the
    ways to what is bad. options: for the C compiler."""

    def __init__(self, scheme: str, folder: Path, options: tuple[str, ...] = ("-O0",)) -> None:
        self._folder, self._scheme = folder, scheme
        # -DNOFAIR -DSAFETY: nothing here is a matter of what happens in the end, or again and again
        self._options = (*options, "-w", "-DSAFETY", "-DNOFAIR")
        self._model = MODELS / scheme.partition("-")[0] / f"{scheme}.pml"
        sources = [self._model, *sorted(MODELS.rglob("*.inc"))]
        made_of = hashlib.sha256(b"\0".join([*(f.read_bytes() for f in sources), repr((_programs(), self._options)).encode()]))
        self._pan = cache.publish(self._made, f"pan-{scheme}-{made_of.hexdigest()[:16]}")

    def _made(self, folder: Path) -> Path:
        for command in (["spin", "-a", str(self._model)], ["gcc", *self._options, "-o", "pan", "pan.c"]):
            done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
            if done.returncode:
                raise RuntimeError(f"{self._scheme}: {command[0]} failed:\n{done.stdout}{done.stderr}")
        return folder / "pan"

    @functools.cached_property
    def barriers(self) -> tuple[str, ...]:
        """What the model can leave out."""
        said = self._run(1, {"WITHOUT": "?"}).stdout
        return tuple(said.partition(" has no ?")[2].split())

    def check(self, fetch: str, without: str = "", threads: int = 1, first: bool = False, seconds: float = _PATIENCE) -> Checked:
        """All that can happen. fetch: one of fetches.MODELS. without: a barrier's name. first: end with the first that is bad.
        Raises RuntimeError where the search was not complete, TimeoutError where it took longer than so many seconds."""
        done = self._run(threads, {"FETCH": fetch, "WITHOUT": without, "FIRST": "1" if first else ""}, seconds)
        said = done.stdout
        bad, seen = (frozenset(re.findall(rf"^{word} (\w+)$", said, re.M)) for word in ("BAD", "SEEN"))
        if first and bad:
            return Checked(bad, seen, 0)
        stored = re.search(r"^ *([0-9.e+]+) states, stored", said, re.M)
        whole = done.returncode == 0 and "errors: 0" in said and "depth too small" not in said + done.stderr
        if not (stored and whole and "not completed" not in said):
            raise RuntimeError(f"{self._scheme}: the search was not complete:\n{said}{done.stderr}")
        return Checked(bad, seen, int(float(stored[1])))

    def _run(self, threads: int, settings: dict[str, str], seconds: float = _PATIENCE) -> subprocess.CompletedProcess[str]:
        """-E: a plan that has been carried out is no deadlock."""
        command = [str(self._pan), "-E", f"-w{_TABLE[threads]}", f"-m{_DEPTH[threads]}"]
        env = {**os.environ, "THREADS": str(threads), **settings}
        try:
            return subprocess.run(
                command, cwd=self._folder, env=env, capture_output=True, encoding="utf-8", timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self._scheme}: the search did not end in {seconds:.0f} s.") from None
