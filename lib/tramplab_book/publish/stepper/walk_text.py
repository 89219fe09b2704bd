"""One walk as text: every step with what it changed and read, under the milestones and symbols it was in."""

from __future__ import annotations

import textwrap

from tramplab.base.width import INDENTED_WIDTH

LEGEND = """\
Every step with what it changed, name=value and [place]=value, and
what it read, <[place]. S is the stack pointer at the function's
first byte; x@0 is what register x held there.
"""
_COLUMN = 31  # where the changes begin


def walk_text(walk: dict, notes: dict[int, str], common: dict[tuple[str, int], str]) -> str:
    """A walk as lines of at most 66 columns.

    notes: step -> remark. common: (milestone, steps behind it) -> remark on all walks. Steps are numbered from each
    milestone.
    """
    lines = [f"{walk['config']}: {walk['call']}", ""]
    milestone_at = {step: name for name, step in walk["milestones"].items()}
    milestone, start, last = "", 0, None
    for number, (place, registers, stores, loads) in enumerate(walk["steps"]):
        index, _, text = walk["code"][place]
        if number in milestone_at:
            milestone, start = milestone_at[number], number
            lines.append(f"-- {milestone} ".ljust(INDENTED_WIDTH, "-"))
        if index != last:
            symbol, component = walk["symbols"][index]
            lines.append(f"{symbol}  [{component}]")
            last = index
        changes = [f"{name}={value}" for name, value in registers.items()]
        changes += [f"[{name}]={value}" for name, value in stores.items()] + [f"<[{name}]" for name in loads]
        lines += _row(f"{number - start:>3}  {text}", changes)
        for note in filter(None, (common.get((milestone, number - start)), notes.get(number))):
            lines += _fill(f"# {note}", "     ", "     # ")
    return "\n".join(lines) + "\n"


def _row(head: str, changes: list[str]) -> list[str]:
    """An instruction, and behind it what it changed; on a line of its own where there is no room behind it."""
    indent = " " * min(_COLUMN, INDENTED_WIDTH - max(map(len, changes), default=0))
    if not changes:
        return [head]
    if len(head) < len(indent):
        return _fill(" ".join(changes), head.ljust(len(indent)), indent)
    return [head, *_fill(" ".join(changes), indent, indent)]


def _fill(text: str, first: str, others: str) -> list[str]:
    """Words in lines of at most 66 columns, with `first` before the first line and `others` before the others."""
    lines = textwrap.wrap(text, INDENTED_WIDTH - len(others), break_long_words=False, break_on_hyphens=False)
    return [(others if n else first) + line for n, line in enumerate(lines)]
