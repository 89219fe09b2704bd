"""What a cell hands to the page: chart, text table and links to the rows, all from one frame."""

import html
import json
import re
from collections.abc import Callable

import pandas as pd

from tramplab.errors import TramplabError
from tramplab.publish.chart import Drawing
from tramplab.publish.files import Files
from tramplab.publish.table import INDENTED_WIDTH, text_table


class Shown:
    """A figure as HTML and as text. Jupyter takes whichever fits: a page the HTML, a terminal the table."""

    def __init__(self, html_text: str, text: str):
        self.html, self.text = html_text, text

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def show(
    frame: pd.DataFrame,
    figure_id: str,
    *,
    title: str,
    alt: str = "",
    chart: Callable[[pd.DataFrame], Drawing] | None = None,
    table: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> Shown:
    """Show the rows of an experiment under a stable id such as `fig-single-callback`.

    `chart` and `table` are functions of the rows (`chart.stacked_bars(...)`, `table.pivot(...)`), so neither can
    show anything else. Without `table` the rows themselves are printed. `alt` says in words what the chart shows.
    """
    if not re.fullmatch(r"fig-[a-z0-9]+(-[a-z0-9]+)*", figure_id):
        raise TramplabError(f"a figure id is fig- and lower-case words joined by hyphens, not {figure_id!r}")
    if chart and not alt:
        raise TramplabError(f"{figure_id}: a chart needs alt=, a sentence for readers who cannot see it")
    text = title + "\n\n" + text_table(table(frame) if table else frame, INDENTED_WIDTH, split="isa")
    files = Files(figure_id)
    links = (
        files.link(".csv", "CSV", frame.to_csv(index=False, lineterminator="\n"), "text/csv"),
        files.link(".json", "JSON", rows_json(frame, figure_id, title), "application/json"),
    )
    parts = [f'<div class="tl-figure"><p class="tl-title">{html.escape(title)}</p>']
    if chart:
        parts.append(_chart_html(chart(frame), files, alt))
    parts += [
        f"<details{'' if chart else ' open'}><summary>Table</summary>",
        f'<pre tabindex="0">{html.escape(text)}</pre></details>',
        f'<p class="tl-links">Rows: {" · ".join(links)}</p></div>',
    ]
    return Shown("\n".join(parts), text)


def rows_json(frame: pd.DataFrame, figure_id: str, title: str) -> str:
    """The rows as JSON, with what is needed to understand them: title and units."""
    rows = json.loads(frame.to_json(orient="records"))
    head = {"id": figure_id, "title": title, "units": frame.attrs.get("units", {})}
    lines = ",\n".join(json.dumps(row) for row in rows)
    return json.dumps(head)[:-1] + f', "rows": [\n{lines}\n]}}\n'


def _chart_html(drawing: Drawing, files: Files, alt: str) -> str:
    """A static picture for either width, and the specs from which book.js draws the live chart in its place."""
    wide, narrow = (
        files.url(suffix, drawing.svg(layout), "image/svg+xml")
        for layout, suffix in (("wide", ".svg"), ("narrow", "-narrow.svg"))
    )
    # Escaped so that no text of the rows can end the script element.
    layouts = {name: {**getattr(drawing, name), "description": alt} for name in ("wide", "narrow")}
    spec = json.dumps({"rows": drawing.rows, **layouts}).replace("<", "\\u003c")
    return (
        f'<div class="tl-chart" data-bars="{len(drawing.rows)}"><picture>'
        f'<source media="(max-width: 600px)" srcset="{narrow}"><img src="{wide}" alt="{html.escape(alt)}"></picture>'
        f'<script type="application/json">{spec}</script></div>'
    )
