"""The executed notebook of every page with cells, beside it. What it shows was computed in this build."""

from pathlib import Path

import book_permalinks
import nbformat

from tramplab.publish.cite import edition, permalinks

SHOWN = ("text/plain", "image/")  # HTML outputs refer to files beside the page, which a downloaded notebook has not
COLLAPSED = {"hide-input": "source_hidden", "hide-output": "outputs_hidden"}  # tag -> what JupyterLab calls it
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def setup(app):
    """Register with Sphinx what writes pages as notebooks."""
    app.connect("build-finished", write_notebooks)


def executed(app, docname: str) -> Path:
    """Where the run of a page is kept during the build; absent for a page without cells."""
    return Path(app.outdir).parent / "jupyter_execute" / f"{docname}.ipynb"


def write_notebooks(app, exception):
    """Write them into the HTML output."""
    if exception or app.builder.name != "html":
        return
    for docname in sorted(app.env.found_docs):
        if executed(app, docname).is_file():
            notebook = published(nbformat.read(executed(app, docname), as_version=4), introduction(app, docname))
            nbformat.validate(notebook)
            nbformat.write(notebook, Path(app.outdir) / f"{docname}.ipynb")


def introduction(app, docname: str) -> str:
    """What a reader who has only the file must know."""
    link, text = book_permalinks.chapter(app, docname), ""
    if link is not None:
        book = edition.current().title.partition(":")[0]
        page = f" The page: <{permalinks.link(link.id)}>" if edition.current().published else ""
        text = f"{book}, {edition.current()}.{page}\n\n"
    return text + (
        "To run it, install the package from a checkout of the book at that commit: `make lab` does, and opens the "
        "same pages; or `pip install -e lib`. Outputs are kept as text; run a cell to see its chart. The text is MyST "
        "Markdown."
    )


def published(notebook: nbformat.NotebookNode, introduction: str) -> nbformat.NotebookNode:
    """The notebook without what differs from run to run or from machine to machine."""
    cells = [nbformat.v4.new_markdown_cell(introduction), *notebook.cells]
    for number, cell in enumerate(cells):
        tags = cell.metadata.get("tags", [])
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)  # times
        hidden = {COLLAPSED[tag]: True for tag in tags if tag in COLLAPSED}
        if hidden:
            cell.metadata["jupyter"] = hidden
        for output in cell.get("outputs", []):
            if "data" in output:
                output.data = {kind: data for kind, data in output.data.items() if kind.startswith(SHOWN)}
                output.metadata = {}
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
