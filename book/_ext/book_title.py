"""The title of the front page in a browser and in lists of search results: what the book is, before its name."""

import book_permalinks

from tramplab_book.publish.cite import edition


def setup(app):
    """Register with Sphinx the title of the front page."""
    app.connect("html-page-context", name)


def name(app, pagename, templatename, context, doctree):
    """Give the front page of the published book the words by which the book is cited; the theme adds the name."""
    if pagename == app.config.root_doc and book_permalinks.listed(app):
        words = edition.current().title.partition(": ")[2]
        context["title"] = words[:1].upper() + words[1:]
