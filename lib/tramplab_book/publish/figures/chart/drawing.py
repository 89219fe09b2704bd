"""A finished chart: rows and a Vega-Lite spec for each layout."""

from dataclasses import dataclass

from .. import picture


@dataclass(frozen=True)
class Drawing:
    """A chart ready for a page.

    rows: what is shown, in JSON's types; every row is one mark.
    wide, narrow: a Vega-Lite spec for each layout, to which the data set `rows` is still to be added.
    role: what assistive technology calls such a mark.
    """

    rows: list[dict]
    wide: dict
    narrow: dict
    role: str = "bar"

    def spec(self, layout: str = "wide") -> dict:
        """The Vega-Lite spec of one layout with the rows."""
        return {**getattr(self, layout), "datasets": {"rows": self.rows}}

    def svg(self, layout: str = "wide") -> str:
        """The SVG of one layout, as it stands in a page."""
        return picture.svg(self.spec(layout))
