"""At the end of every page: how to cite it, in a mail and in a bibliography."""

from pathlib import Path

from tramplab.publish.cite import cite, permalinks


def setup(app):
    """Register with Sphinx the citation of a page."""
    app.connect("html-page-context", add_citation)


def add_citation(app, pagename, templatename, context, doctree):
    """A box with both forms; only in the book that has a list of permalinks, and only on pages that are listed."""
    if doctree is None or not (Path(app.srcdir) / "data" / permalinks.FILE).is_file():
        return
    chapter = permalinks.chapter(pagename)
    if chapter:
        text, entry = cite.place(chapter.id), cite.bibtex(chapter.id)
        context["body"] += cite.box(f"{text}\n{entry}", chapter.id, "Cite this page: mail, BibTeX")
