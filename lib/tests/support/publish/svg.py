"""What the SVG of a chart shows: marks, texts and where they are; and what Vega-Lite's schema has against a spec."""

import functools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass

import jsonschema_rs
from altair.vegalite.v6.schema import load_schema


@dataclass
class Seen:
    """An element of an SVG and where its origin is, in pixels from the top left."""

    element: ET.Element
    x: float
    y: float
    upright: bool = False  # turned by 90 degrees

    def get(self, name: str) -> str:
        return self.element.get(name, "")

    @property
    def text(self) -> str:
        return self.element.text or ""

    def rectangle(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of a path that draws a rectangle."""
        x, y, width, height = map(float, re.match(r"M(.+?),(.+?)h(.+?)v(.+?)h", self.get("d")).groups())
        return self.x + x, self.y + y, self.x + x + width, self.y + y + height


def elements(svg: str) -> list[Seen]:
    """Everything visible in the SVG, in drawing order."""

    def walk(element: ET.Element, x: float, y: float) -> Iterator[Seen]:
        upright = False
        for name, numbers in re.findall(r"(\w+)\(([^)]+)\)", element.get("transform", "")):
            if name == "rotate":
                assert numbers == "270"
                upright = True
            else:
                dx, dy = map(float, numbers.split(","))
                x, y = (x + dy, y - dx) if upright else (x + dx, y + dy)
        if element.get("opacity") != "0":
            yield Seen(element, x, y, upright)
        for child in element:
            yield from walk(child, x, y)

    return list(walk(ET.fromstring(svg), 0, 0))


def marks(svg: str, role: str) -> list[Seen]:
    return [seen for seen in elements(svg) if seen.get("aria-roledescription") == role]


def texts(svg: str) -> list[Seen]:
    """All lines of text; those of one text element each where they are."""
    found = []
    for seen in elements(svg):
        if seen.element.tag.endswith("}text"):
            parts = list(seen.element)
            for n, part in enumerate(parts):
                found.append(Seen(part, seen.x, seen.y + n * float(parts[1].get("dy")), seen.upright))
                part.attrib = {**seen.element.attrib, **part.attrib}
            found += [seen] if not parts else []
    return found


def box(text: Seen, character: float = 6.0) -> tuple[float, float, float, float]:
    """About what a text covers, in a font wider than most."""
    width = character * len(text.text)
    left = {"start": 0, "middle": -width / 2, "end": -width}[text.get("text-anchor")]
    if text.upright:
        return text.x - 9, text.y - left - width, text.x, text.y - left
    return text.x + left, text.y - 9, text.x + left + width, text.y


def overlap(a: tuple, b: tuple) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@functools.cache
def _schema() -> jsonschema_rs.Draft7Validator:
    """With numbers for names of definitions, of which many are none that a reference may have as it is."""
    schema = load_schema()
    numbers = {f"#/definitions/{name}": f"#/definitions/{n}" for n, name in enumerate(schema["definitions"])}
    schema["definitions"] = dict(zip(map(str, range(len(numbers))), schema["definitions"].values(), strict=True))

    def renamed(part: dict) -> dict:
        return {**part, "$ref": numbers[part["$ref"]]} if "$ref" in part else part

    return jsonschema_rs.Draft7Validator(json.loads(json.dumps(schema), object_hook=renamed))


def faults(spec: dict) -> list[str]:
    """What Vega-Lite's schema has against a spec."""
    return [error.message for error in _schema().iter_errors(spec)]
