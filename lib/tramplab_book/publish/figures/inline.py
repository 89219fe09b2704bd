"""Vega's SVG as it stands in a page: what is drawn, and what a screen reader and the tooltips of marks.js say of each mark.

Colours stay what the spec says, variables of the page and the colour of its text, so that a chart follows the theme. No element has
an id, so that charts of one page cannot clash.
"""

import re
import xml.etree.ElementTree as ET

SPACE = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_LENGTHS = ("d", "transform", "x", "y", "x1", "y1", "x2", "y2", "width", "height")
#: Attributes with the values that SVG has by default, or that the style sheet gives to all charts.
_USUAL = {
    ("opacity", "1"),
    ("stroke-width", "1"),
    ("font-weight", "normal"),
    ("font-family", "sans-serif"),
    ("pointer-events", "none"),
    ("stroke-miterlimit", "10"),  # with which the boxes that a browser computes are far larger than what is seen
    ("version", "1.1"),
}
#: Fonts as wide as the one that the picture was laid out with, if a reader has one of them.
FONTS = "Arial, Helvetica, Liberation Sans, sans-serif"
_ROLE = "aria-roledescription"
_LONG = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_NOWHERE = "translate(0,0)"


def inline(svg: str) -> str:
    """The SVG without groups and names of Vega's own, with lengths to a tenth of a pixel, and with links as the rows have them."""
    ET.register_namespace("", SPACE)
    root = ET.fromstring(svg)
    _reduce(root)
    root.set("font-family", FONTS)
    return ET.tostring(root, encoding="unicode")


def _reduce(element: ET.Element) -> None:
    """Reduce what is in an element, then its attributes. A group that says nothing gives its place to what is in it."""
    kept: list[ET.Element] = []
    for child in element:
        _reduce(child)
        bare = not child.attrib and not (child.text or "").strip()
        if child.tag == f"{{{SPACE}}}g" and (bare or not len(child)):
            kept += child
        elif not _unseen(child):
            kept.append(child)
    element[:] = kept
    element.attrib = dict(_attributes(element.attrib))


def _unseen(element: ET.Element) -> bool:
    """Is this the ground of a panel, which has no colour?"""
    return element.tag == f"{{{SPACE}}}path" and {"fill", "stroke", "aria-label"}.isdisjoint(element.keys())


def _attributes(given: dict[str, str]) -> list[tuple[str, str]]:
    """The attributes of an element that make a difference to a reader."""
    kept = []
    group = given.get("role") == "graphics-object"
    for name, value in given.items():
        if name == "class" or (name, value) in _USUAL or (group and name in ("role", _ROLE)):
            continue
        if name == _LINK:  # Vega completes it with an address of its own examples
            kept.append(("href", value[value.index("#") :]))
        elif name in _LENGTHS:
            short = _LONG.sub(_shorter, value)
            kept += [] if short == _NOWHERE else [(name, short)]
        else:
            kept.append((name, _LONG.sub(_rounded, value) if name == "aria-label" and given.get(_ROLE) == "axis" else value))
    return kept


def _rounded(number: re.Match) -> str:
    return f"{float(number[0]):.3g}"


def _shorter(number: re.Match) -> str:
    short = f"{float(number[0]):.1f}".removesuffix(".0")
    return "0" if short == "-0" else short
