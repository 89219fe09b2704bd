"""Everything that needs vl-convert: a chart as a static SVG, and the script that draws charts in a browser."""

from importlib.metadata import version as installed

import vl_convert

VL_VERSION = "6.4"  # the Vega-Lite schema Altair 6.3 writes; vl-convert ships several


def version() -> str:
    """Of what draws, and of the language that it reads."""
    return f"vl-convert {installed('vl-convert-python')}, Vega-Lite {VL_VERSION}"


def svg(spec: dict) -> str:
    """The chart as a static SVG, for readers without JavaScript and for print."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VL_VERSION)


def bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one classic script that sets `window.tramplabVega`.

    Wrapped in a function because it declares short top-level names.
    """
    code = vl_convert.javascript_bundle("window.tramplabVega = vegaEmbed;", vl_version=VL_VERSION)
    return f"(function () {{\n{code}\n}})();\n"
