"""Files the cells write beside their page, and the script that draws charts from them."""

import json
import os
from pathlib import Path

from tramplab.publish.figures import picture
from tramplab.publish.figures.files import FOLDER


def setup(app):
    """Register with Sphinx the folder that cells write files into."""
    # Cells write CSV, JSON and specs of charts straight into the output, where the pages link to them. All pages are in book/.
    folder = Path(app.outdir) / "book" / "_gen"
    os.environ[FOLDER] = str(folder)
    app.connect("build-finished", write_charts)


def write_charts(app, exception):
    """The pictures of all charts, and one Vega bundle for the whole book, made from the installed wheel, with the settings that
    all charts share: book.js loads it on pages with a chart. No spec stays, also where there are no charts, as in a text."""
    folder = Path(os.environ[FOLDER])
    if exception is None and app.builder.format == "html" and picture.draw_all(folder):
        from tramplab.publish.figures.chart import panels  # a book without charts is built without what draws them

        settings = f"window.tramplabChart = {json.dumps(panels.shared())};\n"
        (Path(app.outdir) / "_static" / "vega-bundle.js").write_text(picture.bundle() + settings, "utf-8")
    for spec in folder.glob(f"*{picture.SPEC}"):
        spec.unlink()
