"""Figures, editions and permalinks: what a cell shows, and where it can be found again."""

import base64
import json
import re
import sys
import types
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from tramplab.base import documents
from tramplab.base.errors import TramplabError
from tramplab.base.paths import checkout
from tramplab_book import studies
from tramplab_book.publish.cite import edition, pages, permalinks
from tramplab_book.publish.figures import files, picture
from tramplab_book.publish.figures.chart import stacked_bars
from tramplab_book.publish.figures.figure import Figure, find
from tramplab_book.publish.figures.grid import Grid
from tramplab_book.publish.figures.show import show
from tramplab_book.publish.table import pivot

CHART = stacked_bars("instructions")
TABLE = pivot("instructions", index=("isa", "hook"))


def rows(hooks=("none", "ops")) -> pd.DataFrame:
    """Rows of one count; the numbers mean nothing."""
    frame = pd.DataFrame(
        [
            {"isa": isa, "hook": hook, "component": part, "instructions": (i + 1) * (j + 2) * (k + 3)}
            for i, isa in enumerate(("x86_64", "arm64", "riscv64"))
            for j, hook in enumerate(hooks)
            for k, part in enumerate(("site", "core"))
        ]
    )
    frame.attrs["units"] = {"instructions": "n"}
    return frame


def study(*figures: Figure, hooks=("none", "ops")) -> types.ModuleType:
    """A study as show() sees one: this module with figures and rows of its own."""
    made = types.ModuleType(__name__)
    made.__file__ = sys.modules[__name__].__file__
    made.NAME, made.FIGURES, made.rows = "example", figures, lambda: rows(hooks)
    return made


@pytest.fixture
def gen(tmp_path, monkeypatch):
    """The folder of files beside the page."""
    monkeypatch.setenv(files.FOLDER, str(tmp_path / "_gen"))
    return tmp_path / "_gen"


@pytest.fixture
def notebook(monkeypatch):
    """No book around: figures carry their files themselves."""
    monkeypatch.delenv(files.FOLDER, raising=False)


# -- figures


def test_figure_writes_the_rows_beside_the_page(gen):
    bundle = show(study(Figure("fig-x", "Per <call>?", chart=CHART, table=TABLE, alt="A & B")), "fig-x")._repr_mimebundle_()
    names = {"fig-x.txt", "fig-x.csv", "fig-x.json", "fig-x.spec.json", "fig-x-narrow.spec.json", "test_figures.py.txt"}
    assert {p.name for p in gen.iterdir()} == names
    pd.testing.assert_frame_equal(pd.read_csv(gen / "fig-x.csv"), rows(), check_dtype=False)
    data = json.loads((gen / "fig-x.json").read_text("utf-8"))
    assert data["rows"] == rows().to_dict("records") and data["units"] == rows().attrs["units"]
    assert (gen / "fig-x.txt").read_text("utf-8") == bundle["text/plain"]
    assert all(f'href="_gen/fig-x{suffix}"' in bundle["text/html"] for suffix in (".txt", ".csv", ".json"))
    assert "Per &lt;call&gt;?" in bundle["text/html"] and 'aria-label="A &amp; B"' in bundle["text/html"]
    assert f'data-marks="{len(rows())}" data-role="bar"' in bundle["text/html"]
    assert bundle["text/plain"].startswith("Per <call>?\n\n")
    assert max(map(len, bundle["text/plain"].splitlines())) <= 66


