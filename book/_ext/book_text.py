"""The text twin: chapter.txt beside every chapter.html, from the same run, with no line longer than a mail's."""

import book_permalinks
from sphinx.util import logging
from text_writer import WIDTH, Translator, address

from tramplab_book.publish.cite import edition, permalinks

logger = logging.getLogger(__name__)


def setup(app):
    """Register with Sphinx the text twins of pages."""
    # After the theme, which mixes its HTML into every translator that it finds registered.
    app.connect("builder-inited", lambda app: app.set_translator("text", Twin), priority=900)
    app.connect("config-inited", same_quotes)
    app.connect("build-finished", write_twins)


def same_quotes(app, config):
    """Have quotes curled in both forms, as pages are read once for HTML and text; the text's writer straightens them."""
    config.smartquotes_excludes = {**config.smartquotes_excludes, "builders": []}


class Twin(Translator):
    """A page as text, under a head that says what it is. A line that is too long is not cut: it fails the build."""

    def depart_document(self, node):
        """Put the head on, and report lines that are too long."""
        super().depart_document(node)
        docname = self.builder.current_docname
        self.body = head(self.builder.app, docname) + self.body.strip("\n") + "\n"
        for number, line in enumerate(self.body.splitlines(), 1):
            if len(line) > WIDTH:
                message = "line %d of %s.txt has %d columns, the limit is %d: %s"
                logger.warning(message, number, docname, len(line), WIDTH, line.strip(), location=docname)


def head(app, docname) -> str:
    """The head of a page's text: its title, edition and address; nothing in a book without permalinks."""
    link = book_permalinks.chapter(app, docname)
    if link is None:
        return ""
    book, title = edition.current().title.partition(":")[0], app.env.titles[docname].astext()
    title = f"{book}: {title}" if title != book else book
    lines = [f"Title: {title}", f"Book:  {edition.current()}"]
    lines += address("Link:  ", permalinks.link(link.id)) if edition.current().published else []
    return "\n".join(lines) + "\n\n\n"


def write_twins(app, exception):
    """Write the text of all pages into the HTML output; nothing is read or executed again."""
    if exception or app.builder.name != "html":
        return
    for bibliography in app.env.get_domain("cite").bibliographies.values():
        for entry in bibliography.citation_nodes.values():
            entry.clear()  # sphinxcontrib-bibtex keeps them and adds their text each time a page is resolved
    html, text = app.builder, app.registry.create_builder(app, "text", app.env)
    app.builder = text  # it decides what references and the outputs of cells resolve to
    try:
        text.init()
        text.prepare_writing(set())
        for docname in sorted(app.env.found_docs):
            text.write_doc(docname, app.env.get_and_resolve_doctree(docname, text))
    finally:
        app.builder = html
