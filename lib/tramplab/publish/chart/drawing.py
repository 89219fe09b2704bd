"""A finished chart: rows and a Vega-Lite spec for each layout."""

import re
from dataclasses import dataclass

from tramplab.publish import vega

TEXT = "#333333"  # text and axes in a static SVG; on a page they have the colour of the text around them

_TAG = re.compile(r"<[^>]*>")
_SPOKEN = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
_LENGTHS = re.compile(r' (?:d|transform|[xy][12]?|width|height)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{2,}")


@dataclass(frozen=True)
class Drawing:
    """A chart ready for a page.

    rows: what is shown, in JSON's types; every row is one mark. wide, narrow: a Vega-Lite spec for each layout, whose
    data set `rows` is still to be added. role: what assistive technology calls such a mark.
    """

    rows: list[dict]
    wide: dict
    narrow: dict
    role: str = "bar"

    def svg(self, layout: str = "wide") -> str:
        """A static SVG of one layout, with the colours of a light page."""
        spec = {**getattr(self, layout), "datasets": {"rows": self.rows}}
        text = vega.svg(spec).replace("currentColor", TEXT)
        return re.sub(r"var\(--[\w-]+, *(#[0-9a-f]{6})\)", r"\1", text)

    def picture(self, layout: str = "wide") -> str:
        """The same for an image file, about half as large when compressed: without words for assistive technology, which
        does not look into images, and with lengths to a tenth of a pixel."""
        return _TAG.sub(lambda tag: _LENGTHS.sub(_shorter, _SPOKEN.sub("", tag[0])), self.svg(layout))


def _shorter(attribute: re.Match) -> str:
    return _LONG.sub(lambda number: f"{float(number[0]):.1f}", attribute[0])
