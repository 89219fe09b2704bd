"""A small table as the body of a figure: for a page real cells, which a phone wraps and a screen reader walks."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Grid:
    """The rows of a frame of text as a table; the first column names the rows. Its text is the figure's own table.

    label: what the table is, for a screen reader.
    text: its text for a terminal, "" for the figure's own table.
    note: a line below.
    code: the other columns are code.
    marked: by row and column after the first, which cells stand out.
    """

    frame: pd.DataFrame
    label: str
    text: str = ""
    note: str = ""
    code: bool = False
    marked: np.ndarray | None = None

    @property
    def html(self) -> str:
        """A table whose header cells are marked as such; a line break in a cell stays."""
        columns = [str(name) for name in self.frame.columns]
        head = "".join(f'<th scope="col">{_cell(name)}</th>' for name in columns)
        label, lines = html.escape(self.label), []
        marked = np.zeros((len(self.frame), len(columns) - 1), bool) if self.marked is None else self.marked
        kinds = {False: f'<td{" class=tl-code" * self.code}>', True: f'<td class="{"tl-code " * self.code}tl-changed">'}
        for (first, *rest), marks in zip(self.frame.astype(str).itertuples(index=False, name=None), marked, strict=True):
            cells = "".join(f"{kinds[bool(mark)]}{_cell(cell)}</td>" for cell, mark in zip(rest, marks, strict=True))
            lines.append(f'<tr><th scope="row">{_cell(first)}</th>{cells}</tr>')
        return (
            f'<div class="pst-scrollable-table-container" role="group" tabindex="0" aria-label="{label}">'
            f'<table class="tl-grid" aria-label="{label}">'
            f"<thead><tr>{head}</tr></thead><tbody>\n{chr(10).join(lines)}\n</tbody></table></div>"
        ) + (f'\n<p class="tl-links">{html.escape(self.note)}</p>' if self.note else "")


def _cell(text: str) -> str:
    return "<br>".join(html.escape(line) for line in text.split("\n"))
