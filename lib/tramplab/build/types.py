"""Struct layouts and prototypes of an image, kept beside it: to read them from DWARF takes longer than to run most hooks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import elftools
from elftools.elf.elffile import ELFFile

from ..errors import TramplabError
from ..paths import write_whole
from . import dwarf
from .dwarf import Field, Prototype, Struct, Value


def types(path: Path) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    """The structs and the functions' prototypes in an ELF file, by name.

    What they are kept in is named by the file's bytes and by what reads them, so it never goes stale; if it is damaged, it is
    made again. Raises what the ELF reader raises for a damaged image.
    """
    data = path.read_bytes()
    kept = path.with_name(f"{path.name}.{hashlib.sha256(data + _reader()).hexdigest()[:16]}.types")
    try:
        return _decoded(json.loads(kept.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return _read(path, kept)


def _read(path: Path, kept: Path) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    with path.open("rb") as f:
        found = dwarf.types(ELFFile(f))
    with contextlib.suppress(TramplabError):  # where nothing can be written, the image is read again each time
        write_whole(kept, json.dumps([{name: asdict(one) for name, one in part.items()} for part in found]))
    return found


def _decoded(kept: list[dict[str, dict]]) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    structs, prototypes = kept
    return (
        {name: Struct(name, s["size"], {n: Field(**f) for n, f in s["fields"].items()}) for name, s in structs.items()},
        {
            name: Prototype(name, tuple(Value(**v) for v in p["parameters"]), Value(**p["result"]))
            for name, p in prototypes.items()
        },
    )


@functools.cache
def _reader() -> bytes:
    """What decides how debug info is understood."""
    return Path(dwarf.__file__).read_bytes() + elftools.__version__.encode()
