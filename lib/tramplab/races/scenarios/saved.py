"""Results of many scenarios in a file of JSON lines: each is appended as soon as it is known, and in the end they are sorted.

The first line has a digest of the sources, the number of threads and the limit of states. A file with the same first line is gone
on with; what a process that was killed has left of a line is cut off. A line whose parts do not agree is refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from ...base import documents
from ...base import state as states
from ...base.entries import Entry, Natural, Positive, Text, checked
from ...base.errors import TramplabError, Unwritten
from ...base.paths import check_target, write_whole
from ..explore import NOT_DECIDED, UNSAFE, Verdict
from ..model.fetches import MODELS, Model
from ..model.verdicts import Property
from ..schemes.schemes import SCHEMES, scheme
from .every import Scenario

_KIND = "tramplab explore --all"
_OTHER = f"is not of `{_KIND.removeprefix('tramplab ')}`"
_PARTS = ("guest", "isa", "build", "emulate", "ftrace", "trampolines", "lab", "races")
_FACTS = ("releases.yml", "addresses.yml")


class _Violation(Entry, frozen=True):
    which: Property
    how: Text


class _Line(Entry, frozen=True):
    first: Positive
    last: Positive
    who: Literal["patcher", "thread"]
    where: str
    text: Text


class _Barrier(Entry, frozen=True):
    name: str
    why: str


class _Explored(Entry, frozen=True):
    """What a line says: what came of one scenario."""

    scheme: str
    isa: str
    release: str
    kernel: Literal[""]
    hypothetical: str
    threads: Positive
    fetch: Model
    data: Literal["ordered"]
    without: Annotated[tuple[str, ...], Meta(max_length=1)]
    verdict: Verdict
    states: Positive
    transitions: Natural
    limit: str
    violation: _Violation | None
    schedule: tuple[_Line, ...]
    barriers: tuple[_Barrier, ...]


class Saved:
    """A file of results, for a scenario's threads and states at most."""

    def __init__(self, path: Path, threads: int, most: int) -> None:
        """Reads what is there; raises TramplabError for a file that is of something else, or cannot be written."""
        check_target(path)
        self._path = path
        self._about = {"kind": _KIND, "sources": states.of(_PARTS, _FACTS), "threads": threads, "max_states": most}
        self._found: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._head = _line(self._about)
        try:
            with path.open("ab+") as f:
                f.seek(0)
                whole = self._read(f.read())
                f.truncate(whole)
                if not whole:
                    f.write(self._head)
        except OSError as e:
            raise TramplabError(f"cannot write {path}: {e.strerror}.") from None

    def has(self, scenario: Scenario) -> bool:
        """Is a scenario's result in the file?"""
        return _key(scenario) in self._found

    def load(self, scenario: Scenario) -> dict[str, Any]:
        """A scenario's result, which is in the file."""
        return self._found[_key(scenario)]

    def add(self, result: dict[str, Any]) -> None:
        """Append a result: it is in the file when this returns, and nothing of it where that fails. Raises TramplabError for what
        is no result of this file's threads."""
        if not self._takes(result):
            raise TramplabError(f"{self._path} takes results of {self._about['threads']} threads, as explored() gives them.")
        self._found[_of(result)] = result
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                before, line = os.fstat(handle).st_size, _line(result)
                try:
                    while line:
                        line = line[os.write(handle, line) :]
                except BaseException:
                    os.ftruncate(handle, before)
                    raise
            finally:
                os.close(handle)
        except OSError as e:
            raise Unwritten(f"cannot write {self._path}: {e.strerror}.") from None

    def sort(self) -> None:
        """Put the file in order, whole or not at all: the same bytes in whatever order they came."""
        write_whole(self._path, self._head + b"".join(map(_line, sorted(self._found.values(), key=_place))))

    def _read(self, data: bytes) -> int:
        """Take in what a file holds; returns how many bytes of it are whole lines."""
        lines = data.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            left = lines.pop()
            if not lines and not self._head.startswith(left):
                raise self._no(_OTHER)
        if not lines:
            return 0
        self._check_head(lines[0])
        for number, line in enumerate(lines[1:], 2):
            result = _said(line)
            if result is None or not self._takes(result) or _of(result) in self._found:
                raise self._no(f"is damaged in line {number}")
            self._found[_of(result)] = result
        return sum(map(len, lines))

    def _check_head(self, line: bytes) -> None:
        """Raise TramplabError unless a first line is that of this file."""
        about = _said(line)
        if about is None or about.get("kind") != _KIND:
            raise self._no(_OTHER)
        if about.get("sources") != self._about["sources"]:
            raise self._no(f"is of other sources ({about.get('sources')}) than these ({self._about['sources']})")
        if line != self._head:
            raise self._no(f"is of --threads {about.get('threads')} and --max-states {about.get('max_states')}")

    def _takes(self, result: dict[str, Any]) -> bool:
        """Does a result belong into this file, has it all keys, and does its verdict agree with the rest?"""
        try:
            checked("", result, _Explored)
            scheme_of = scheme(result["scheme"])
        except TramplabError:
            return False
        of = {name: getattr(scheme_of, name) for name in ("isa", "release", "hypothetical")} | {"threads": self._about["threads"]}
        named = {b["name"] for b in result["barriers"]}
        return all(result[key] == value for key, value in of.items()) and named.issuperset(result["without"]) and _agrees(result)

    def _no(self, why: str) -> TramplabError:
        return TramplabError(f"{self._path} {why}: give --save another name, or remove the file.")


def _line(what: dict[str, Any]) -> bytes:
    return json.dumps(what).encode() + b"\n"


def _said(line: bytes) -> dict[str, Any] | None:
    """The mapping in a line; None for a line that is none."""
    try:
        record = documents.parsed("", documents.decoded("", line), "json")
    except TramplabError:
        return None
    return record if isinstance(record, dict) else None


def _agrees(result: dict[str, Any]) -> bool:
    """Does a verdict have what it is to have, and nothing else: a violation with all its steps, a limit, or neither?"""
    verdict, steps = result["verdict"], [(line["first"], line["last"]) for line in result["schedule"]]
    return (
        bool(result["violation"]) == bool(steps) == (verdict == UNSAFE)
        and steps == [(n, n) for n in range(1, len(steps) + 1)]
        and bool(result["limit"]) == (verdict == NOT_DECIDED)
    )


def _key(scenario: Scenario) -> tuple[str, str, str]:
    return scenario.scheme, scenario.fetch, scenario.without


def _of(result: dict[str, Any]) -> tuple[str, str, str]:
    return result["scheme"], result["fetch"], "".join(result["without"])


def _place(result: dict[str, Any]) -> tuple[int, int, int]:
    """The place of a result in the file: that of its scenario among all."""
    name, fetch, without = _of(result)
    names = ["", *(b["name"] for b in result["barriers"])]
    return list(SCHEMES).index(name), MODELS.index(fetch), names.index(without)
