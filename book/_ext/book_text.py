"""One repair for the book as plain text."""

from sphinx.addnodes import number_reference


def setup(app):
    app.connect("doctree-resolved", number_references)


def number_references(app, doctree, docname):
    """Sphinx's text writer prints a {numref} as its unfilled template, "Fig. %s"; give it the finished words."""
    if app.builder.format == "text":
        for node in doctree.findall(number_reference):
            node["title"] = node.astext()
