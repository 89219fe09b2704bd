"""`python -m tramplab.vmlinux races`: patching schemes on Debian's kernels, kept in data/kernel-races.json.

Of the plain kernels that have been fetched; what the file says of others stays.
"""

from __future__ import annotations

from typing import Any, Literal

from ...base.entries import Entry, Natural, Positive
from ...base.errors import TramplabError
from ...base.paths import data_file
from ...races.explore import THREADS, explore
from ...races.model.executions import Executions
from ...races.model.fetches import MODELS, Model
from ...races.model.verdicts import Property
from ..debian.list import Package, plain
from ..run.races import ISAS, subjects
from . import store

FILE = "kernel-races.json"


class _Result(Entry, frozen=True):
    scheme: str
    fetch: Model
    outcome: Literal["safe", Property]
    steps: Natural
    states: Positive


class _Kernel(store.Kernel, frozen=True):
    results: tuple[_Result, ...]


class File(Entry, frozen=True):
    """What the file may say."""

    threads: Positive
    kernels: tuple[_Kernel, ...]


def wanted() -> tuple[Package, ...]:
    """The images that are explored: plain ones of the ISAs whose schemes are."""
    return tuple(p for p in plain() if p.isa in ISAS)


def read() -> dict[str, Any]:
    """The file's content; raises TramplabError where it says something else than it may, or is of other images than those that are
    listed."""
    return store.read(data_file(FILE), File, wanted())


def made(package: Package) -> dict[str, Any]:
    """Every scheme that fits a kernel that has been fetched, under every model of fetches."""
    results = []
    for scheme, subject in subjects(store.opened(package), None):
        ran = Executions(subject)
        for fetch in MODELS:
            result = explore(subject, THREADS, fetch, executions=ran)
            if result.limit:
                raise TramplabError(f"{package.name}, {scheme.name}: not decided after {result.limit}; it is not kept.")
            found = {"outcome": result.outcome, "steps": len(result.schedule), "states": result.states}
            results.append({"scheme": scheme.name, "fetch": fetch, **found})
    return {**store.of(package), "results": results}


def text(data: dict[str, Any]) -> str:
    """The text of the file: a line for each result."""
    kernels = ",\n".join("  " + store.lines(kernel, "  ", "results") for kernel in data["kernels"])
    return f'{{\n "threads": {data["threads"]},\n "kernels": [\n{kernels}\n ]\n}}\n'


def main() -> int:
    """Write the file again; return the exit status."""

    def all_text(kernels: list[dict[str, Any]]) -> str:
        return text({"threads": THREADS, "kernels": kernels})

    return store.remake(FILE, File, wanted(), made, all_text, lambda kernel: f"{len(kernel['results'])} results")
