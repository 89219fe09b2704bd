"""What the saved results say was patched before their kernels could be called, and what was not real."""

from __future__ import annotations

import textwrap

from tramplab.base.width import WIDTH
from tramplab.vmlinux.results.show import notes
from tramplab.vmlinux.saved import saved

from ...publish.phrases import isa_name


def patched() -> str:
    """What was patched in the newest plain kernel of each ISA, a line for each thing."""
    lines: list[str] = []
    for isa, found in saved.newest().items():
        kernel = found["kernel"]
        lines.append(f"{isa_name(isa)} {kernel['version']}")
        for what in kernel["booted"]:
            lines += textwrap.wrap(what, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def faked() -> str:
    """What is made up in all kernels, and what for some hooks, a line for each thing."""
    said = dict.fromkeys(what for r in saved.every() for what in r["kernel"]["faked"])
    for result in saved.every():
        said |= dict.fromkeys(f"for {', '.join(names)}: {note}" for note, names in notes(result).items())
    return "\n".join(line for what in said for line in textwrap.wrap(what, WIDTH, subsequent_indent="  "))
