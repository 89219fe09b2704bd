"""The text twins: what the writer makes of a page, and the twins of the built book;
long because a page and its twin stand here whole."""

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support import ROOT
from support.book.small_books import small_book
from support.plugins.browser import PAGES
from tramplab.estimate import cores, judged
from tramplab_book.publish.cite import pages, permalinks
from tramplab_book.publish.editions import read_edition
from tramplab_book.publish.figures import files
from tramplab_book.publish.figures.show import MOST_IN_TWIN
from tramplab_book.publish.findings import findings
from tramplab_book.studies import stated

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import book_generated
from text_writer import WIDTH, address, columns

words = st.text("ab-", min_size=1, max_size=9).filter(lambda word: set(word) != {"-"})
cells = st.lists(words, max_size=14).map(" ".join)


# -- the writer's parts


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1, max_size=5)))
def test_tables_fit_and_lose_no_word(rows):
    lines = columns(rows, 1, WIDTH)
    assert all(len(line) <= WIDTH for line in lines)
    shown = [word for line in lines if set(line) - set("- ") for word in line.split()]
    assert sorted(shown) == sorted(word for row in rows for cell in row for word in cell.split())


def test_tables_are_aligned_and_wrapped_where_they_must_be():
    rows = [["ISA", "site", "reach"], ["x86-64", "one NOP of five bytes", "2 GiB"], ["arm64", "two", "128 MiB"]]
    assert columns(rows, 1, 72) == [
        "ISA     site                   reach",
        "------  ---------------------  -------",
        "x86-64  one NOP of five bytes  2 GiB",
        "arm64   two                    128 MiB",
    ]
    assert columns(rows, 1, 30) == [
        "ISA     site           reach",
        "------  -------------  -------",
        "x86-64  one NOP of     2 GiB",
        "        five bytes",
        "",
        "arm64   two            128 MiB",
    ]


def test_addresses_are_folded_only_where_they_do_not_fit():
    url = "https://example.org/" + "x" * 100
    assert address("Link:  ", url[:60]) == ["Link:  " + url[:60]]
    assert address("Link:  ", url[:70]) == ["Link:", url[:70]]
    folded = address("Link:  ", url)
    assert folded[0] == "Link:" and "".join(line.strip() for line in folded[1:]) == url
    assert all(len(line) <= WIDTH for line in folded)


# -- a small book, whose text is known

PAGE = """
"Quoted" - it's an en–dash, an em—dash ... See {doc}`second`, {numref}`fig-x`, [a link](https://example.org/a), <https://example.org/auto>,
[the link](https://example.org/a), and the id fig-single-callback-history-and-more, which is not broken at-a-hyphen.
Note[^1]. Cited {cite}`kernel-ftrace`.

[^1]: The note.

```{note}
A note that is long enough to be wrapped somewhere, with `code` in it, and more words after that.
```

Term
: Its definition.

| ISA | site |
|-----|-----:|
| `arm64` | two NOPs |

1. One
   ```console
   $ make
   ```
2. Two
   - nested

![The icon](_static/favicon.svg)

<p>raw <b>html</b></p>

```text
777777777777777777777777777777777777777777777777777777777777777777777777
```

```{bibliography}
```

## Cells

```{code-cell}
:tags: [hide-input]
hidden = 1
```

```{code-cell}
print("shown", 1 + 1)
```

```{code-cell}
---
mystnb:
  figure:
    name: fig-x
    caption: A *caption*.
---
class X:
    text = {"text/html": "<b>x", "text/plain": "x as text"}
    def _repr_mimebundle_(self, **k): return self.text
X()
```
"""

REFERENCES = """@misc{kernel-ftrace,
  title = {ftrace - Function Tracer}, author = {Rostedt, Steven},
  howpublished = {Linux kernel, Documentation/trace/ftrace.rst}
}
"""