def test_charts_are_drawn_from_what_the_cells_leave(gen, monkeypatch):
    """Each in its place in the page, the wide one as without a book; no spec stays, and one that cannot be drawn is a sentence."""
    figure = study(Figure("fig-x", "Q?", chart=CHART, table=TABLE, alt="A <b>"), hooks=("</svg><b>",))
    page = show(figure, "fig-x").html
    assert picture.draw_all(gen) == 2 and not list(gen.glob("*.spec.json"))
    drawn = {path.stem: path.read_text("utf-8") for path in gen.glob("*.svg")}
    made = picture.placed(page, drawn.pop)
    assert drawn == {} and picture.placed(made, drawn.pop) == made
    parts = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", made, re.S)]
    assert [part.get("class") for part in parts] == ["tl-wide", "tl-narrow"]
    for part in parts:
        assert part.get("aria-label") == "A <b>" and part.get("role") == "graphics-document"
        bars = [one.get("aria-label") for one in part.iter() if one.get("aria-roledescription") == "bar"]
        assert len(bars) == len(rows(("ops",))) and all("</svg><b>" in said for said in bars)
    with monkeypatch.context() as m:
        m.delenv(files.FOLDER)
        alone = re.findall(r"<svg.*?</svg>", show(figure, "fig-x").html, re.S)
        assert alone == re.findall(r'<svg class="tl-wide".*?</svg>', made, re.S)
    for path in gen.glob("*.svg"):
        path.unlink()
    with monkeypatch.context() as m:
        m.setattr(picture.subprocess, "Popen", lambda *a, **k: pytest.fail("drawn again"))
        assert picture.draw_all(gen) == 0
        assert show(figure, "fig-x").html == page and picture.draw_all(gen) == 2
        drawn = {path.stem: path.read_text("utf-8") for path in gen.glob("*.svg")}
        assert picture.placed(page, drawn.pop) == made
        m.setattr(picture, "_drawing", lambda: b"another")
        show(figure, "fig-x")
        with pytest.raises(pytest.fail.Exception):
            picture.draw_all(gen)
    (gen / "fig-y.spec.json").write_text("{}", "utf-8")
    with pytest.raises(TramplabError, match=r"^a chart's picture was not drawn: fig-y\.spec\.json: .*Invalid spec"):
        picture.draw_all(gen)


def test_the_experiment_named_is_where_rows_are_made(gen):
    text = show(study(Figure("fig-x", "Q?", table=TABLE)), "fig-x").html
    path, line = re.search(r">(\S+), line (\d+)</a>", text).groups()
    source = (gen / "test_figures.py.txt").read_text("utf-8").splitlines()
    assert path == "figures/test_figures.py" and "lambda: rows(hooks)" in source[int(line) - 1]


def test_rows_made_earlier_are_shown_as_they_are(notebook):
    shown = show(study(Figure("fig-x", "Q?", table=TABLE)), "fig-x", rows(("edited",)))
    assert "edited" in shown.text and "ops" not in shown.text


def test_figure_without_a_book_carries_its_files(notebook):
    html = show(study(Figure("fig-x", "Q?", table=TABLE)), "fig-x").html
    csv = re.search(r'href="data:text/csv;base64,([^"]+)"', html)[1]
    assert base64.b64decode(csv).decode() == rows().to_csv(index=False, lineterminator="\n")


def test_bad_figures_are_refused(gen):
    with pytest.raises(TramplabError, match="figure id is fig- and lower-case"):
        Figure("Fig x", "Q?")
    with pytest.raises(TramplabError, match="fig-x: a chart needs alt="):
        Figure("fig-x", "Q?", chart=CHART)
    with pytest.raises(TramplabError, match="a chart or a body, not both"):
        Figure("fig-x", "Q?", chart=CHART, alt="A", body=lambda frame: None)
    with pytest.raises(TramplabError, match="figure of the study example 'fig-y'; did you mean fig-x"):
        find(study(Figure("fig-x", "Q?")), "fig-y")
    show(study(Figure("fig-x", "Q?")), "fig-x")
    with pytest.raises(TramplabError, match="two different figures have the id fig-x"):
        show(study(Figure("fig-x", "Q?")), "fig-x", rows(("other",)))


def test_every_figure_of_every_study_has_an_id_of_its_own_and_is_in_a_page():
    declared = [figure.id for module in studies.every().values() for figure in module.FIGURES]
    assert len(declared) == len(set(declared))
    citable = {name: link.target.partition("#")[2] for name, link in permalinks.read().items() if name.startswith("fig-")}
    assert set(declared) == set(citable.values())  # one that is drawn no more leads to the figure that shows its rows
    assert set(declared) <= set(citable)


