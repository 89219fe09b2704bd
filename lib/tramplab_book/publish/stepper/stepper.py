"""A recorded call to step through, up to three ISAs side by side: HTML for book/_static/stepper.js, and the same as text.

Knows walks as plain data (see lab/reading/walk.py for their form), not kernels.
"""

from __future__ import annotations

import html
import json
import textwrap
from dataclasses import dataclass

from tramplab.base.errors import TramplabError, unknown
from tramplab.base.width import INDENTED_WIDTH

from .walk_data import pack
from .walk_text import LEGEND, walk_text

MOST = 3  # walks side by side

#: The author's notes: isa ("" for all walks) -> where -> text; see stepper().
Notes = dict[str, dict[tuple[str, int | str], str]]


@dataclass(frozen=True)
class Stepper:
    """The body of a figure: HTML for a page, text for a terminal."""

    html: str
    text: str


def stepper(walks: list[dict], notes: Notes, watch: str, told: str = "") -> Stepper:
    """Walks side by side with the author's notes. watch: the sentence above them, what to look for. told: a text that tells all of
    them together, where they are parts of one thing; without it each is told by itself.

    A note is pinned to (milestone, at): so many steps behind the milestone; or the first step from there on whose
    instruction begins with the text `at`, or lies there ("lab_callback", "three_args+0x4"). A note for all walks is
    pinned by number, since they have no instruction in common.

    Raises TramplabError for more than three walks, two of one ISA, milestones in different orders, a note that is about
    no step, and two that are about the same.
    """
    names = [walk["isa"] for walk in walks]
    if not 1 <= len(walks) <= MOST or len(set(names)) != len(names):
        raise TramplabError(f"a stepper shows one to {MOST} walks of different ISAs, not {', '.join(names) or 'none'}.")
    stretches = segments(walks)
    own = _for_each(notes, dict(zip(names, walks, strict=True)))
    common = _for_all(notes.get("", {}), dict(stretches))
    data = {
        "segments": stretches,
        "notes": [[*where, text] for where, text in common.items()],
        "walks": [{**pack(walk), "notes": sorted(own[walk["isa"]].items())} for walk in walks],
    }
    # "<" is escaped so that no text can end the script element
    script = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    element = (
        f'<p class="tl-watch">{html.escape(watch)}</p>\n<tl-steps><script type="application/json">{script}</script>\n'
    )
    above = textwrap.fill(watch, INDENTED_WIDTH, break_on_hyphens=False) + "\n"
    if told:
        return Stepper(f"{element}{_text_html('All steps', told)}</tl-steps>", f"{above}\n{told}")
    plain = {walk["isa"]: walk_text(walk, own[walk["isa"]], common) for walk in walks}
    whole = "\n".join(_text_html(f"The whole call on {name}", f"{LEGEND}\n{text}") for name, text in plain.items())
    return Stepper(f"{element}{whole}</tl-steps>", "\n".join([above, LEGEND, *plain.values()]))


def segments(walks: list[dict]) -> list[tuple[str, int]]:
    """The milestones of all walks in order, and how many steps the longest walk takes from each to its next one.

    Raises TramplabError if two walks pass milestones in different orders.
    """
    order: list[str] = []
    for walk in walks:
        at = 0
        for name in walk["milestones"]:
            if name not in order:
                order.insert(at, name)
            elif order.index(name) < at:
                raise TramplabError(f"the walk on {walk['isa']} passes {name} earlier than another walk does.")
            at = order.index(name) + 1
    lengths: dict[str, int] = dict.fromkeys(order, 0)
    for walk in walks:
        marks = list(walk["milestones"].items())
        for (name, start), end in zip(marks, [*(step for _, step in marks[1:]), len(walk["steps"])], strict=True):
            lengths[name] = max(lengths[name], end - start)
    return list(lengths.items())


def step_of(walk: dict, milestone: str, at: int | str) -> int:
    """The step of a walk that a note is about; raises TramplabError if there is none."""
    if milestone not in walk["milestones"]:
        raise unknown(f"milestone of the walk on {walk['isa']}", milestone, walk["milestones"])
    start = walk["milestones"][milestone]
    for number in range(start, len(walk["steps"])):
        if number - start == at if isinstance(at, int) else _begins(walk, number, at):
            return number
    wanted = f"step {at}" if isinstance(at, int) else f"instruction that begins with, or lies at, {at!r}"
    raise TramplabError(f"a note is about no step: from {milestone} on, {walk['isa']} has no {wanted}.")


def _begins(walk: dict, number: int, wanted: str) -> bool:
    symbol, offset, text = walk["code"][walk["steps"][number][0]]
    where = walk["symbols"][symbol][0] + (f"+{offset:#x}" if offset else "")
    return text.startswith(wanted) or where == wanted


def _for_each(notes: Notes, walks: dict[str, dict]) -> dict[str, dict[int, str]]:
    """ISA -> step -> the note on it, of the notes that are for one walk."""
    own: dict[str, dict[int, str]] = {name: {} for name in walks}
    for isa, texts in notes.items():
        if isa and isa not in own:
            raise unknown("walk for a note", isa, own)
        for (milestone, at), text in texts.items() if isa else ():
            step = step_of(walks[isa], milestone, at)
            if step in own[isa]:
                raise TramplabError(
                    f"two notes are about one step on {isa}: {own[isa][step]!r} and {text!r}; join them."
                )
            own[isa][step] = text
    return own


def _for_all(notes: dict[tuple[str, int | str], str], widths: dict[str, int]) -> dict[tuple[str, int], str]:
    """Notes for all walks, checked."""
    checked = {}
    for (milestone, at), text in notes.items():
        if milestone not in widths:
            raise unknown("milestone for a note", milestone, widths)
        if not isinstance(at, int) or not 0 <= at < widths[milestone]:
            raise TramplabError(
                f"a note for all walks is about no step: {milestone} has {widths[milestone]}, counted from 0, and no {at!r}."
            )
        checked[milestone, at] = text
    return checked


def _text_html(of: str, text: str) -> str:
    """Text, open for readers without JavaScript; the script closes it."""
    title = f"{html.escape(of)}, as text"
    body = html.escape(text)
    return f'<details open><summary>{title}</summary><pre tabindex="0" aria-label="{title}">{body}</pre></details>'