TWIN = """\
Small
=====

"Quoted" - it's an en-dash, an em--dash ... See Second, Fig. 1, a link
[2], https://example.org/auto, the link [2], and the id
fig-single-callback-history-and-more, which is not broken at-a-hyphen.
Note[1]. Cited [Ros].

Note:

  A note that is long enough to be wrapped somewhere, with `code` in it,
  and more words after that.

Term
   Its definition.

ISA      site
-------  --------
`arm64`  two NOPs

1. One

       $ make

2. Two

   * nested

[image: The icon]

777777777777777777777777777777777777777777777777777777777777777777777777

[Ros] Steven Rostedt. Ftrace - function tracer. Linux kernel,
      Documentation/trace/ftrace.rst.


Cells
-----

    print("shown", 1 + 1)

Output:

    shown 2

    class X:
        text = {"text/html": "<b>x", "text/plain": "x as text"}
        def _repr_mimebundle_(self, **k): return self.text
    X()

Fig. 1, fig-x: A *caption*.

    x as text

* * *

[1] The note.


Links
-----

[2] https://example.org/a
"""


def two_pages(folder, body):
    command, environment = small_book(folder, body)
    (folder / "book" / "references.bib").write_text(REFERENCES, "utf-8")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": "book/second"}]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    (folder / "book" / "second.md").write_text('# Second\n\nThe "second" page -- it\'s plain.\n', "utf-8")
    return command, environment


def run(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    return done.returncode == 0, done.stdout + done.stderr


def test_the_twin_beside_the_html_is_what_make_text_writes(tmp_path):
    command, environment = two_pages(tmp_path, PAGE)
    built, said = run(command, tmp_path, environment)
    assert built, said
    twins = [tmp_path / "_build" / "html" / "book" / f"{name}.txt" for name in ("index", "second")]
    beside = [twin.read_text("utf-8") for twin in twins]
    assert beside[0] == TWIN
    assert beside[1] == 'Second\n======\n\nThe "second" page - it\'s plain.\n'
    built, said = run(["text" if word == "book" else word for word in command], tmp_path, environment)
    assert built, said
    assert [(tmp_path / "_build" / "text" / "book" / twin.name).read_text("utf-8") for twin in twins] == beside


def test_a_book_as_text_keeps_no_charts(tmp_path, monkeypatch):
    """Its cells leave the specs of their charts like any others, and nobody draws them."""
    monkeypatch.setenv(files.FOLDER, str(tmp_path))
    (tmp_path / "fig-x.spec.json").write_text("{}", "utf-8")
    app = SimpleNamespace(builder=SimpleNamespace(format="text"), outdir=tmp_path)
    book_generated.write_charts(app, None)
    assert list(tmp_path.iterdir()) == []


# -- the twins of the book


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_a_twin_for_a_terminal(site, page):
    text = (site / f"{page}.txt").read_text("utf-8")
    assert [line for line in text.splitlines() if len(line) > 72 or line != line.rstrip()] == []
    assert "\n\n\n\n" not in text and "<div" not in text and "%s" not in text
    title = pages.heading(page)
    head = text[: text.index("\n\n\n")]
    name = permalinks.chapter(page).id
    built = read_edition(site)
    assert head.startswith("Title: Tramplab") and title in head
    assert f"\nBook:  {built}" in head and (built.url(f"p/{name}.html") in head.replace("\n    ", "")) == built.published


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_in_short_it_says_once(site, page):
    """But for the verdicts on claims, which say what they rest on."""
    paragraphs = (site / f"{page}.txt").read_text("utf-8").split("\n\n")
    text = "\n\n".join(paragraph for paragraph in paragraphs if "\n        Thread: " not in paragraph)
    _, head, rest = text.partition("\n    In short\n\n")
    items = re.findall(r"^    - (.*?)(?=\n    - |\n\n|\Z)", rest.partition("\n\n")[0], re.M | re.S)
    assert bool(items) == bool(head)
    for item in items:
        said = re.sub(r" \((?:fig-[\w-]+|claim \w+)\)$", "", " ".join(item.split()))
        assert " ".join(text.split()).count(said) == 1


@pytest.mark.parametrize("page", PAGES)
def test_an_output_is_announced_only_below_its_code(site, page):
    lines = (site / f"{page}.txt").read_text("utf-8").splitlines()
    announced = [n for n, line in enumerate(lines) if line == "Output:"]
    assert [n for n in announced if not lines[n - 2].startswith("    ")] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != "book/counts-to-time"])
