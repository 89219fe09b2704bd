"""`python -m tramplab.vmlinux`: write the results of the fetched kernels to data/ again, or print those of any image."""

import importlib
import sys
from collections.abc import Callable

from ..base.errors import TramplabError, unknown
from ..base.paths import checkout
from ..base.starting import start

#: Subcommand -> the module that runs it.
_PROGRAMS = {
    "recount": "saved.recount",
    "races": "saved.races_saved",
    "frames": "saved.frames_saved",
    "walks": "saved.walks_saved",
    "probes": "saved.probes_saved",
    "structs": "saved.structs",
    "sizes": "saved.sizes",
}
#: Subcommands with arguments of their own.
_ASKING = ("recount", "sizes")


def main(arguments: list[str]) -> int:
    """Run what is named first; returns the exit status, as start() says."""
    return start(lambda: _named(arguments))


def _named(arguments: list[str]) -> Callable[[], int]:
    if not arguments:
        raise TramplabError(f"say what: {', '.join(_PROGRAMS)}.")
    name, *others = arguments
    if name not in _PROGRAMS:
        raise unknown("program", name, _PROGRAMS)
    if others and name not in _ASKING:
        raise TramplabError(f"{name} takes nothing more.")
    if name != "sizes":
        checkout()
    program = importlib.import_module(f".{_PROGRAMS[name]}", __package__)
    return lambda: program.main(*([others] if name in _ASKING else []))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
