"""The colours of charts: declared once for each theme, readable, and different for every eye."""

import itertools
import json
import re

import pytest

from support import ROOT
from support.publish.charts import both_layouts, every_kind, example
from support.publish.svg import marks, texts
from tramplab.base.errors import TramplabError
from tramplab_book.publish.figures import vega
from tramplab_book.publish.figures.chart import theme


def declared() -> dict[str, dict[str, str]]:
    """The variables that the page's style sheets declare, by theme."""
    css = "".join(path.read_text("utf-8") for path in sorted((ROOT / "book" / "_static").glob("*.css")))
    themes = {"light": r":root", "dark": r'html\[data-theme="dark"\]'}
    blocks = {name: "".join(re.findall(rf"^{start} \{{(.*?)\}}", css, re.M | re.S)) for name, start in themes.items()}
    found = {name: dict(re.findall(r"(--tl-[\w-]+): (#[0-9a-f]{6});", block)) for name, block in blocks.items()}
    return {"light": found["light"], "dark": found["light"] | found["dark"]}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_the_accessibility_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@every_kind
def test_every_colour_is_declared_with_the_same_light_value(kind):
    drawing = example(kind)
    used = dict(re.findall(r"var\((--tl-[\w-]+), (#[0-9a-f]{6})\)", json.dumps([drawing.wide, drawing.narrow])))
    assert used and used.items() <= declared()["light"].items()


@pytest.mark.parametrize("page", ["light", "dark"])
@pytest.mark.parametrize("kind", ["heat", "heat, rows", "heat, letters", "strip"])
@both_layouts
def test_text_in_cells_can_be_read(kind, layout, page):
    drawing, values = example(kind), declared()[page]
    spec = re.sub(r"var\((--tl-[\w-]+), [^)]*\)", lambda m: values[m[1]], json.dumps(getattr(drawing, layout)))
    svg = vega.svg({**json.loads(spec), "datasets": {"rows": drawing.rows}})
    printed = texts(svg)
    checked = 0
    for mark in marks(svg, drawing.role):
        left, top, right, bottom = mark.rectangle()
        for text in printed:
            if left < text.x < right and top < text.y < bottom and mark.get("fill"):
                assert contrast(mark.get("fill"), text.get("fill")) >= 4.5, text.text
                checked += 1
    assert checked >= len(drawing.rows) / 3


@pytest.mark.parametrize("page, ground", [("light", "#ffffff"), ("dark", "#14181e")])
def test_lines_and_bars_stand_out_from_the_page(page, ground):
    names = [f"--tl-series-{n}" for n in range(1, 7)] + ["--tl-total", "--tl-rise", "--tl-fall"]
    assert min(contrast(declared()[page][name], ground) for name in names) >= 3


# How a colour looks to those without one kind of cone (Machado, Oliveira and Fernandes 2009), in linear RGB.
SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "no green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "no blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}


def lab(colour: str, sight: str) -> tuple[float, ...]:
    """CIE L*a*b*, in which distances are about as large as they look."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    r, g, b = (min(1, max(0, sum(w * c for w, c in zip(row, linear, strict=True)))) for row in SIGHTS[sight])
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(a: str, b: str, sight: str) -> float:
    return sum((p - q) ** 2 for p, q in zip(lab(a, sight), lab(b, sight), strict=True)) ** 0.5


GROUPS = {
    "series": [f"series-{n}" for n in range(1, 7)],
    "kinds": [f"kind-{n}" for n in range(1, 6)],
    "meanings": ["right", "wrong", "noticed", "one", "two"],
    "parts": ["site", "trampoline", "core", "probe", "guards", "exception", "callback"],
    "parts of an fprobe": ["trampoline", "core", "probe", "graph", "hook", "exception"],
    "parts of the text": ["kretprobe", "hook", "probe", "graph", "kind-1"],
}


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("page", ["light", "dark"])
@pytest.mark.parametrize("group", GROUPS)
def test_colours_differ_for_every_eye(group, page, sight):
    colours = [declared()[page][f"--tl-{name}"] for name in GROUPS[group]]
    least = 15 if "parts" not in group else 10
    assert min(distance(a, b, sight) for a, b in itertools.combinations(colours, 2)) > least


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("page, direction", [("light", -1), ("dark", 1)])
def test_the_ramp_leaves_the_page_step_by_step(page, direction, sight):
    lightness = [lab(declared()[page][f"--tl-heat-{n}"], sight)[0] * direction for n in range(1, 7)]
    assert all(b - a > 5 for a, b in itertools.pairwise(lightness))


def test_no_two_parts_of_a_bar_have_the_same_colour():
    """Parts of a call have their own; up to five other things get colours that differ; more are refused."""
    for parts in (["a", "b"], ["a", "b", "c", "d", "e"], ["site", "core", *"abcde"]):
        assert len({theme.colour(part, parts) for part in parts}) == len(parts)
    for parts in (list("abcdef"), ["fprobe", "fprobe, return hook"]):
        with pytest.raises(TramplabError, match="draw fewer parts"):
            theme.colour(parts[0], parts)
