"""Which edition a page belongs to: a line at its end, and a file for `make site`."""

import html
from pathlib import Path

import book_permalinks

from tramplab_book.publish import editions, site
from tramplab_book.publish.cite import edition


def setup(app):
    """Register with Sphinx the edition."""
    app.connect("html-page-context", add_line)
    app.connect("build-finished", write_edition)


def add_line(app, pagename, templatename, context, doctree):
    """Say the edition on every page of the published book; `make site` adds what it is beside others."""
    if doctree is not None and book_permalinks.listed(app):
        context["body"] += site.line(html.escape(str(edition.current()).capitalize()))


def write_edition(app, exception):
    """Write the file that `make site` reads."""
    if exception is None and app.builder.format == "html" and book_permalinks.listed(app):
        editions.write_edition(Path(app.outdir), edition.current())
