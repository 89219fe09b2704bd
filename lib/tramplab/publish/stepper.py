"""A recorded call to step through, up to three ISAs side by side: HTML for book/_static/stepper.js, and the same as text.

Knows walks as plain data (see ftrace/walk.py for their form), not kernels.
"""

from __future__ import annotations

import html
import json
import textwrap
from dataclasses import dataclass

from tramplab.errors import TramplabError, unknown
from tramplab.publish.table import INDENTED_WIDTH

MOST = 3  # walks side by side
INSTRUCTION = 33  # columns of an instruction's text, where the text form has room


@dataclass(frozen=True)
class Note:
    """What the author says of one step.

    isa: whose walk. milestone: where to look from. instruction: how the instruction's text begins; the first such from
    the milestone on is meant, the milestone's own step where it is empty.
    """

    isa: str
    milestone: str
    instruction: str
    text: str


@dataclass(frozen=True)
class Stepper:
    """The body of a figure: HTML for a page, text for a terminal."""

    html: str
    text: str


def stepper(walks: list[dict], notes: list[Note] = ()) -> Stepper:
    """Walks side by side with the author's notes.

    Raises TramplabError for more than three walks, two of one ISA, and a note that is about no step.
    """
    names = [walk["isa"] for walk in walks]
    if not 1 <= len(walks) <= MOST or len(set(names)) != len(names):
        raise TramplabError(f"a stepper shows one to {MOST} walks of different ISAs, not {', '.join(names) or 'none'}.")
    pinned: dict[str, dict[int, list[str]]] = {name: {} for name in names}
    for note in notes:
        if note.isa not in pinned:
            raise unknown("walk for a note", note.isa, pinned)
        walk = next(w for w in walks if w["isa"] == note.isa)
        pinned[note.isa].setdefault(step_of(walk, note), []).append(note.text)
    data = {"walks": [{**walk, "notes": sorted(pinned[walk["isa"]].items())} for walk in walks]}
    texts = {walk["isa"]: walk_text(walk, pinned[walk["isa"]]) for walk in walks}
    # "<" is escaped so that no text can end the script element
    script = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    whole = "\n".join(
        f"<details><summary>The whole call on {html.escape(name)}, as text</summary>"
        f'<pre tabindex="0" aria-label="The whole call on {html.escape(name)}">{html.escape(text)}</pre></details>'
        for name, text in texts.items()
    )
    return Stepper(
        f'<tl-steps><script type="application/json">{script}</script>\n{whole}</tl-steps>', "\n".join(texts.values())
    )


def step_of(walk: dict, note: Note) -> int:
    """The step a note is about; raises TramplabError if there is none."""
    if note.milestone not in walk["milestones"]:
        raise unknown(f"milestone of the walk on {walk['isa']}", note.milestone, walk["milestones"])
    start = walk["milestones"][note.milestone]
    for number in range(start, len(walk["steps"])):
        if walk["code"][walk["steps"][number][0]][2].startswith(note.instruction):
            return number
    raise TramplabError(
        f"a note is about no step: from {note.milestone} on, no instruction on {walk['isa']} begins with "
        f"{note.instruction!r}."
    )


def walk_text(walk: dict, notes: dict[int, list[str]]) -> str:
    """One walk as text of at most 66 columns: every step with what it changed, under the symbols it was in."""
    lines = [f"{walk['config']}: {walk['call']}"]
    at = {step: name for name, step in walk["milestones"].items()}
    last = None
    for number, (place, registers, memory) in enumerate(walk["steps"]):
        index, _, text = walk["code"][place]
        if index != last:
            symbol, component = walk["symbols"][index]
            lines.append(f"{symbol}  [{component}]")
            last = index
        if number in at:
            lines.append(f"-- {at[number]}")
        changes = [*registers, *(f"[{change.replace('=', ']=', 1)}" for change in memory)]
        lines += _row(f"{number:>4}  {text}", changes)
        for note in notes.get(number, []):
            lines += _fill(f"      # {note}", 8).splitlines()
    return "\n".join(lines) + "\n"


def _row(head: str, changes: list[str]) -> list[str]:
    """A step's instruction, and behind it what it changed; on lines of its own where there is no room behind it."""
    column = 7 + INSTRUCTION
    if max(map(len, changes), default=0) > INDENTED_WIDTH - column:
        column = 10
    if not changes:
        return [head]
    if len(head) < column:
        return _fill(f"{head:<{column}}" + " ".join(changes), column).splitlines()
    return [head, *_fill(" " * column + " ".join(changes), column).splitlines()]


def _fill(text: str, indent: int) -> str:
    """A line broken at spaces; the first part, which is aligned, keeps its blanks."""
    start = len(text) - len(text.lstrip())
    return textwrap.fill(
        text.lstrip(),
        INDENTED_WIDTH,
        initial_indent=text[:start],
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )
