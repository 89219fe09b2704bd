"""An error in a page ends the build with the page's name; one in a cell also with the cell and its traceback."""

from pathlib import Path

from myst_nb.core.execute.base import ExecutionError
from sphinx.errors import SphinxError


class PageFailed(SphinxError):
    """Raised where a page could not be read."""

    category = "Page failed"


def setup(app):
    """Register with Sphinx what names the page."""
    app.connect("builder-inited", name_pages)


def name_pages(app):
    """Put the page's name into the message of an exception: where pages are read in parallel, Sphinx prints nothing else of it."""
    read = app.builder.read_doc

    def read_doc(docname, **kwargs):
        try:
            read(docname, **kwargs)
        except Exception as e:
            page = Path(app.env.doc2path(docname)).relative_to(app.srcdir)
            cause = e.__cause__ if isinstance(e, ExecutionError) else e
            raise PageFailed(f"{page}: {type(cause).__name__}: {cause}") from e

    app.builder.read_doc = read_doc
