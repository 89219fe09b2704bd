"""A run as text: every instruction in order, with how deep the stack is and what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable

from ...base.width import WIDTH
from ...emulate.counting.trace import Issued
from .wording import named


def listing(
    steps: list[Issued],
    texts: dict[int, str],
    component_of: Callable[[int], str],
    name_of: Callable[[int], str | None],
    limit: int,
) -> str:
    """The steps as lines of at most 72 columns, a heading wherever the code goes on in another function.

    texts: pc -> instruction. name_of: address -> symbol+offset, None if it has no name. The first columns are the stack's
    depth in bytes before the instruction and its accesses: R or W with the bytes moved.
    """
    lines = ["stack  access   instruction"]
    top, last = steps[0].sp, None
    for s in steps[:limit]:
        name = name_of(s.pc) or f"{s.pc:#x}"
        symbol = name.split("+")[0]
        if symbol != last:
            lines.append(f"{symbol}  [{component_of(s.pc)}]")
            last = symbol
        lines.append(f"{top - s.sp:>5}  {_moved(s):<8} {named(texts[s.pc], name_of)}".rstrip()[:WIDTH])
    if len(steps) > limit:
        lines.append(f"... {len(steps) - limit} more instructions")
    return "\n".join(lines)


def _moved(step: Issued) -> str:
    reads = sum(n for _, n, w in step.accesses if not w)
    writes = sum(n for _, n, w in step.accesses if w)
    return " ".join(f"{k}{n}" for k, n in (("R", reads), ("W", writes)) if n)
