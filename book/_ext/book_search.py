"""What the machine that builds the book has measured is not searched for: the index is the same for every build of a commit."""

import functools

from docutils import nodes
from sphinx.search import IndexBuilder

from tramplab.publish.figures.files import OWN


def setup(app):
    """Register with Sphinx what is left out of the search index."""
    original = IndexBuilder.feed

    @functools.wraps(original)
    def feed(self, docname, filename, title, doctree):
        original(self, docname, filename, title, without_own(doctree))

    IndexBuilder.feed = feed


def without_own(doctree: nodes.document) -> nodes.document:
    """A page without the figures of the machine's own times."""
    copy = doctree.deepcopy()
    for node in list(copy.findall(nodes.raw)):
        if f'class="{OWN}"' in node.astext():
            node.parent.remove(node)
    return copy
