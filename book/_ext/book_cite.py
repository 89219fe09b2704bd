"""At the end of every page: how to cite it, in a mail and in a bibliography."""

from pathlib import PurePosixPath

import book_permalinks
from sphinx.util import logging

from tramplab_book.publish.cite import cite, edition

logger = logging.getLogger(__name__)


def setup(app):
    """Register with Sphinx the citation of a page."""
    app.connect("builder-inited", say_where)
    app.connect("html-page-context", add_citation)


def say_where(app):
    """Say once why citations have no links, while nobody knows the commit or has said where the book is published."""
    now = edition.current()
    if not book_permalinks.listed(app) or now.published:
        return
    if why := edition.why_unknown():
        logger.info("citations have no commit and no link: %s", why)
    elif not now.clean:
        logger.info("citations have no link: what is built is not what %s has", now.of.removesuffix(edition.DIRTY))
    else:
        logger.info("citations have the commit and no link: %s, the url in CITATION.cff, is an example", now.base_url)


def add_citation(app, pagename, templatename, context, doctree):
    """Add a box with both forms; only in the book that has a list of permalinks, and only on pages that are listed. On a page that
    says something in short, the mail is taken from there: to compute it again would take all of the book's studies."""
    chapter = book_permalinks.chapter(app, pagename) if doctree else None
    if chapter:
        text = cite.boxed(context["body"], PurePosixPath(pagename).name) or cite.place(chapter.id)
        context["body"] += cite.box(f"{text}\n{cite.bibtex(chapter.id)}", chapter.id, "Cite this page: mail, BibTeX")
