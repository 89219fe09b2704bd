"""The published results: data/kernels/NAME.json for each listed image, made from the image, read by studies and tests.

`python -m tramplab.vmlinux.saved [NAME...]` makes those anew whose images have been fetched. An image is one job, for processes of
this machine or for a cluster's workers, which need it in their caches, too.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from .. import jobs, workers
from ..errors import TramplabError
from ..paths import data_file, write_whole
from ..schema import checked
from . import measure
from .debian.fetch import content, there
from .debian.list import FILE, Package, chosen, packages
from .machine import FUNCTION
from .result import machine_of, result

#: What a process takes for one, and some to spare: 220 to 300 for the images of v6.1.
_MEGABYTES = 500
_REMEDY = "the files that were named are made, so run it again, with fewer --processes if memory is short"


@functools.cache
def every() -> tuple[dict[str, Any], ...]:
    """All saved results, in the order of the list of packages; raises TramplabError for one that is missing or not as its schema
    says."""
    return tuple(read(p) for p in packages())


def plain() -> list[dict[str, Any]]:
    """Those of plain kernels, not of a flavour."""
    return [found for found in every() if not found["package"]["flavour"]]


def read(package: Package) -> dict[str, Any]:
    """The saved result of an image."""
    name = f"kernels/{package.name}.json"
    found = checked(name, json.loads(data_file(name).read_text("utf-8")), "kernel")
    if found["kernel"]["sha256"] != package.sha256:
        raise TramplabError(f"{name} is of another image than {FILE} lists: run `make kernels`.")
    return found


def make(package: Package) -> dict[str, Any]:
    """Measure an image that has been fetched; raises TramplabError if it has not."""
    with tempfile.TemporaryDirectory(prefix="tramplab-kernel-") as folder:
        path = Path(folder) / Path(package.path).name
        path.write_bytes(content(package))
        machine = machine_of(path)
        found = result(machine, FUNCTION, measure.every(machine))
    about = {name: getattr(package, name) for name in ("name", "package", "version", "suite", "architecture", "flavour")}
    return {"package": about, **found}


def text(found: dict[str, Any]) -> str:
    """A result as its file has it: a line for each fact and each hook."""
    parts = []
    for key, value in found.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        elif isinstance(value, list):
            parts.append(f" {json.dumps(key)}: [\n" + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def measured(package: Package) -> str:
    """The text of an image's file, measured anew."""
    return text(make(package))


def main(arguments: list[str] | None = None) -> int:
    """Make the files anew; returns the exit status: 0, 2 for what the user can put right, 130 when interrupted."""
    try:
        args = _parser().parse_args(arguments)
        where, wanted = workers.chosen(args, _MEGABYTES), chosen(args.names, one=False)
        for package in wanted:
            if not there(package):
                print(f"{package.name}: not fetched, its file stays as it is", flush=True)
        with jobs.shared(measured, [p for p in wanted if there(p)], where, _REMEDY) as results:
            for package, new in results:
                path = data_file(FILE).parent / f"{package.name}.json"
                changed = not path.is_file() or path.read_text("utf-8") != new
                write_whole(path, new)
                print(f"{path.name}: {'rewritten' if changed else 'unchanged'}", flush=True)
    except TramplabError as e:
        print(f"tramplab: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tramplab: interrupted; the files that were named are made.", file=sys.stderr)
        return 130
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise TramplabError(f"{message} (try: {self.prog} --help).")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tramplab.vmlinux.saved", description="Count the fetched Debian kernels into data/kernels/.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of data/{FILE} (default: all that have been fetched)")
    workers.add(parser, "as many as processors and memory allow")
    return parser


if __name__ == "__main__":
    sys.exit(main())
