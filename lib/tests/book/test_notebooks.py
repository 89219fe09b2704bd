"""The notebook of each page: valid, the same in every build, and it runs where only the package is installed."""

import json
import re
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from support import ROOT
from support.browser import PAGES
from tramplab.publish.editions import read_edition

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_notebooks

WITH_CELLS = [page for page in PAGES if "{code-cell}" in (ROOT / f"{page}.md").read_text("utf-8")]


def outputs(notebook) -> list[str]:
    """The text that each code cell shows."""
    return [
        "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs).strip()
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_pages_with_cells_have_notebooks_and_others_have_none(site):
    assert WITH_CELLS
    assert [page for page in PAGES if (site / f"{page}.ipynb").exists()] == WITH_CELLS


@pytest.mark.parametrize("page", WITH_CELLS)
def test_notebook_is_valid_executed_and_names_no_machine(site, page):
    text = (site / f"{page}.ipynb").read_text("utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert any(outputs(notebook)) or "show(" not in (ROOT / f"{page}.md").read_text("utf-8")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [cell.id for cell in notebook.cells] == [f"cell-{i}" for i in range(len(notebook.cells))]
    for word in (str(ROOT), str(site), "_gen/", "text/html", '"execution"', "<div"):
        assert word not in text
    assert str(read_edition(site)) in notebook.cells[0].source


def test_a_notebook_runs_from_an_empty_folder_and_shows_the_same(site, tmp_path, monkeypatch):
    monkeypatch.delenv("TRAMPLAB_GEN", raising=False)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # a warning of the debugger on stderr
    path = site / f"{WITH_CELLS[0]}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    before = outputs(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(
        notebook, timeout=300, shutdown_kernel="immediate", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert outputs(notebook) == before and any(before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", WITH_CELLS)
def test_the_text_of_a_notebook_has_its_numbers_and_no_roles(site, page):
    """JupyterLab shows a role as it is written. The numbers are those of the text twin."""
    notebook = nbformat.read(site / f"{page}.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert not re.search(r"\{[\w:]+\}`|^\([\w-]+\)=$|\{\.external\}", text, re.M)
    text, twin = (" ".join(form.split()) for form in (text, (site / f"{page}.txt").read_text("utf-8")))
    for part in (ROOT / f"{page}.md").read_text("utf-8").split("\n\n"):
        between = re.split(r"\{glue:text\}`[\w.-]+`", " ".join(part.split()))
        if len(between) > 1 and not re.search(r"[*_`\[{]", "".join(between)):
            sentence = re.compile("(.{1,400}?)".join(map(re.escape, between)))
            assert sentence.search(text)[0] in twin


def test_a_page_is_made_readable(tmp_path):
    outputs = {"n": {"data": {"text/plain": "'1.5 %'"}}, "m-x": {"data": {"text/plain": "7"}}}
    (tmp_path / "a.glue.json").write_text(json.dumps(outputs), "utf-8")
    numbers = book_notebooks.glued(tmp_path / "a.ipynb")
    assert numbers == {"n": "1.5 %", "m-x": "7"} and book_notebooks.glued(tmp_path / "b.ipynb") == {}
    text = "(top)=\n# Top\n\nIt is {glue:text}`n`, see {doc}`method` and {ref}`below <m>`, "
    text += "[v1](c.html#v1){.external}: {glue:text}`m-x`."
    assert book_notebooks.readable(text, numbers) == "# Top\n\nIt is 1.5 %, see method and below, [v1](c.html#v1): 7."
