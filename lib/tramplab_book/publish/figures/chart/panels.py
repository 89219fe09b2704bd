"""What every kind of chart needs: rows checked and named, one panel per ISA, and a spec for each layout."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from tramplab.base.errors import TramplabError

from ...phrases import MARK
from ...table import require_columns, require_unique
from .drawing import Drawing
from .text import fit, longest_piece, width
from .theme import CHARACTER, FONT, HOLLOW, LINE, NARROW, WIDE, configuration

ROWS = alt.NamedData(name="rows")  # specs name their data; the rows are added once, where a chart is drawn
GAP = 16  # pixels between panels side by side
PADDING = {"left": 0, "top": 2, "right": 12, "bottom": 2}  # pixels; a reader's font may be wider than was measured
#: The words below a chart where a mark is hollow.
NOTE = "Hollow: hypothetical, no kernel has it."
_MARKED = re.compile(rf"[{MARK[0]}\xa0]{re.escape(MARK[1:])}")
Names = str | tuple[str, ...]  # a column, or several whose values name a thing together


def tidy(frame: pd.DataFrame, value: str, **keys: Names) -> pd.DataFrame:
    """The columns that `keys` names, as text under the names a spec uses, and the column `value` under that name.

    Names lose the mark of what no kernel has; where there are such, `hollow` tells which rows have one.

    Raises TramplabError if a column is missing, if the keys without marks do not tell all rows apart (a mark of their sum would
    show a number that is in no row), or if there are no rows.
    """
    columns = {key: [names] if isinstance(names, str) else list(names) for key, names in keys.items()}
    used = [name for names in columns.values() for name in names]
    require_columns(frame, [*used, value])
    require_unique(frame, used)
    if frame.empty:
        raise TramplabError("there are no rows to draw; ask for more, or leave the chart out.")
    texts = {key: frame[names].astype(str).agg(" ".join, axis="columns") for key, names in columns.items()}
    data = pd.DataFrame({key: text.str.replace(_MARKED, "", regex=True) for key, text in texts.items()})
    require_unique(data, list(data))
    hollow = (data != pd.DataFrame(texts)).any(axis=1)
    if hollow.any():
        data["hollow"] = hollow
    return data.assign(value=frame[value]).reset_index(drop=True)


def faint(data: pd.DataFrame) -> dict[str, Any]:
    """The ground of marks, faint where they are of what no kernel has."""
    return {"fillOpacity": alt.condition("datum.hollow", alt.value(HOLLOW), alt.value(1))} if "hollow" in data else {}


def hollow(data: pd.DataFrame, field: str, scale: alt.Scale) -> dict[str, Any]:
    """The encodings of marks of what no kernel has: an outline in the colour of their `field`, and a faint ground."""
    if "hollow" not in data:
        return {}
    return {
        **faint(data),
        "stroke": alt.Stroke(field, scale=scale, legend=None),
        "strokeWidth": alt.condition("datum.hollow", alt.value(1.5), alt.value(0)),
    }


def numbers(frame: pd.DataFrame, column: str, missing: bool = False) -> list:
    """The numbers of a column; raises TramplabError for anything else. missing: NaN may be among them."""
    values = frame[column]
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        raise TramplabError(f"{column} has no numbers to draw; name another column.")
    if not missing and values.isna().any():
        raise TramplabError(f"not every row has a number in {column}; leave those rows out.")
    return values.tolist()


def order(values: pd.Series) -> list[str]:
    """The different values, in the order of the rows."""
    return list(dict.fromkeys(values))


def title(frame: pd.DataFrame, value: str) -> str:
    """The title of an axis for a column: its name and unit."""
    unit = frame.attrs.get("units", {}).get(value)
    return value.replace("_", " ") + (f" ({unit})" if unit else "")


#: What is said of a row besides its value where that lies in a band.
BAND = "(datum.low < datum.high ? ' (' + datum.low + ' to ' + datum.high + ')' : '')"


def mark(role: str, name: str, *keys: str, more: str = "''") -> dict:
    """The options of marks for assistive technology: what it calls them (role), and what it reads out and a tooltip shows: the
    keys, whether no kernel has it, the value by its name, and what the expression `more` says."""
    fields = " + '; ' + ".join(f"datum.{key}" for key in keys) + " + (datum.hollow ? '; hypothetical' : '')"
    said = "(isValid(datum.value) ? datum.value : 'no number')"
    return {"ariaRoleDescription": role, "description": alt.expr(f"{fields} + {json.dumps(f'; {name}: ')} + {said} + {more}")}


def only(panel: str) -> alt.FieldEqualPredicate:
    """The filter for the rows of one panel."""
    return alt.FieldEqualPredicate(field="panel", equal=panel)


def decoration(rows: list[dict]) -> alt.Chart:
    """A layer that is no mark of a row: it carries its own data."""
    return alt.Chart(alt.InlineData(values=rows))


def named(lines: Mapping[Any, list[str]], upright: bool, **options: Any) -> alt.Axis:
    """An axis of names, each printed in the lines given for its value: left of an upright axis, else above it."""
    extra = {value: LINE * (len(parts) - 1) for value, parts in lines.items()}
    move, far, rest = ("labelOffset", -0.5, 0) if upright else ("labelPadding", 1, 4)  # lines are added downwards
    moves = [
        {"test": f"datum.value === {json.dumps(value)}", "value": rest + far * pixels}
        for value, pixels in extra.items()
        if pixels
    ]
    side = {} if upright else {"orient": "top"}
    printed = {"labelExpr": f"{json.dumps(lines)}[datum.value]", "labelLimit": 0, "labelLineHeight": LINE, "labelOverlap": False}
    quiet = {
        "grid": False,
        "ticks": False,
        "domain": False,
        move: {"condition": moves, "value": rest} if moves else rest,
    }
    return alt.Axis(**{**side, **printed, **quiet, **options})


def side(labels: bool, pixels: float) -> dict:
    """Options of an axis at the side of a panel: with its labels, and room for them in the widest font, or without."""
    return {"labels": labels, "minExtent": pixels if labels else 0}


def above(names: list[str], pixels: float) -> tuple[dict[str, list[str]], dict]:
    """Lines and options for names above columns of so many pixels; written from below if a piece is too long."""
    if max(map(longest_piece, names)) * CHARACTER > pixels:
        options = {"labelAngle": -90, "labelOverlap": False, "minExtent": max(map(width, names)) + 4}
        return {name: [name] for name in names}, options
    return {name: fit(name, int(pixels // CHARACTER)) for name in names}, {"labelAngle": 0}


def lines_of(data: pd.DataFrame, key: str) -> tuple[dict[str, list[str]], bool]:
    """The names down the side of each panel, and whether those of one panel do for all.

    They do where no panel has others or another order: then a name stands in the same line of every panel, and a panel
    that lacks it leaves the line empty.
    """
    sides = {panel: order(part[key]) for panel, part in data.groupby("panel", sort=False)}
    most = max(sides.values(), key=len)
    if all(names == [name for name in most if name in names] for names in sides.values()):
        return dict.fromkeys(sides, most), True
    return sides, False


def key(letters: dict[str, str], pixels: int) -> list[alt.Chart]:
    """A panel that says what letters in narrow places stand for (state -> letter); none if there are no letters."""
    records = [{"line": i, "label": f"{letter} = {state}"} for i, (state, letter) in enumerate(letters.items())]
    if not records:
        return []
    texts = decoration(records).mark_text(align="left", baseline="top", aria=False)
    line = alt.Y("line:Q", scale=alt.Scale(domain=[0, len(records)], reverse=True), axis=None)
    label = texts.encode(x=alt.XValue(0), y=line, text=alt.Text("label:N"))
    return [label.properties(width=pixels, height=LINE * len(records))]


def abreast(pixels: float, panels: int, least: float, most: int) -> int:
    """How many panels of at least `least` pixels stand side by side in so many: one at least, and not so that one is left alone
    below others."""
    room = max(1, min(most, panels, int((pixels + GAP) // (least + GAP))))
    return next(count for count in range(room, 0, -1) if panels % count != 1 or count == 1)


def layers(*parts: alt.Chart | dict, **properties: Any) -> dict:
    """The spec of a chart of layers; a part is a layer, or is made by this function. Decorations keep their data inside.

    A dict and no alt.layer(): Altair copies all that is below whenever it puts charts together or sets a property.
    """
    found = {"layer": [part if isinstance(part, dict) else _plain(part) for part in parts]}
    return found | {name: part.to_dict(validate=False) if hasattr(part, "to_dict") else part for name, part in properties.items()}


def _plain(chart: alt.Chart) -> dict:
    """The spec of a chart without layers. Without data of its own it has that of the whole, which Altair does not expect."""
    datasets: dict[str, list] = {}  # Altair moves inline data here, but the page replaces that part of the whole
    made = chart.to_dict(validate=False, context={"top_level": False, "datasets": datasets})
    data = made.pop("data")
    return made if chart.data is alt.Undefined else made | {"data": {"values": datasets[data["name"]]}}


def spec(charts: Sequence[dict | alt.Chart], columns: int, shared_x: bool = False) -> dict:
    """The Vega-Lite spec of panels, `columns` of them side by side."""
    chart = alt.concat(data=ROWS, columns=columns, spacing={"row": 12, "column": GAP})
    chart = chart.resolve_scale(x="shared" if shared_x else "independent", y="independent")
    chart = chart.properties(background="transparent", padding=PADDING).configure(**configuration())
    made = chart.to_dict(validate=False)
    return made | {"concat": [part if isinstance(part, dict) else _plain(part) for part in charts]}


def drawing(data: pd.DataFrame, role: str, layout: Callable[[int, bool], dict]) -> Drawing:
    """A drawing of the rows; `layout(pixels, narrow)` makes the spec of one layout, so many pixels wide."""
    rows = data.astype(object).where(data.notna(), None).to_dict("records")
    margins = PADDING["left"] + PADDING["right"]
    below = {"text": NOTE, "orient": "bottom", "frame": "bounds", "fontSize": FONT, "fontWeight": "normal"}
    note = {"title": below} if "hollow" in data else {}
    with debug_mode(False):  # nothing is held against the schema here, which takes longer than all the rest: tests do that
        wide, narrow = (layout(pixels - margins, pixels == NARROW) | note for pixels in (WIDE, NARROW))
    return Drawing(rows, wide, narrow, role)
