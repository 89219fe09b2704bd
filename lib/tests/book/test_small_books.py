"""A book of a few pages, built with the settings of this one: what is executed, and what makes a build fail."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from support import ROOT
from support.book.small_books import page, small_book
from tramplab.base.processes.capacity import processors

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import bookext

GOOD_CELL = "```{code-cell}\nfrom myst_nb import glue\nglue('answer', 42, display=False)\n```\n"


def build(folder: Path, body: str) -> tuple[bool, str]:
    """Whether the small book was built, and what the build said."""
    command, environment = small_book(folder, body)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    built = (folder / "_build" / "html" / "index.html").exists()
    assert built == (done.returncode == 0), "a failed build left pages, or a good one left none"
    return built, done.stdout + done.stderr


PREFIX = "```{code-cell}\nimport sys\nprint('prefix', sys.prefix)\n```\n"
TRANSPORT = (
    "```{code-cell}\nfrom ipykernel.connect import get_connection_info\n"
    "print(get_connection_info(unpack=True)['transport'], 'sockets')\n```\n"
)
SLOW = "```{code-cell}\nimport time\nfor n in range(6):\n    print(n, end=' ')\n    time.sleep(0.1)\n```\n"
#: A cell that ends when that of another page has begun.
MEET = (
    "```{{code-cell}}\nimport pathlib, time\npathlib.Path('{own}').touch()\nend = time.monotonic() + 120\n"
    "while not pathlib.Path('{other}').exists():\n    assert time.monotonic() < end\n    time.sleep(0.05)\n```\n"
)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> tuple[Path, str]:
    """The folder of a good book of several pages, and what its build said."""
    folder = tmp_path_factory.mktemp("good")
    command, environment = small_book(folder, GOOD_CELL + "The answer is {glue:}`answer`.\n\n" + PREFIX + TRANSPORT)
    pages = dict.fromkeys("abcdef", "Text.\n") | {"c": SLOW}  # Sphinx reads five documents one by one, and six at once
    if processors() > 1:
        pages |= {"a": MEET.format(own="A", other="B"), "b": MEET.format(own="B", other="A")}
    for name, body in pages.items():
        (folder / "book" / f"{name}.md").write_text(page(f"Page {name}", body), "utf-8")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": f"book/{name}"} for name in pages]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_a_good_page_builds_with_this_python(good):
    folder, said = good
    page = (folder / "_build" / "html" / "book" / "index.html").read_text("utf-8")
    assert ">42<" in page and f"prefix {sys.prefix}" in page
    assert "ipc sockets" in page  # two kernels at once could choose the same TCP port
    assert re.search(r"== done: \S+/_build/html/index.html", said)


def test_what_a_slow_cell_prints_is_one_output(good):
    """The kernel sends what there is every 0.2 seconds; kept in such pieces, two builds would differ."""
    notebook = json.loads((good[0] / "_build" / "html" / "book" / "c.ipynb").read_text("utf-8"))
    (output,) = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    assert "".join(output["text"]).split() == list("012345")


@pytest.mark.skipif(processors() == 1, reason="one processor executes one page at a time")
def test_pages_are_executed_side_by_side(good):
    """Two pages that wait for one another both end, and every page is there."""
    folder, said = good
    assert "'A'" in (folder / "book" / "a.md").read_text("utf-8") and (folder / "book" / "A").exists()
    built = {path.stem for path in (folder / "_build" / "html" / "book").glob("*.html")}
    assert built == {"index", *"abcdef"}
    written = re.findall(r"writing output\.\.\. .*%", said)
    assert len(written) == len(built), "written by one process; of several, the first page has no line"


#: What stands in a page -> what the build says of it.
MISTAKES = {
    GOOD_CELL + "{glue:}`question`\n": "No key 'question' found",
    "```{code-cell}\nimport sys\nprint('careful', file=sys.stderr)\n```\n": "stderr was found in the cell outputs",
    "{numref}`fig-nowhere`\n": "undefined label: 'fig-nowhere'",
    "{doc}`nowhere`\n": "unknown document: 'nowhere'",
    '<i class="fa-solid fa-nonsense"></i>\n': "no outline for the icon fa-solid fa-nonsense",
    f"```text\n{'8' * 73}\n```\n": f"of book/index.txt has 73 columns, the limit is 72: {'8' * 73}",
}


def test_every_mistake_is_a_warning_of_its_own_and_fails_the_build(tmp_path):
    built, said = build(tmp_path, "\n".join(MISTAKES))
    warnings = [line for line in said.splitlines() if re.search("WARNING|ERROR", line)]
    assert not built
    assert [said for said in MISTAKES.values() if not any(said in line for line in warnings)] == [], warnings


def test_every_extension_is_set_up(monkeypatch):
    """What one adds may show in none of these books, and its loss in the whole book only."""
    app, asked = Mock(), []
    names = [path.stem for path in sorted((ROOT / "book" / "_ext").glob("book_*.py")) if "\ndef setup(" in path.read_text("utf-8")]
    for name in names:
        monkeypatch.setattr(importlib.import_module(name), "setup", lambda app, name=name: asked.append((name, app)))
    bookext.setup(app)
    assert len(names) > 10 and sorted(asked) == [(name, app) for name in names]
