"""What comes of many scenarios, in a file of JSON lines: each is appended as soon as it is there, and in the end they are sorted.

The first line says of which sources, how many threads and how many states at most. A file that is there is gone on with if it is
of the same; what a process that was killed has left of a line is cut off.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ... import state as states
from ...errors import TramplabError, Unwritten
from ...paths import check_target, write_whole
from .every import Scenario
from .fetches import MODELS
from .schemes import SCHEMES

_KIND = "tramplab explore --all"
_PARTS = ("guest", "isa", "build", "emulate", "ftrace", "trampolines", "lab", "analyse")
_FACTS = ("releases.yml", "addresses.yml")


class Saved:
    """A file of results, for a scenario's threads and states at most."""

    def __init__(self, path: Path, threads: int, most: int) -> None:
        """Reads what is there; raises TramplabError for a file that is of something else, or cannot be written."""
        check_target(path)
        self._path = path
        self._about = {"kind": _KIND, "sources": states.of(_PARTS, _FACTS), "threads": threads, "max_states": most}
        self._found: dict[tuple[str, str, str], dict[str, Any]] = {}
        try:
            with path.open("ab+") as f:
                f.seek(0)
                whole = self._read(f.read())
                f.truncate(whole)
                if not whole:
                    f.write(_line(self._about))
        except OSError as e:
            raise TramplabError(f"cannot write {path}: {e.strerror}.") from None

    def has(self, scenario: Scenario) -> bool:
        """Is its result there?"""
        return _key(scenario) in self._found

    def load(self, scenario: Scenario) -> dict[str, Any]:
        """Its result, which is there."""
        return self._found[_key(scenario)]

    def add(self, result: dict[str, Any]) -> None:
        """Append one; it is in the file when this returns, and nothing of it if it cannot be."""
        self._found[_of(result)] = result
        try:
            out = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                before, line = os.fstat(out).st_size, _line(result)
                try:
                    while line:
                        line = line[os.write(out, line) :]
                except BaseException:
                    os.ftruncate(out, before)
                    raise
            finally:
                os.close(out)
        except OSError as e:
            raise Unwritten(f"cannot write {self._path}: {e.strerror}.") from None

    def sort(self) -> None:
        """Put the file in order, whole or not at all: the same bytes in whatever order they came."""
        write_whole(self._path, b"".join(map(_line, [self._about, *sorted(self._found.values(), key=_place)])))

    def _read(self, data: bytes) -> int:
        """Take in what a file holds; returns how many bytes of it are whole lines."""
        lines = data.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            left = lines.pop()
            if not lines and not _line(self._about).startswith(left):
                raise self._no("is not of `explore --all`")
        if not lines:
            return 0
        about = self._parsed(lines[0], "is not of `explore --all`")
        if about.get("kind") != _KIND:
            raise self._no("is not of `explore --all`")
        if about.get("sources") != self._about["sources"]:
            raise self._no(f"is of other sources ({about.get('sources')}) than these ({self._about['sources']})")
        if about != self._about:
            raise self._no(f"is of --threads {about.get('threads')} and --max-states {about.get('max_states')}")
        for number, line in enumerate(lines[1:], 2):
            result = self._parsed(line, f"is damaged in line {number}")
            try:
                _place(result)
                self._found[_of(result)] = result
            except (KeyError, TypeError, ValueError, IndexError):
                raise self._no(f"is damaged in line {number}") from None
        return sum(map(len, lines))

    def _parsed(self, line: bytes, otherwise: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._no(otherwise)
        return found

    def _no(self, why: str) -> TramplabError:
        return TramplabError(f"{self._path} {why}: give --save another name, or remove the file.")


def _line(what: dict[str, Any]) -> bytes:
    return json.dumps(what).encode() + b"\n"


def _key(scenario: Scenario) -> tuple[str, str, str]:
    return scenario.scheme, scenario.fetch, scenario.without


def _of(result: dict[str, Any]) -> tuple[str, str, str]:
    return result["scheme"], result["fetch"], "".join(result["without"])


def _place(result: dict[str, Any]) -> tuple[int, int, int]:
    """Where a result stands: as its scenario does among all."""
    name, fetch, without = _of(result)
    names = ["", *(b["name"] for b in result["barriers"])]
    return list(SCHEMES).index(name), MODELS.index(fetch), names.index(without)
