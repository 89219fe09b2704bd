"""Rows as a chart: one theme and a handful of kinds, each a panel per ISA. The only package that imports Altair.

A kind is a function of the columns to show and returns a function from rows to a Drawing. A drawing has two layouts of
the same marks, one for a page and one for a phone. Every row is exactly one mark; labels, connecting lines and totals
are decoration, which a screen reader passes over.
"""

import sys

# jsonschema, on which Altair rests, imports rfc3987_syntax where that is installed (JupyterLab brings it), and building its
# grammars takes longer than all the rest. No chart needs them, so here it is not found.
if "rfc3987_syntax" not in sys.modules:
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # documented: an import of it fails
    import altair  # noqa: F401

    del sys.modules["rfc3987_syntax"]

from .drawing import Drawing
from .kinds.bars import stacked_bars
from .kinds.dumbbell import dumbbell
from .kinds.flame import flame
from .kinds.heat import heat_map
from .kinds.lines import lines
from .kinds.scatter import scatter
from .kinds.steps import steps
from .kinds.strip import state_strip
from .kinds.waterfall import waterfall
from .theme import COLOURS, NARROW, WIDE, colour

__all__ = [
    "COLOURS",
    "NARROW",
    "WIDE",
    "Drawing",
    "colour",
    "dumbbell",
    "flame",
    "heat_map",
    "lines",
    "scatter",
    "stacked_bars",
    "state_strip",
    "steps",
    "waterfall",
]
