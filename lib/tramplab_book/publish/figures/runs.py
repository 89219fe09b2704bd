"""Runs that cells of a chart lead to: what each printed, folded below the chart, under an id that the cell's link names."""

from __future__ import annotations

import html
import itertools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from tramplab.base.width import INDENTED_WIDTH


@dataclass(frozen=True)
class Run:
    """A run that a cell leads to.

    id: its anchor.
    head: the first line that it printed, by which runs stand together.
    name: what tells it apart from other runs with this head.
    text: what it printed below the head.
    """

    id: str
    head: str
    name: str
    text: str


@dataclass(frozen=True)
class Runs:
    """Runs in order. label: what they are, for the line that unfolds them."""

    label: str
    runs: tuple[Run, ...]

    @property
    def html(self) -> str:
        """A fold with the heads in it, and under each a fold for every run, which is whole for itself; book.js unfolds the one that
        an address names, where a browser does not by itself."""
        parts = [f'<details class="tl-runs"><summary>{html.escape(self.label)}</summary>']
        for head, some in self._groups():
            parts += [f"<p>{html.escape(head)}</p>", *(_folded(run) for run in some)]
        return "\n".join([*parts, "</details>"])

    @property
    def text(self) -> str:
        """Each head once, and below it what its runs printed, in lines that a text twin has room for."""
        blocks = [f"{self.label}:\n"]
        for head, some in self._groups():
            lines = [line for run in some for line in run.text.splitlines()]
            blocks.append("\n".join([*_narrowed(head), *(f"  {part}" for line in lines for part in _narrowed(line))]) + "\n")
        return "\n".join(blocks)

    def _groups(self) -> Iterator[tuple[str, Iterator[Run]]]:
        return itertools.groupby(self.runs, key=lambda run: run.head)


def _narrowed(line: str) -> list[str]:
    """A line as two or more where it has too many columns, of which an indent takes two."""
    return textwrap.wrap(line, INDENTED_WIDTH - 2, subsequent_indent=" " * 10, break_on_hyphens=False)


def _folded(run: Run) -> str:
    name, printed = html.escape(run.name), html.escape(f"{run.head}\n{run.text}")
    shown = f'<pre id="{run.id}" tabindex="0" aria-label="{name}">{printed}</pre>'  # inside, so that both folds open for it
    return f"<details><summary>{name}</summary>{shown}</details>"
