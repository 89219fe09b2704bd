"""Files the cells write beside their page, and the script that draws charts from them."""

import os
from pathlib import Path

from tramplab.publish import vega
from tramplab.publish.files import FOLDER


def setup(app):
    # Cells write CSV, JSON and SVG straight into the output, where the pages link to them. All pages are in book/.
    folder = Path(app.outdir) / "book" / "_gen"
    os.environ[FOLDER] = str(folder)
    app.connect("build-finished", write_bundle)


def write_bundle(app, exception):
    """One Vega bundle for the whole book, made from the installed wheel: book.js loads it on pages with a chart."""
    charts = any(Path(os.environ[FOLDER]).glob("*.svg"))
    if exception is None and app.builder.format == "html" and charts:
        (Path(app.outdir) / "_static" / "vega-bundle.js").write_text(vega.bundle(), "utf-8")
