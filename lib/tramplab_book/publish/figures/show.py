"""What a cell hands to the page: question, chart, table, files and citation of a figure, all from one frame."""

from __future__ import annotations

import html
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tramplab.base.width import INDENTED_WIDTH

from ..cite import cite
from ..classes import FIGURE, OWN
from ..estimates import beneath
from ..findings import findings, rendered
from ..phrases import isa_name, slug
from ..table import text_table
from .citation import block, stated, titled
from .figure import Body, Figure, Study, find
from .files import Files, experiment
from .fitted import fitted_table
from .grid import Grid
from .tabs import tabbed

if TYPE_CHECKING:
    import pandas as pd

    from .chart import Drawing


#: Lines of a table that stands open where nothing else shows the rows; of a longer one the first part is open.
LONGEST = 30
#: Below a table with the cycles of machines.
_TIMED = "\nCycles: measured natively, on the machine that is named.\n"
#: Lines of a table, of runs or of steps that stand whole in a page's text twin; of longer ones it has the first LONGEST lines.
MOST_IN_TWIN = 60
GLOSSARY = f"{Path(cite.PAGE_OF_TERMS).stem}.html"  # beside every page: what the names of hooks mean


class Shown:
    """A figure as HTML and as text. Jupyter takes whichever fits: a page the HTML, a terminal and the text twin the table.

    citation: the block for a review mail. brief: the text without what is long, "" where nothing is.
    """

    def __init__(self, html_text: str, text: str, citation: str, brief: str = ""):
        self.html, self.text, self.citation, self.brief = html_text, text, citation, brief or text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.brief}

    def __repr__(self) -> str:
        return self.text


def show(study: Study, figure_id: str, rows: pd.DataFrame | None = None) -> Shown:
    """Show a figure of a study, from rows that the study made earlier, or from a run made now.

    >>> from ...studies.method import counting
    >>> print(show(counting, "fig-counting").text.splitlines()[0])
    Every pass counts: 10 instructions execute 18 times on arm64

    Raises TramplabError, with near matches, if the study declares no such figure.
    """
    figure = find(study, figure_id)
    rows = study.rows() if rows is None else rows
    frame = figure.rows(rows)
    table, below = _table(figure, frame)
    files = Files(figure_id)
    panes = [_pane(figure, name, share, files) for name, share in _shares(figure, frame)]
    behind = figure.behind(frame) if figure.behind else None
    title = titled(study, figure, rows)
    bodies = [pane.body for pane in panes if pane.body]
    long = [table, *(f"{part.text.rstrip()}\n" for part in (*bodies, behind) if part and part.text)]
    head = f"{textwrap.fill(title, INDENTED_WIDTH, break_on_hyphens=False)}\n\n"
    text, brief = (head + "\n".join(parts) for parts in (long, [_brief(part, figure_id) for part in long]))
    several = stated(study, figure, rows)
    above = findings.of_page(findings.page_of(figure_id)) if several else []
    found = [rendered.below(one) for one in several if one.finding not in above]
    below_it = "".join(f"\n{paragraph}" for _, paragraph in found)
    text, brief = text + below_it, brief + below_it
    citation = block(study, figure, frame, several=several, title=title)
    parts = [f'<div class="{OWN if figure.own else FIGURE}"><p class="tl-title">{html.escape(title)}</p>']
    parts.append(tabbed(figure_id, [(pane.name, pane.html) for pane in panes]))
    parts += [paragraph for paragraph, _ in found]
    if not bodies or not isinstance(bodies[0], Grid):  # which is the table, in cells
        parts += _table_html(title, table, any(pane.html for pane in panes))
    elif below:
        parts.append(f'<p class="tl-links">{html.escape(" ".join(below.split()))}</p>')
    if behind:
        parts.append(behind.html)
    parts += [cite.box(citation, figure_id), f'<p class="tl-links">{_links(study, figure, frame, text, files)}</p></div>']
    return Shown("\n".join(parts), text, citation, brief)


