"""`python -m tramplab.vmlinux.races_saved`: patching schemes on Debian's kernels, kept in data/kernel-races.json.

Of the plain kernels that have been fetched; what the file says of others stays.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..analyse.races.executions import Executions
from ..analyse.races.explore import SAFE, THREADS, explore
from ..analyse.races.fetches import MODELS
from ..errors import TramplabError
from ..paths import data_file, write_whole
from ..schema import checked
from .debian.fetch import image, there
from .debian.list import Package, packages
from .races import ISAS, subjects

FILE = "kernel-races.json"


def wanted() -> tuple[Package, ...]:
    """The images that are explored: of the ISAs whose are, and no flavours."""
    return tuple(p for p in packages() if p.isa in ISAS and not p.flavour)


def read() -> dict[str, Any]:
    """What is kept; raises TramplabError where it is not as its schema says, or of other images than those that are listed."""
    return _read(data_file(FILE))


def made(package: Package) -> dict[str, Any]:
    """Every scheme that fits a kernel that has been fetched, under every model of fetches."""
    results = []
    for scheme, subject in subjects(image(package), None):
        ran = Executions(subject)
        for fetch in MODELS:
            result = explore(subject, THREADS, fetch, executions=ran)
            if result.limit:
                raise TramplabError(f"{package.name}, {scheme.name}: not decided after {result.limit}; it is not kept.")
            outcome = result.violation.which if result.violation else SAFE
            steps = len(result.schedule)
            results.append({"scheme": scheme.name, "fetch": fetch, "outcome": outcome, "steps": steps, "states": result.states})
    return {"name": package.name, "version": package.version, "sha256": package.sha256, "results": results}


def text(data: dict[str, Any]) -> str:
    """As the file has it: a line for each result."""
    kernels = []
    for kernel in data["kernels"]:
        head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in kernel.items() if k != "results")
        lines = ",\n".join(f"   {json.dumps(r)}" for r in kernel["results"])
        kernels.append(f'  {{{head}, "results": [\n{lines}\n  ]}}')
    return f'{{\n "threads": {data["threads"]},\n "kernels": [\n' + ",\n".join(kernels) + "\n ]\n}\n"


def main() -> int:
    """Make it anew; returns the exit status."""
    path = data_file("kernels/packages.yml").parent.parent / FILE
    try:
        kept = {k["name"]: k for k in _read(path)["kernels"]} if path.is_file() else {}
        for package in wanted():
            if there(package):
                kept[package.name] = made(package)
                print(f"{package.name}: {len(kept[package.name]['results'])} results", flush=True)
            else:
                print(f"{package.name}: not fetched, what is known of it stays as it is", flush=True)
        listed = [kept[p.name] for p in wanted() if p.name in kept]
        write_whole(path, text({"threads": THREADS, "kernels": listed}))
    except TramplabError as e:
        print(f"tramplab: {e}", file=sys.stderr)
        return 2
    return 0


def _read(path: Path) -> dict[str, Any]:
    found = checked(FILE, json.loads(path.read_text("utf-8")), "kernel-races")
    of = {p.name: p.sha256 for p in wanted()}
    for kernel in found["kernels"]:
        if of.get(kernel["name"]) != kernel["sha256"]:
            raise TramplabError(f"{FILE}: {kernel['name']} is of another image than is listed: run `make kernels`.")
    return found


if __name__ == "__main__":
    sys.exit(main())
