"""The notebook of each page: valid, the same in every build, and it runs where only the package is installed."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from support import ROOT, only_ci
from support.book import environments
from support.plugins.browser import PAGES
from tramplab.base import cache
from tramplab_book.publish.cite.edition import Edition
from tramplab_book.publish.editions import read_edition

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_notebooks

#: Pages with quoted numbers and figures, each of another part.
RUN = ("book/kretprobe", "book/method", "book/trampoline-variants")
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


def command(notebook) -> str:
    """What the first cell says to type."""
    (found,) = re.findall(r"^```sh\n(.*)\n```$", notebook.cells[0].source, re.M)
    return found


def ran(python, site, page, folder, **settings):
    """Execute a page's notebook in an empty folder, as JupyterLab does. It shows the same again, and prints in addition the numbers
    that its text quotes."""
    path = site / f"{page}.ipynb"
    before = nbformat.read(path, as_version=4)
    after = nbformat.read(environments.execute(python, path, folder, JPY_SESSION_NAME=str(path), **settings), as_version=4)
    assert list(folder.iterdir()) == []
    text = "\n".join(cell.source for cell in before.cells if cell.cell_type == "markdown")
    quoted, printed = set(re.findall("`(.*?)`", " ".join(before.metadata.tramplab.roles))), set()
    for then, now in zip(outputs(before), outputs(after), strict=True):
        said = dict(re.findall(r"^([\w.-]+) +(\S.*)$\n?", now.removesuffix(then), re.M))
        assert f"{now.removesuffix(then)}{then}" == now
        assert all(value.strip() in text for value in said.values())
        printed |= said.keys()
    assert printed == quoted and quoted
    assert any("fig-" in cell.source for cell in before.cells if cell.cell_type == "code")


@pytest.fixture(scope="module")
def required(tmp_path_factory):
    """The Python of an environment with only what the package requires for notebooks."""
    return environments.linked(tmp_path_factory.mktemp("required") / "env", "lab")


def test_what_pages_import_is_required(required):
    """Of all pages: no page needs what builds the book."""
    lines = set()
    for page in WITH_CELLS:
        for cell in re.findall(r"^```\{code-cell\}.*\n([\s\S]*?)^```$", (ROOT / f"{page}.md").read_text("utf-8"), re.M):
            code = re.sub(r"\A(---\n[\s\S]*?^---\n|(:.*\n)+)", "", cell, flags=re.M)
            lines |= {ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)}
    assert len(lines) > 50
    absent = "import importlib.util as u; assert not [m for m in ('myst_nb', 'jupyter_book', 'pytest') if u.find_spec(m)]"
    quoting = "from tramplab_book.publish.quoted import quote; quote({'a': 1})"
    done = subprocess.run([required, "-c", "\n".join([absent, *sorted(lines), quoting])], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, "a  1\n"), done.stderr


def test_a_notebook_runs_where_only_the_package_is_installed(required, site, tmp_path):
    """Rows and images that other tests have made are not made again."""
    made = {"TRAMPLAB_CACHE": str(cache.folder()), "TRAMPLAB_ROWS": os.environ["TRAMPLAB_ROWS"]}
    ran(required, site, RUN[0], tmp_path / "empty", **made)


@only_ci
def test_notebooks_run_where_their_first_cell_was_followed(site, tmp_path):
    """The whole of what a reader does who has nothing but the files and a clone."""
    notebook = nbformat.read(site / f"{RUN[0]}.ipynb", as_version=4)
    python = environments.installed(tmp_path / "clone", command(notebook))
    for page in RUN:
        ran(python, site, page, tmp_path / Path(page).name, TRAMPLAB_CACHE=str(cache.folder()))


@pytest.mark.parametrize("commit, checkout", [("1" * 12, f"git checkout {'1' * 12} && "), ("1" * 12 + "-dirty", ""), ("", "")])
def test_the_first_cell_names_the_commit_and_one_command(monkeypatch, commit, checkout):
    """What no commit has cannot be checked out."""
    now = Edition("Tramplab: t", ("A",), "0.1", "2026", commit, "x", "https://x.example")
    monkeypatch.setattr(book_notebooks.edition, "current", lambda: now)
    monkeypatch.setattr(book_notebooks.book_permalinks, "chapter", lambda app, docname: SimpleNamespace(id="a"))
    cell = SimpleNamespace(source=book_notebooks.introduction(None, "book/a"))
    assert command(SimpleNamespace(cells=[cell])) == f"{checkout}{book_notebooks.INSTALL}"
    assert cell.source.startswith(f"Tramplab, edition 0.1, commit {commit or 'unknown'}.\n")


@pytest.mark.parametrize("page", WITH_CELLS)
def test_the_text_of_a_notebook_has_its_numbers_and_no_roles(site, page):
    """JupyterLab shows a role as it is written. The numbers are those of the text twin."""
    notebook = nbformat.read(site / f"{page}.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert not re.search(r"\{[\w:]+\}`|^\([\w-]+\)=$|\{\.external\}", text, re.M)
    text, twin = (" ".join(form.split()) for form in (text, (site / f"{page}.txt").read_text("utf-8")))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            here = set(re.findall(r"^\[([^\]]+)\]: http", cell.source, re.M))
            assert set(re.findall(r"\]\[([^\]\n]+)\]", cell.source)) <= here
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
    assert book_notebooks.readable(text, numbers, {}) == "# Top\n\nIt is 1.5 %, see method and below, [v1](c.html#v1): 7."


def test_a_link_has_its_target_in_its_own_cell():
    """Each cell is a document of its own; a page has the targets at its end."""
    last = "The end, [`v3`][three].\n\n[one]: https://x.org/1\n[three]: https://x.org/3\n"
    targets = dict(book_notebooks.TARGET.findall(last))
    assert targets == {"one": "https://x.org/1", "three": "https://x.org/3"}
    assert book_notebooks.readable("It is [`v1`][one].", {}, targets) == "It is [`v1`][one].\n\n[one]: https://x.org/1"
    assert book_notebooks.readable(last, {}, targets) == "The end, [`v3`][three].\n\n[three]: https://x.org/3"
    assert book_notebooks.readable("[v2](two.html)", {}, targets) == "[v2](two.html)"
