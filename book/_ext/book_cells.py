"""Cells while they are executed: where each stands in its page, and what is told of one that fails."""

import functools
import os
from pathlib import Path

import book_patience
import book_told
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from tramplab.publish.quoted import PAGE

_page = {}  # "name" and "lines" of the one that this process is reading


def setup(app):
    """Register with Sphinx what follows the execution of cells."""
    app.connect("source-read", note_page, priority=0)
    around_each_cell()


def note_page(app, docname, source):
    """Remember the page that is read, for the places of its cells, and name it to the kernel that runs them."""
    _page.update(name=name(app.env, docname), lines=source[0].splitlines())
    os.environ[PAGE] = app.env.doc2path(docname)


def name(env, docname: str) -> str:
    """A page as a path from the book's folder."""
    return Path(env.doc2path(docname)).relative_to(env.srcdir).as_posix()


def place(notebook, index: int) -> dict:
    """The page, and the first line of a cell's code with its number in the page."""
    code = notebook.cells[index].source.splitlines()
    fence = notebook.metadata["source_map"][index]  # counted from 0, as the lines are; a cell's options come before its code
    starts = range(fence + 1, len(_page["lines"]) - len(code) + 1)
    start = next((n for n in starts if _page["lines"][n : n + len(code)] == code), fence)  # else it is from another file
    first = next(n for n, line in enumerate(code) if line.strip())
    return {"page": _page["name"], "line": start + first + 1, "cell": code[first].strip()}


def around_each_cell():
    """Have nbclient tell where a cell fails, prints an error, or takes long."""
    original = NotebookClient.async_execute_cell

    @functools.wraps(original)
    async def execute(self, cell, cell_index, *args, **kwargs):
        if cell.cell_type != "code" or not cell.source.strip():
            return await original(self, cell, cell_index, *args, **kwargs)
        where = place(self.nb, cell_index)
        try:
            with book_patience.spoken_of(where):
                done = await original(self, cell, cell_index, *args, **kwargs)
        except CellExecutionError as e:
            book_told.tell("cell", **where, name=e.ename, sentence=e.evalue)
            raise
        except DeadKernelError:
            status = getattr(self.km.provisioner.process, "returncode", None)
            book_told.tell("kernel", **where, end=book_told.how_it_ended(status))
            raise
        printed = "".join(o["text"] for o in done.get("outputs", []) if o.get("name") == "stderr")
        if printed and "remove-stderr" not in cell.metadata.get("tags", []):
            book_told.tell("stderr", **where, sentence=printed)
        return done

    NotebookClient.async_execute_cell = execute