def _table(figure: Figure, frame: pd.DataFrame) -> tuple[str, str]:
    """The table, with the lines below it, and these alone."""
    shown = figure.table(frame)
    table = (fitted_table if figure.measured else text_table)(shown, INDENTED_WIDTH, split="isa")
    # in what was measured cycles were timed, and estimates have columns of their own
    timed = _TIMED if "cycles" in table else ""
    below = timed if figure.measured else beneath(table, shown, frame, INDENTED_WIDTH)
    return table + below, below


def _table_html(title: str, table: str, seen: bool) -> list[str]:
    """The table, closed where something else shows the rows; else open, and of a long one the first part is."""
    short = table.count("\n") <= LONGEST
    first = [] if seen or short else [_pre(title, _first(table))]
    name = "Table" if seen or short else "All rows"
    opened = " open" if short and not seen else ""
    return [*first, f"<details{opened}><summary>{name}</summary>{_pre(title, table)}</details>"]


def _brief(part: str, figure_id: str) -> str:
    """The first lines of a part that is too long for a text twin, and where it is whole."""
    lines = part.splitlines()
    if len(lines) <= MOST_IN_TWIN:
        return part
    return "\n".join([*lines[:LONGEST], "", f"{len(lines) - LONGEST} more lines: {figure_id}.txt, the figure's own text.", ""])


@dataclass(frozen=True)
class _Pane:
    """A figure's visible part, or its share under one tab: a chart or a body, or neither."""

    name: str
    html: str
    body: Body | None


def _shares(figure: Figure, frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows for each tab, under its value; all rows under no name where there are no tabs."""
    if not figure.tabs:
        return [("", frame)]
    return [(str(value), share) for value, share in frame.groupby(figure.tabs, sort=False)]


def _pane(figure: Figure, name: str, share: pd.DataFrame, files: Files) -> _Pane:
    body = figure.body(share) if figure.body else None
    drawing = figure.chart(share) if figure.chart else None
    chart = _chart_html(drawing, files, figure.alt, f"-{slug(name)}" if name else "") if drawing else ""
    return _Pane(isa_name(name) if figure.tabs == "isa" else name, chart + (body.html if body else ""), body)


def _first(table: str) -> str:
    """The first part of a table that was split, as far as it may be open."""
    lines = table.partition("\n\n")[0].splitlines()
    return "\n".join(lines[:LONGEST]) + "\n"


def _pre(title: str, table: str) -> str:
    return f'<pre tabindex="0" aria-label="{html.escape(title)}">{html.escape(table)}</pre>'


def rows_json(frame: pd.DataFrame, figure_id: str, title: str) -> str:
    """The rows as JSON, with what is needed to understand them: title and units."""
    rows = json.loads(frame.to_json(orient="records"))
    head = {"id": figure_id, "title": title, "units": frame.attrs.get("units", {})}
    lines = ",\n".join(json.dumps(row) for row in rows)
    return json.dumps(head)[:-1] + f', "rows": [\n{lines}\n]}}\n'


def _links(study: Study, figure: Figure, frame: pd.DataFrame, text: str, files: Files) -> str:
    """The line with links to the rows in other forms, and to the code they are from."""
    rows = (
        files.link(".txt", "text", text, "text/plain"),
        files.link(".csv", "CSV", frame.to_csv(index=False, lineterminator="\n"), "text/csv"),
        files.link(".json", "JSON", rows_json(frame, figure.id, figure.question), "application/json"),
    )
    terms = f' · <a href="{GLOSSARY}">Terms</a>' if "hook" in frame else ""
    return f"Rows: {' · '.join(rows)} · {experiment(study.rows)}{terms}"


def _chart_html(drawing: Drawing, files: Files, alt: str, suffix: str) -> str:
    """The chart for either width, of which charts.css shows one; a notebook has no style sheet and only the wide one."""
    said = f'role="graphics-document" aria-roledescription="visualization" aria-label="{html.escape(alt)}"'
    layouts = {"wide": ""} if files.folder is None else {"wide": "", "narrow": "-narrow"}
    drawn = [files.drawing(suffix + end, drawing.spec(name), f'class="tl-{name}" {said}') for name, end in layouts.items()]
    return f'<div class="tl-chart" data-marks="{len(drawing.rows)}" data-role="{drawing.role}">{"".join(drawn)}</div>'
