"""Files the cells write beside their page, and the charts that are drawn from some of them."""

import os
from pathlib import Path

from tramplab_book.publish.figures import picture
from tramplab_book.publish.figures.files import FOLDER


def setup(app):
    """Register with Sphinx the folder that cells write files into."""
    # Cells write CSV, JSON and specs of charts straight into the output, where the pages link to them. All pages are in book/.
    folder = Path(app.outdir) / "book" / "_gen"
    os.environ[FOLDER] = str(folder)
    app.connect("build-finished", write_charts)


def write_charts(app, exception):
    """Draw all charts, and put each into its page. No spec and no drawing stays beside them, also where there are no pages, as in
    a text."""
    folder = Path(os.environ[FOLDER])
    if exception is None and app.builder.format == "html" and picture.draw_all(folder):
        drawn = {path.stem: path.read_text("utf-8") for path in folder.glob(f"*{picture.SVG}")}
        for path in folder.parent.glob("*.html"):
            page = path.read_text("utf-8")
            path.write_text(picture.placed(page, drawn.__getitem__), "utf-8")
    for made in [*folder.glob(f"*{picture.SPEC}"), *folder.glob(f"*{picture.SVG}")]:
        made.unlink()
