"""Struct layouts and prototypes of an image, kept: to read them from DWARF takes longer than to run most hooks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import elftools
from elftools.elf.elffile import ELFFile

from ..base import cache
from ..base.errors import TramplabError
from . import dwarf
from .dwarf import Field, Prototype, Struct, Value


def types(elf: ELFFile) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    """The structs and the functions' prototypes in an open ELF file that is linked, by name.

    What they are kept in is named by the debug info's bytes and by what reads them, so it never goes stale, and images that differ
    in their code alone share it. Raises what the ELF reader raises for a damaged image.
    """
    name = f"types-{hashlib.sha256(_debug_info(elf) + reader()).hexdigest()[:24]}.json"
    try:
        kept = cache.read(name)
    except TramplabError:  # there is no cache
        kept = None
    return _read(elf, name) if kept is None else _decoded(json.loads(kept))


def _debug_info(elf: ELFFile) -> bytes:
    """The bytes that DWARF is read from, for a digest: the kind of file, and its debug sections, each with its name and length."""
    kind = repr((elf.elfclass, elf.little_endian, elf["e_machine"], elf["e_type"])).encode()
    sections = ((s.name.encode(), s.data()) for s in elf.iter_sections() if "debug_" in s.name)
    return kind + b"".join(b"%s %d %s" % (name, len(data), data) for name, data in sections)


def _read(elf: ELFFile, name: str) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    types_read = dwarf.types(elf)
    with contextlib.suppress(TramplabError):  # where nothing can be written, the image is read again each time
        cache.keep(name, json.dumps([{name: asdict(one) for name, one in part.items()} for part in types_read]))
    return types_read


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
def reader() -> bytes:
    """The sources that decide how debug info is understood and stored, as bytes for a digest."""
    return b"".join(Path(f).read_bytes() for f in (dwarf.__file__, __file__)) + elftools.__version__.encode()
