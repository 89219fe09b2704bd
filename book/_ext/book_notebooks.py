"""The executed notebook of every page with cells, beside it. What it shows was computed in this build."""

import ast
import json
import re
from pathlib import Path

import book_permalinks
import nbformat

from tramplab_book.publish.cite import edition, permalinks

SHOWN = ("text/plain", "image/")  # HTML outputs refer to files beside the page, which a downloaded notebook has not
COLLAPSED = {"hide-input": "source_hidden", "hide-output": "outputs_hidden"}  # tag -> what JupyterLab calls it
TARGET = re.compile(r"^\[([^\]\n^]+)\]: (\S+)$\n?", re.M)  # of no footnote
LABEL = re.compile(r"^\([\w-]+\)=\n", re.M)
ROLE = re.compile(r"\{([\w:]+)\}`([^`<]+?)(?:\s*<([^`>]+)>)?`")
#: The command that installs what a notebook needs, in the book's versions: another compiler makes a guest with other counts.
INSTALL = "make .venv/lab"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def setup(app):
    """Register with Sphinx what writes pages as notebooks."""
    app.connect("build-finished", write_notebooks)


def executed(app, docname: str) -> Path:
    """The file with the run of a page during the build; absent for a page without cells."""
    return Path(app.outdir).parent / "jupyter_execute" / f"{docname}.ipynb"


def write_notebooks(app, exception):
    """Write the notebooks into the HTML output."""
    if exception or app.builder.name != "html":
        return
    for docname in sorted(app.env.found_docs):
        if executed(app, docname).is_file():
            numbers = glued(executed(app, docname))
            notebook = published(nbformat.read(executed(app, docname), as_version=4), introduction(app, docname), numbers)
            texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
            targets = dict(TARGET.findall("\n\n".join(cell.source for cell in texts)))
            for cell in texts:
                cell.source = readable(cell.source, numbers, targets)
            nbformat.validate(notebook)
            nbformat.write(notebook, Path(app.outdir) / f"{docname}.ipynb")


def glued(path: Path) -> dict[str, str]:
    """The numbers of an executed page's sentences by name; myst-nb takes them out of the notebook and writes them beside it."""
    beside = path.with_name(f"{path.stem}.glue.json")
    outputs = json.loads(beside.read_text("utf-8")) if beside.is_file() else {}
    return {name: plain(output["data"].get("text/plain", "")) for name, output in outputs.items()}


def plain(shown: str) -> str:
    """A value as a sentence has it: text without its quotes."""
    return str(ast.literal_eval(shown)) if shown[:1] in ("'", '"') else shown


def readable(text: str, numbers: dict[str, str], targets: dict[str, str]) -> str:
    """A page's text as any Markdown viewer shows it: numbers in place of their roles, no labels, references as their words, and the
    targets of links, which a page has at its end, in the cell where the links are."""

    def words(role: re.Match) -> str:
        kind, content, _ = role.groups()
        return numbers.get(content, role[0]) if kind == "glue:text" else content

    text = ROLE.sub(words, LABEL.sub("", TARGET.sub("", text))).replace("){.external}", ")").rstrip()
    used = "".join(f"\n[{name}]: {target}" for name, target in targets.items() if f"[{name}]" in text)
    return f"{text}\n{used}" if used else text


def introduction(app, docname: str) -> str:
    """The text for a reader who has only the file. Its one block of code is the command that makes what the notebook needs."""
    link, text, command = book_permalinks.chapter(app, docname), "", INSTALL
    if link is not None:
        now = edition.current()
        page = f" The page: <{permalinks.link(link.id)}>" if now.published else ""
        text = f"{now.title.partition(':')[0]}, {now}.{page}\n\n"
        command = f"git checkout {now.commit} && {INSTALL}" if now.clean else INSTALL
    return text + (
        f"To run it, type this in a clone of the book, with Python 3.11 or newer:\n\n```sh\n{command}\n```\n\n"
        "Then `.venv/bin/jupyter lab` opens it; an editor takes the kernel in `.venv`. Outputs are kept as text; run a cell to see "
        "its chart. The numbers in the text are those of the build; the cells that make them print them by name."
    )


def published(notebook: nbformat.NotebookNode, introduction: str, numbers: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook without what differs from run to run or from machine to machine, with the roles of the numbers in its text."""
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
    roles = [f"{{glue:text}}`{name}`" for name in sorted(numbers)]
    return nbformat.v4.new_notebook(cells=cells, metadata={**METADATA, "tramplab": {"roles": roles}})
