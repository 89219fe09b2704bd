"""Configurations: fragments of options on top of a kernel's tinyconfig, those of data/kbuild/ by name, others by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..base.errors import TramplabError, unknown
from ..base.paths import data_file

#: What every kernel has.
BASE = "base"
#: Option -> its value; "n" for one that is not to be set.
Options = dict[str, str]
_LINE = re.compile(r'CONFIG_(?P<name>\w+)=(?P<value>"[^"\n]*"|\S+)|# CONFIG_(?P<off>\w+) is not set')
_FOLDER = "kbuild"


def names() -> list[str]:
    """The fragments that there are by name."""
    return sorted({path.name.split(".")[0] for path in data_file(f"{_FOLDER}/{BASE}.config").parent.glob("*.config")})


def options(isa: str, wanted: Iterable[str] = ()) -> Options:
    """The options of "base" and of these fragments for an ISA, later ones over earlier ones. A fragment is a name of names(), which
    may have a file for the ISA as well, or the path of a file. Raises TramplabError for one that is neither, or that says something
    else.

    >>> options("arm64", ["preempt"])["PREEMPT"], options("arm64")["SERIAL_AMBA_PL011"]
    ('y', 'y')
    """
    found: Options = {}
    for name in (BASE, *wanted):
        for path in _files(name, isa):
            found |= read(path)
    return found


def read(path: Path) -> Options:
    """What a file of options says; raises TramplabError for a line that is none."""
    found: Options = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if match := _LINE.fullmatch(line.strip()):
            found[match["name"] or match["off"]] = match["value"] or "n"
        elif line.strip() and not line.startswith("#"):
            raise TramplabError(f"{path}, line {number}: {line.strip()!r} is no option of a kernel; write CONFIG_NAME=y.")
    return found


def text(options: Mapping[str, str]) -> str:
    """Options as a fragment."""
    return "".join(f"CONFIG_{name}={value}\n" for name, value in options.items())


def missed(config: Path, tree: Path, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The options of "base" that a kernel does not have as wanted; raises TramplabError for others that it does not, but those that
    its release does not know."""
    has = read(config)
    other = [name for name, value in wanted.items() if has.get(name, "n") != value]
    base = {name for isa in ("", ".x86_64", ".arm64", ".riscv64") for name in read(data_file(f"{_FOLDER}/{BASE}{isa}.config"))}
    asked = [name for name in other if name not in base and name in known(tree)]
    if asked:
        raise TramplabError(
            f"the kernel is not configured as asked: {', '.join(f'CONFIG_{n}={wanted[n]}' for n in asked)} does not hold with the "
            "other options and this compiler; leave it away, or add what it depends on (--config, --clang)."
        )
    return tuple(other)


def known(tree: Path) -> set[str]:
    """All options of a kernel."""
    files = (path.read_text("utf-8", "replace") for path in tree.rglob("Kconfig*") if path.is_file())
    return {name for text in files for name in re.findall(r"^\s*(?:menu)?config (\w+)", text, re.M)}


def _files(name: str, isa: str) -> list[Path]:
    if name in names():
        folder = data_file(f"{_FOLDER}/{BASE}.config").parent
        return [path for path in (folder / f"{name}.config", folder / f"{name}.{isa}.config") if path.is_file()]
    if not Path(name).is_file():
        raise unknown("configuration", name, names())
    return [Path(name)]
