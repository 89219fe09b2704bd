"""Pages that fail, and warnings, are told; all pages are read before the build ends, so that each failing cell is known."""

import functools
import logging
import re
import sys
import time
import traceback
from pathlib import Path

import book_cells
import book_told
from myst_nb.core.execute.base import ExecutionError
from nbclient.exceptions import CellExecutionError, DeadKernelError
from sphinx.builders import Builder
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError
from sphinx.util.logging import NAMESPACE, WarningStreamHandler

FAILED = "book_failed"  # in a page's metadata, which come back from the process that reads it


class PagesFailed(SphinxError):
    """Some pages could not be read; what was wrong with each has been told."""

    category = "Pages failed"


def setup(app):
    """Register with Sphinx what tells of faults."""
    go_on_after_a_page_that_fails()
    app.connect("env-updated", stop, priority=0)
    for handler in logging.getLogger(NAMESPACE).handlers:
        if isinstance(handler, WarningStreamHandler):
            handler.addFilter(Told(Path(app.srcdir)))  # the last of its filters sees what is printed


def go_on_after_a_page_that_fails():
    """Have Sphinx read the other pages too, and note which failed."""
    original = Builder.read_doc

    @functools.wraps(original)
    def read_doc(self, docname, **kwargs):
        page = book_cells.name(self.env, docname)
        book_told.follow()
        book_told.tell("begun", page=page)
        try:
            original(self, docname, **kwargs)
        except Exception as e:
            show(e)
            if not isinstance(e, ExecutionError | DeadKernelError):  # there the cell has been told
                book_told.tell("page", page=page, **book_told.error(e))
            note(self.env, docname)
            self.env.temp_data.clear()
            self.env.ref_context.clear()
        book_told.tell("ended", page=page)

    merge = BuildEnvironment.merge_info_from

    @functools.wraps(merge)
    def merge_info_from(self, docnames, other, app):
        """Of a page that failed, what its process sends back is incomplete."""
        failed = {name for name in docnames if FAILED in other.metadata[name]}
        for name in failed:
            note(self, name)
        merge(self, set(docnames) - failed, other, app)

    Builder.read_doc = read_doc
    BuildEnvironment.merge_info_from = merge_info_from


def note(env, docname):
    """Mark a page as failed, and as read."""
    env.metadata[docname][FAILED] = True
    env.all_docs[docname] = time.time_ns() // 1000  # as Sphinx does of a page that was read


def show(e: Exception):
    """Print the error in full, a cell's as a notebook shows it."""
    cause = e.__cause__ if isinstance(e, ExecutionError) else e
    shown = [str(cause)] if isinstance(cause, CellExecutionError) else traceback.format_exception(e)
    print(*shown, sep="", file=sys.stderr, flush=True)


def stop(app, env):
    """A page without its labels and numbers would be followed by complaints of others that refer to them."""
    failed = sorted(name for name, metadata in env.metadata.items() if FAILED in metadata)
    if failed:
        raise PagesFailed(", ".join(failed))


class Told(logging.Filter):
    """Tells every warning, with its page and line, and lets it pass."""

    def __init__(self, folder: Path):
        super().__init__()
        self.folder = folder

    def filter(self, record) -> bool:
        """Tell a warning; it is always printed."""
        text = logging.LogRecord.getMessage(record)  # Sphinx's own adds the place
        if not text.startswith("stderr was found in the cell outputs"):  # there the cell has told what it printed
            place, line = re.fullmatch(r"(.*?)(?::(\d+))?", getattr(record, "location", None) or "", re.S).groups()
            page = place.removeprefix(f"{self.folder}/")
            book_told.tell("warning", page=page, line=line and int(line), sentence=text)
        return True
