"""What a grid that was interrupted had finished: a small file per unit, beside the compiled images.

The folder is named by everything that the rows depend on (sources, releases, compiler, emulator, decoder), so nothing in it
is ever out of date. A grid that was delivered leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from ..build.toolchain import cache_dir
from ..errors import TramplabError
from ..paths import data_file, sources, write_whole
from .cells import Unit
from .rows import Answer

_PREFIX = "grid-"
_PARTS = ("guest", "isa", "build", "emulate", "ftrace", "trampolines", "lab", "analyse", "grid")
_WHEELS = {"unicorn", "capstone", "keystone-engine", "ziglang"}
_OLD = 7 * 24 * 3600


def state() -> str:
    """Changes with everything that the rows depend on: 16 hex digits."""
    h = sources(*_PARTS)
    h.update(data_file("releases.yml").read_bytes())
    h.update(repr(sorted((d.name, d.version) for d in map(_wheel, _WHEELS) if d)).encode())
    return h.hexdigest()[:16]


def _wheel(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


class Kept:
    """The finished units of one state of the sources."""

    def __init__(self, now: str) -> None:
        self.folder = cache_dir() / f"{_PREFIX}{now}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise TramplabError(
                f"cannot keep what is finished in {self.folder} ({e.strerror}); set TRAMPLAB_CACHE to a folder that can be "
                "written."
            ) from None
        for other in self.folder.parent.glob(f"{_PREFIX}*"):  # of sources that nobody has come back to
            if other != self.folder and time.time() - other.stat().st_mtime > _OLD:
                shutil.rmtree(other, ignore_errors=True)

    def load(self, unit: Unit) -> tuple[list[str], Answer] | None:
        """A unit's columns and rows; None if it is not finished, or its file is damaged."""
        try:
            kept = json.loads(self._file(unit).read_text("utf-8"))
            columns, rows, refused = kept["columns"], kept["rows"], kept["refused"]
            whole = kept["unit"] == json.loads(json.dumps(asdict(unit))) and all(len(r) == len(columns) for r in rows)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        complete = len(rows) == len(unit.callbacks) or refused
        return (columns, Answer(tuple(map(tuple, rows)), refused)) if whole and complete else None

    def has(self, unit: Unit) -> bool:
        """Is a unit finished?"""
        return self._file(unit).is_file()

    def save(self, unit: Unit, columns: list[str], answer: Answer) -> None:
        """Keep a finished unit, whole or not at all."""
        write_whole(self._file(unit), json.dumps({"unit": asdict(unit), "columns": columns, **asdict(answer)}))

    def forget(self, units: list[Unit]) -> None:
        """Remove these units, and the folder if nothing else is in it."""
        for unit in units:
            self._file(unit).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another grid's units, or files that another run is writing
            self.folder.rmdir()

    def _file(self, unit: Unit) -> Path:
        name = hashlib.sha256(repr(unit).encode()).hexdigest()[:16]
        return self.folder / f"{unit.isa}-{unit.hook}-{unit.args}-{name}.json"