# -- editions


def test_the_edition_is_the_tag_or_the_commit(tmp_path, monkeypatch):
    """A citation must never lead to the pages of another commit."""
    import subprocess

    def git(*arguments):
        options = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *options, *arguments], check=True, capture_output=True)

    def current():
        edition.current.cache_clear()
        return edition.current()

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "releases.yml").write_text("", "utf-8")
    cff = (checkout() / "CITATION.cff").read_text("utf-8")
    (tmp_path / "CITATION.cff").write_text(cff, "utf-8")
    monkeypatch.setenv("TRAMPLAB_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("TRAMPLAB_URL", raising=False)
    try:
        assert (current().commit, current().name, current().of) == ("", "unknown", "commit unknown")  # no git
        git("init")
        git("add", ".")
        git("commit", "-m", "one")
        assert re.fullmatch(r"[0-9a-f]{12}", current().commit) and current().name == current().commit[:7]
        git("tag", f"v{current().version}")
        assert current().name == current().version
        (tmp_path / "CITATION.cff").write_text(cff + "\n", "utf-8")
        assert current().commit.endswith("-dirty") and current().name == current().commit[:7] + "+"
        monkeypatch.setenv("TRAMPLAB_URL", "https://example.org/x/")
        assert current().url("a.html") == f"https://example.org/x/e/{current().name}/a.html"
        (tmp_path / "CITATION.cff").write_text("title: x\n", "utf-8")
        with pytest.raises(TramplabError, match=r"CITATION\.cff: the file has no cff-version and no message and no type"):
            current()
    finally:
        edition.current.cache_clear()


def test_the_version_is_said_once_more_and_the_same():
    """pip's metadata of each package needs a version of its own."""
    for project in ("lib", "lib/tramplab_book"):
        assert f'version = "{edition.current().version}"' in (checkout() / project / "pyproject.toml").read_text("utf-8")


# -- permalinks


def test_permalinks_are_parsed_and_refused():
    found = permalinks.parse("# head\nbook/a.html#one\nbook/a.html#two -> book/b.html#deux\na.html#x -> b.html#x -> c.html#x\n")
    assert [(p.id, p.page) for p in found.values()] == [("one", "book/a"), ("two", "book/b"), ("x", "c")]
    assert found["x"].places == ("a.html#x", "b.html#x", "c.html#x")
    for bad, complaint in (
        ("book/a.html", "line 1: expected page.html#id"),
        ("book/a.html#One", "expected page.html#id"),
        ("book/a.html#one -> nowhere", "expected page.html#id"),
        ("book/a.html#one\nbook/b.html#one", "line 2: the id one is already book/a.html#one"),
    ):
        with pytest.raises(TramplabError, match=complaint):
            permalinks.parse(bad)


def test_new_addresses_are_added_and_none_is_lost():
    text = permalinks.updated("", ["book/a.html#one"])
    assert text == permalinks.HEAD + "book/a.html#one\n"
    moved = permalinks.HEAD + "book/a.html#one -> book/b.html#one\n"
    assert permalinks.updated(moved, ["book/b.html#one", "book/b.html#two"]) == moved + "book/b.html#two\n"
    wanted = "has the id of `book/a.html#one`: if it moved, write `book/a.html#one -> book/b.html#one`."
    with pytest.raises(TramplabError, match=wanted):
        permalinks.updated(text, ["book/b.html#one"])
    wanted = "write `book/a.html#one -> book/b.html#one -> book/c.html#one`."
    with pytest.raises(TramplabError, match=wanted):
        permalinks.updated(moved, ["book/c.html#one"])


def test_the_pages_declare_their_labels_and_figures(tmp_path):
    (tmp_path / "page.md").write_text(
        "---\n(not-this)=\n---\n(top)=\n# Top `code`\n\n```{code-cell}\n---\nmystnb:\n  figure:\n    name: fig-a\n---\n"
        "# not a heading\n(nor-this)=\n```\n\n(sub)=\n## Sub\n",
        "utf-8",
    )
    folder = tmp_path.name
    assert pages.addresses(tmp_path) == [f"{folder}/page.html#{name}" for name in ("top", "fig-a", "sub")]
    assert [said for what, said in pages.declared((tmp_path / "page.md").read_text("utf-8")) if what == pages.HEADING] == [
        "Top `code`",
        "Sub",
    ]


@pytest.mark.parametrize("options", ["mystnb: [", "- a list", "mystnb: text"])
def test_options_of_a_cell_that_cannot_be_read_are_a_sentence(tmp_path, options):
    (tmp_path / "page.md").write_text(f"# Page\n\n```{{code-cell}}\n---\n{options}\n---\n```\n", "utf-8")
    with pytest.raises(TramplabError, match=r"page\.md: the options of a cell are no mapping in YAML: .*\.$") as e:
        pages.addresses(tmp_path)
    assert "\n" not in str(e.value)


def test_pages_are_read_with_the_extensions_of_the_book():
    config = documents.read_yaml((checkout() / "_config.yml").read_text("utf-8"))
    assert set(config["parse"]["myst_enable_extensions"]) == pages.EXTENSIONS


def test_a_section_has_its_figures_and_what_no_run_fills_in(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "page.md").write_text(
        "(top)=\n# Top\n\nIt is {doc}`so <other>`. Of {glue:text}`n` calls all.\n\n"
        "(sub)=\n## Sub\n\n- A `b`\n  c.\n- {glue:text}`n` more.\n\n"
        "```{code-cell}\n---\nmystnb:\n  figure:\n    name: fig-a\n---\n```\n\n## Next\n\nNot this.\n",
        "utf-8",
    )
    monkeypatch.setattr(pages, "root", lambda: tmp_path)
    assert pages.says("book/page", "top") == ["It is so."] and pages.says("book/page", "sub") == ["A b c."]
    assert pages.figures("book/page", "top") == [] and pages.figures("book/page", "sub") == ["fig-a"] == pages.figures("book/page")


def test_headings_are_found_by_label():
    assert pages.heading("book/trampoline-variants") == "Trampoline variants"
    assert pages.heading("book/trampoline-releases", "fig-by-release") == "Which release changed what a hook costs?"
    with pytest.raises(TramplabError, match=r"has no heading under the label \(nowhere\)="):
        pages.heading("book/method", "nowhere")
    with pytest.raises(TramplabError, match=r"no page book/nowhere\.md"):
        pages.heading("book/nowhere")


# -- tables: folded, open, in cells


def test_a_table_stands_open_where_nothing_else_shows_the_rows_and_it_is_short(notebook):
    figure = Figure("fig-x", "How much?", table=TABLE)
    assert "<details open><summary>Table" in show(study(figure), "fig-x").html
    long = study(figure, hooks=[f"h{n}" for n in range(40)])
    opened, rest = show(long, "fig-x").html.split("<details><summary>All rows</summary>")
    assert "h1 " in opened and "h39" not in opened and "h39" in rest
    assert "Terms</a>" in show(study(figure), "fig-x").html
    without = Figure("fig-x", "How much?", rows=lambda frame: frame.drop(columns="hook"))
    assert "Terms</a>" not in show(study(without), "fig-x").html


def test_a_figure_in_cells_prints_its_rows_once(notebook):
    grid = pd.DataFrame({"hook": ["ops <b>"], "x86-64": ["37\n3 ns"]})
    shown = show(study(Figure("fig-x", "How much?", table=TABLE, body=lambda _: Grid(grid, "What it adds"))), "fig-x")
    assert "<th scope=\"row\">ops &lt;b&gt;</th><td>37<br>3 ns</td>" in shown.html and "<summary>Table" not in shown.html
    assert shown.html.count("<table") == 1 and "37" not in shown.text and TABLE(rows())["total"].astype(str).iloc[-1] in shown.text
