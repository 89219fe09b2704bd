"""At the end of every page: how to cite it, in a mail and in a bibliography."""

from pathlib import Path, PurePosixPath

from sphinx.util import logging

from tramplab.publish.cite import cite, edition, permalinks
from tramplab.studies import short

logger = logging.getLogger(__name__)


def setup(app):
    """Register with Sphinx the citation of a page."""
    app.connect("builder-inited", say_where)
    app.connect("html-page-context", add_citation)


def listed(app) -> bool:
    """Whether the book has a list of permalinks."""
    return (Path(app.srcdir) / "data" / permalinks.FILE).is_file()


def say_where(app):
    """Say once why citations have no links, while nobody has said where the book is published."""
    if listed(app) and not edition.current().published:
        message = "citations have the commit and no link: %s, the url in CITATION.cff, is an example"
        logger.info(message, edition.current().base_url)


def add_citation(app, pagename, templatename, context, doctree):
    """A box with both forms; only in the book that has a list of permalinks, and only on pages that are listed."""
    if doctree is None or not listed(app):
        return
    chapter = permalinks.chapter(pagename)
    if chapter:
        page = PurePosixPath(pagename).name
        text = short.citation(page) if short.of(page) else cite.place(chapter.id)
        context["body"] += cite.box(f"{text}\n{cite.bibtex(chapter.id)}", chapter.id, "Cite this page: mail, BibTeX")
