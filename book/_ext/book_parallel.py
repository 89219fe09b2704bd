"""Pages are executed side by side, as many at once as the processors and the memory that a build may use allow.

Sphinx can read several documents at once, each in a process of its own, but Jupyter Book has no option for it. What a page
costs is its cells: while one runs on one processor, the others would be idle.
"""

import sphinx.builders

from tramplab.base.processes import capacity

PAGE = 650  # MB at most that a page takes (measured: up to 550 its kernel, 80 the process that reads it)
SPARE = 150  # MB for what the process that writes the pages still takes while they are read (measured: 110)


def setup(app):
    """Register with Sphinx how many pages are executed at once."""
    app.parallel = capacity.at_once(PAGE, SPARE)
    app.connect("env-updated", write_alone)
    one_document_per_task()
    # Always loaded by sphinx_external_toc, it says nothing of parallel reading, which Sphinx then refuses with a warning.
    # What it does, it does when all documents are read.
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True


def write_alone(app, env):
    """Have one process write all pages: that takes a second or two, and the book's extensions count on it."""
    app.parallel = 1


def one_document_per_task():
    """Have Sphinx give out documents one by one: if it divided them beforehand, a page of few cells would wait behind one of
    many."""
    sphinx.builders.make_chunks = lambda documents, *_: [[name] for name in documents]
