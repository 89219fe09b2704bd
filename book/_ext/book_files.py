"""Files the cells write beside their page, and the script that draws charts from them."""

import json
import os
from pathlib import Path

from tramplab.publish import vega
from tramplab.publish.chart import panels
from tramplab.publish.files import FOLDER


def setup(app):
    # Cells write CSV, JSON and SVG straight into the output, where the pages link to them. All pages are in book/.
    folder = Path(app.outdir) / "book" / "_gen"
    os.environ[FOLDER] = str(folder)
    app.connect("build-finished", write_bundle)


def write_bundle(app, exception):
    """One Vega bundle for the whole book, made from the installed wheel, with the settings that all charts share: book.js loads
    it on pages with a chart."""
    charts = any(Path(os.environ[FOLDER]).glob("*.svg"))
    if exception is None and app.builder.format == "html" and charts:
        settings = f"window.tramplabChart = {json.dumps(panels.shared())};\n"
        (Path(app.outdir) / "_static" / "vega-bundle.js").write_text(vega.bundle() + settings, "utf-8")