def test_no_page_but_that_on_time_shows_estimated_cycles(site, page):
    """Neither a band, nor a core whose model is not usable: what stands there as cycles was measured."""
    text = (site / f"{page}.txt").read_text("utf-8")
    unusable = [name for name in cores.cores() if not judged.verdict(name).usable]
    assert [name for name in unusable if re.search(rf"\b{name}\b", text)] == []
    assert re.findall(r"\d \(-?[\d.]+ to [\d.]+\)", text) == []
    if page == "book/index":  # so that the search finds what there is
        assert set(unusable) & {*re.findall(r"[\w-]+", (site / "book/counts-to-time.txt").read_text("utf-8"))}


def test_a_page_says_a_finding_once(site):
    """On a page of its argument; the front page and the ledger of claims say some of them again, once each."""
    twins = {page: " ".join((site / f"{page}.txt").read_text("utf-8").split()) for page in PAGES}
    for finding in findings.read().values():
        says = stated.stated(finding).says
        found = {page: text.count(says) for page, text in twins.items() if says in text}
        assert found.pop(finding.page) == 1, finding.id
        assert found.keys() <= {"book/index", "book/claims"} and set(found.values()) <= {1}, (finding.id, found)


def test_figures_are_in_the_twins_as_their_tables_with_number_and_id(site):
    """What is long with its first lines and the name of the file that has the others."""
    figures = sorted((site / "book" / "_gen").glob("fig-*.txt"))
    text = "".join((site / f"{page}.txt").read_text("utf-8") for page in PAGES)
    lines = {line.strip() for line in text.splitlines()}
    assert figures
    for figure in figures:
        whole = figure.read_text("utf-8").splitlines()
        missing = [line for line in whole if line.strip() not in lines]
        assert not missing or (len(whole) > MOST_IN_TWIN and f"more lines: {figure.name}, the figure's own" in text), figure.name
        assert f", {figure.stem}: " in text


def test_what_the_page_hides_is_not_in_the_twin(site):
    sources = {page: (ROOT / f"{page}.md").read_text("utf-8") for page in PAGES}
    hiding = [page for page, source in sources.items() if "hide-input" in source]
    assert hiding
    for page in hiding:
        hidden = sources[page].partition("hide-input]")[2].partition("\n```")[0].strip().splitlines()[-1].strip()
        assert hidden not in (site / f"{page}.txt").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_links_to_its_other_forms(site, page):
    """Right below its title; test_book.py sees them on a phone."""
    html = (site / f"{page}.html").read_text("utf-8")
    line = re.search(r'</h1>\s*<p class="tl-links">(.*?)</p>', html)
    assert line
    found = {name: href for href, name in re.findall(r'<a [^>]*?href="([^"]+)"[^>]*>([^<]+)</a>', line[1])}
    cells = "{code-cell}" in (ROOT / f"{page}.md").read_text("utf-8")
    assert list(found) == ["Text", *(["Notebook"] if cells else []), "Source"]
    assert all((site / page).parent.joinpath(href).is_file() for href in found.values())
    source = (site / page).parent / found.pop("Source")
    assert source.read_text("utf-8") == (ROOT / f"{page}.md").read_text("utf-8")
    assert [url.rpartition(".")[2] for url in found.values()] == ["txt", "ipynb"][: len(found)]
    menu = re.findall(r"btn-download-(\w+)-button", html)
    assert menu == [*(name.lower() for name in found), "source", "pdf"]
