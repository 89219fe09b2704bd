"""Everything that needs vl-convert: a chart as a static SVG."""

from importlib.metadata import version as installed

import vl_convert

VL_VERSION = "6.4"  # the Vega-Lite schema Altair 6.3 writes; vl-convert ships several


def version() -> str:
    """The versions of the program that draws, and of the language that it reads."""
    return f"vl-convert {installed('vl-convert-python')}, Vega-Lite {VL_VERSION}"


def svg(spec: dict) -> str:
    """A Vega-Lite spec with its data as Vega's SVG, of which a page needs a part: see inline.py."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VL_VERSION)
