"""A digest of everything that the results of a run depend on: sources, facts, compiler, emulator and decoder."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable

from .paths import data_file, sources

_WHEELS = {"unicorn", "capstone", "keystone-engine", "ziglang"}
_DIGITS = 16


def of(parts: Iterable[str], facts: Iterable[str]) -> str:
    """A digest of these rooms of the package, these files of data/ and the wheels that decide: 16 hexadecimal digits."""
    h = sources(*parts)
    for name in facts:
        h.update(data_file(name).read_bytes())
    h.update(repr(sorted((d.name, d.version) for d in map(_wheel, _WHEELS) if d)).encode())
    return h.hexdigest()[:_DIGITS]


def everything() -> str:
    """A digest, as of() makes it, of the whole package and every list of facts."""
    folder = data_file("releases.yml").parent
    return of(["."], sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.yml")))


def _wheel(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
