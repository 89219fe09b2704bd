"""The finished units of a grid that was interrupted: a small file each, in the cache.

The folder is named by everything that the rows depend on (sources, releases, compiler, emulator, decoder), so nothing in it
is ever out of date. A grid that was delivered leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import asdict

from ..base import cache
from ..base import state as states
from .cells import Unit
from .rows import Answer

_PREFIX = "grid-"
_PARTS = ("guest", "isa", "build", "emulate", "ftrace", "trampolines", "lab", "estimate", "grid")
_OLD = 7 * 24 * 3600


def state() -> str:
    """A digest of everything that the rows depend on."""
    return states.of(_PARTS, ["releases.yml"])


class Cached:
    """The finished units of one state of the sources."""

    def __init__(self, now: str) -> None:
        self._name = f"{_PREFIX}{now}"
        cache.remove_old(_PREFIX, _OLD, time.time(), but=self._name)  # of sources that nobody has come back to

    def load(self, unit: Unit) -> tuple[list[str], Answer] | None:
        """A unit's columns and rows; None if it is not finished."""
        if (text := cache.read(self._file(unit))) is None:
            return None
        kept = json.loads(text)
        return kept["columns"], Answer(tuple(map(tuple, kept["rows"])), kept["refused"])

    def has(self, unit: Unit) -> bool:
        """Is a unit finished?"""
        return cache.place(self._file(unit)).is_file()

    def save(self, unit: Unit, columns: list[str], answer: Answer) -> None:
        """Keep a finished unit, whole or not at all."""
        cache.keep(self._file(unit), json.dumps({"columns": columns, **asdict(answer)}))

    def forget(self, units: list[Unit]) -> None:
        """Remove these units, and the folder if nothing else is in it."""
        with contextlib.suppress(OSError):  # another grid's units, nothing was kept, or nothing can be removed
            for unit in units:
                cache.place(self._file(unit)).unlink(missing_ok=True)
            (cache.folder() / self._name).rmdir()

    def _file(self, unit: Unit) -> str:
        name = hashlib.sha256(repr(unit).encode()).hexdigest()[:24]
        return f"{self._name}/{unit.isa}-{unit.hook}-{unit.args}-{name}.json"
