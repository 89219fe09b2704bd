"""The verdicts on patches that the book has: data/built/patches.json, made by `make built` from data/kbuild/tried.yml."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated

from msgspec import Meta, to_builtins

from ..base import documents
from ..base.entries import Entry, IsaName, Text, checked
from ..base.errors import TramplabError
from ..base.paths import data_file
from . import build, fragments
from .patch import compared
from .verdict import Verdict

LIST, FILE = "kbuild/tried.yml", "built/patches.json"


class Tried(Entry, frozen=True):
    """What is tried: patch -> ISA -> clang's version, or "" for GCC."""

    source: Text
    patches: dict[str, dict[IsaName, str]]


class _File(Entry, frozen=True):
    source: Text
    verdicts: Annotated[tuple[Verdict, ...], Meta(min_length=1)]


def tried() -> Tried:
    """What data/kbuild/tried.yml says."""
    return checked(LIST, documents.read(LIST), Tried)


@functools.cache
def verdicts() -> tuple[Verdict, ...]:
    """All saved verdicts; raises TramplabError where the file is of others than are tried."""
    found, wanted = checked(FILE, documents.read(FILE), _File), tried()
    if found.source != wanted.source or [(v.patches, v.isa) for v in found.verdicts] != _order(wanted):
        raise TramplabError(f"{FILE} has other verdicts than {LIST} asks for: run `make built`.")
    return found.verdicts


def get(patch: str, isa: str) -> Verdict:
    """The verdict on a patch, by its name in data/kbuild/tried.yml."""
    return next(v for v in verdicts() if (v.patches, v.isa) == ((f"{patch}.patch",), isa))


def make(path: Path, tick: build.Tick) -> str:
    """The text of the file, after all kernels have been built from this source, counted, explored and booted."""
    wanted, made = tried(), []
    for isa in build.ARCHES:
        clang = {name: isas[isa] for name, isas in wanted.patches.items() if isa in isas}
        for version in sorted(set(clang.values())):
            series = [[], *([data_file(f"kbuild/{name}.patch")] for name in clang if clang[name] == version)]
            for kernels in build.kernels(path, series, [build.Wanted(isa, fragments.options(isa), version)], tick):
                made += compared(kernels)
    order = _order(wanted)
    rows = [json.dumps(to_builtins(v)) for v in sorted(made, key=lambda v: order.index((v.patches, v.isa)))]
    verdicts = ",\n".join(f"  {row}" for row in rows)
    return f'{{\n "source": {json.dumps(wanted.source)},\n "verdicts": [\n{verdicts}\n ]\n}}\n'


def _order(wanted: Tried) -> list[tuple[tuple[str, ...], str]]:
    return [((f"{name}.patch",), isa) for name, isas in wanted.patches.items() for isa in isas]
