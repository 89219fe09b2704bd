"""Results from Debian's kernels that are kept in one file of data/: reading such a file, and writing it again."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...base import documents, streams
from ...base.entries import Entry, Sha256, checked
from ...base.errors import TramplabError
from ...base.paths import data_file, write_whole
from ..debian.fetch import image, there
from ..debian.list import FILE as LIST
from ..debian.list import Package
from ..open.image import Opened, open_image

K = TypeVar("K")


class Kernel(Entry, frozen=True):
    """The beginning of each record, which identifies the image."""

    name: str
    version: str
    sha256: Sha256


class File(Entry, Generic[K], frozen=True):
    """What a file may say, which has nothing besides a record of each kernel."""

    kernels: tuple[K, ...]


@functools.lru_cache(maxsize=1)
def opened(package: Package) -> Opened:
    """A listed image as the machine can take it. The last one is kept, as opening it takes most of a second. Raises TramplabError
    where it has not been fetched or is damaged."""
    return open_image(image(package))


def read(path: Path, kind: type[Entry], wanted: Sequence[Package], again: str = "make kernels") -> dict[str, Any]:
    """The content of a file, as it is written again. kind: what it may say. again: the command that makes it. Raises TramplabError
    where it says something else, or is of other images than those that are listed."""
    found: dict[str, Any] = documents.parsed(path.name, documents.text(path, path.name))
    checked(path.name, found, kind)
    of = {p.name: (p.version, p.sha256) for p in wanted}
    names = [kernel["name"] for kernel in found["kernels"]]
    for kernel in found["kernels"]:
        if of.get(kernel["name"]) != (kernel["version"], kernel["sha256"]):
            raise TramplabError(f"{path.name}: {kernel['name']} is of another image than is listed: run `{again}`.")
        if names.count(kernel["name"]) > 1:
            raise TramplabError(f"{path.name}: {kernel['name']} is there twice: run `{again}`.")
    return found


def remake(
    file: str,
    kind: type[Entry],
    wanted: Sequence[Package],
    make: Callable[[Package], dict[str, Any]],
    format: Callable[[list[dict[str, Any]]], str],
    describe: Callable[[dict[str, Any]], str],
) -> int:
    """Write a file of data/ again; return the command's exit status. Records of images that have not been fetched stay.

    make: kernel -> its record.
    format: records -> the text of the file.
    describe: record -> one line for the log.
    """

    def command() -> None:
        path = data_file(LIST).parent.parent / file  # it may be the first time
        kept = {k["name"]: k for k in read(path, kind, wanted)["kernels"]} if path.is_file() else {}
        for package in wanted:
            if there(package):
                kept[package.name] = make(package)
                print(f"{package.name}: {describe(kept[package.name])}", flush=True)
            else:
                print(f"{package.name}: not fetched, what is known of it stays as it is", flush=True)
        write_whole(path, format([kept[p.name] for p in wanted if p.name in kept]))

    return streams.run(command, "interrupted; what was known stays as it is.")


def of(package: Package) -> dict[str, Any]:
    """The fields that identify an image."""
    return {"name": package.name, "version": package.version, "sha256": package.sha256}


def whole(records: Iterable[str]) -> str:
    """The text of such a file, of the texts of its records."""
    return '{\n "kernels": [\n' + ",\n".join(f"  {record}" for record in records) + "\n ]\n}\n"


def lines(kernel: dict[str, Any], deep: str, *lists: str) -> str:
    """A kernel as such a file has it: its head in a line, and a line for each entry of these lists."""
    head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in kernel.items() if k not in lists)
    parts = []
    for name in lists:
        each = ",\n".join(f"{deep} {json.dumps(entry)}" for entry in kernel[name])
        parts.append(f'"{name}": [\n{each}\n{deep}]' if kernel[name] else f'"{name}": []')
    return f"{{{', '.join([head, *parts])}}}"
