"""A run as text: every instruction in order, with how deep the stack is and what it reads and writes."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...base.width import WIDTH
from ...emulate.counting.trace import Issued

_ADDRESS = re.compile(r"#?0x[0-9a-f]{8,16}\b")


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


def named(text: str, name_of: Callable[[int], str | None]) -> str:
    """An instruction's text with addresses replaced by the symbols that lie there.

    >>> named("bl #0xffff800080000020", lambda a: "ftrace_caller")
    'bl ftrace_caller'
    """

    def name(m: re.Match) -> str:
        return name_of(int(m.group().lstrip("#"), 16)) or m.group()

    return _ADDRESS.sub(name, text)


def _moved(step: Issued) -> str:
    reads = sum(n for _, n, w in step.accesses if not w)
    writes = sum(n for _, n, w in step.accesses if w)
    return " ".join(f"{k}{n}" for k, n in (("R", reads), ("W", writes)) if n)
