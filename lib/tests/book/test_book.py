"""The built book: its links, files and citations, with and without scripts. See test_pages.py for each page as it is read."""

import re
import shutil
import sys
from urllib.parse import unquote, urldefrag

import jupytext
import nbformat
import pytest

from support import ROOT
from support.plugins.browser import DESKTOP, PAGES, PHONE, TOC, Links, pages_with_chart, reader, serve, visit
from support.publish.some_claims import IDS, JUDGED
from tramplab_book.publish.cite import cite, edition, permalinks
from tramplab_book.publish.claims import claims
from tramplab_book.publish.editions import read_edition
from tramplab_book.publish.findings import findings
from tramplab_book.studies import stated

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from book_permalinks import places


def test_a_request_that_leaves_is_reported(browser, site, tmp_path):
    """The check can fail: one link to another host, and nothing else, makes it complain about just that."""
    shutil.copytree(site, tmp_path / "site")
    page = tmp_path / "site" / f"{PAGES[0]}.html"
    link = '<link rel="stylesheet" href="https://cdn.example/x.css"></head>'
    page.write_text(page.read_text("utf-8").replace("</head>", link, 1), "utf-8")
    address, end = serve(tmp_path / "site")
    try:
        for base in (address, (tmp_path / "site").as_uri()):
            assert visit(browser, base, PAGES[0]).outside == ["https://cdn.example/x.css"]
            assert visit(browser, base, PAGES[-1]).problems() == []
    finally:
        end()


def test_a_chart_that_is_not_there_once_is_reported(browser, site, tmp_path):
    """With a mark less, and with both layouts at once."""
    shutil.copytree(site, tmp_path / "site")
    page = pages_with_chart(site)[0]
    path = tmp_path / "site" / f"{page}.html"
    whole = path.read_text("utf-8")
    ((expected, _), *others) = visit(browser, bases_of(tmp_path), page).charts
    less = re.sub(r'(<path aria-label="[^"]*" role="graphics-symbol") aria-roledescription="\w+"', r"\1", whole, count=1)
    path.write_text(less, "utf-8")
    assert visit(browser, bases_of(tmp_path), page).problems() == [f"chart with {expected - 1} marks of {expected}"]
    path.write_text(whole.replace('class="tl-narrow"', 'class="tl-both"'), "utf-8")
    assert visit(browser, bases_of(tmp_path), page).problems() == [f"chart with 0 marks of {n}" for n in (expected, *dict(others))]


def bases_of(folder) -> str:
    return (folder / "site").as_uri()


def test_a_page_is_cited_at_its_end_as_it_is_in_short(site):
    """What it says in short is found in the page, not made anew."""
    for page in (path.stem for path in (ROOT / "book").glob("*.md") if findings.of_page(path.stem)):
        text = (site / "book" / f"{page}.html").read_text("utf-8")
        in_short = cite.boxed(text, page)
        assert in_short == stated.page_citation(page), page
        assert cite.boxed(text.partition(f'"Citation of {page}"')[2], page).startswith(f"{in_short}\n@"), page


@pytest.mark.parametrize("turn, size", [(0, DESKTOP), (1, PHONE)], ids=["desktop", "phone"])
def test_without_javascript_charts_and_citations_are_in_the_page(browser, bases, site, turn, size):
    """The pages by turns."""
    cited = []

    def look(tab):
        links = [link.bounding_box() for link in tab.query_selector_all("h1 + p.tl-links a")]
        assert len(links) == 3 and all(box and 0 <= box["x"] <= size[0] - box["width"] for box in links)
        boxes = tab.query_selector_all("details.tl-cite")
        boxes[0].query_selector("summary").click()
        assert boxes[0].query_selector("pre").is_visible()
        cited.extend(tab.eval_on_selector_all("details.tl-cite pre", "all => all.map((pre) => pre.textContent)"))
        shown = tab.eval_on_selector_all(
            ".tl-chart svg",
            "all => all.filter((svg) => svg.parentElement.checkVisibility())"
            ".map((svg) => [svg.classList[0], svg.getBoundingClientRect().width, svg.ariaLabel, svg.checkVisibility()])",
        )
        assert shown
        for layout, width, alt, visible in shown:
            assert alt and visible == (layout == ("tl-narrow" if size is PHONE else "tl-wide"))
            assert 150 < width <= size[0] if visible else width == 0

    for page in pages_with_chart(site)[turn::2]:
        assert visit(browser, bases["file"], page, size, javascript=False, look=look).problems() == []
    assert cited and all("commit " in text and ("Link: " in text) == read_edition(site).published for text in cited)


@pytest.mark.parametrize("javascript", [True, False], ids=["script", "none"])
def test_the_address_of_a_folded_claim_shows_it(browser, bases, javascript):
    """What was said at once, and with JavaScript the rest; on a page that is not too long to be looked through."""

    def look(tab):
        assert tab.evaluate("document.documentElement.scrollHeight") <= 12 * DESKTOP[1]
        tab.goto(f"{bases['file']}/book/claims.html#k7")
        claim = tab.wait_for_selector("details#k7[open]" if javascript else "details#k7")
        summary = claim.query_selector("summary")
        assert 0 <= summary.bounding_box()["y"] <= DESKTOP[1] - 50 and claims.get("k7").said in summary.inner_text()
        assert claim.query_selector("p").is_visible() == javascript

    assert visit(browser, bases["file"], "book/claims", javascript=javascript, look=look).problems() == []


def test_every_permalink_of_the_book_has_a_short_page(browser, bases, site):
    links = permalinks.read()
    assert {path.stem for path in (site / "p").iterdir()} == set(links)
    name = next(name for name in links if name.startswith("fig-"))
    with reader(browser, javascript=False) as arrives:
        assert arrives(bases["file"], f"p/{name}.html", places(links)[name]) == places(links)[name]
    built, page = read_edition(site), (site / "p" / f"{name}.html").read_text("utf-8")
    assert (f'href="{built.url(places(links)[name])}"' in page) == ('rel="canonical"' in page) == built.published


# -- without a browser


@pytest.mark.parametrize("page", PAGES)
def test_page_opens_as_a_notebook(page):
    """JupyterLab refuses a page whose front matter makes no valid notebook; the book's build does not mind."""
    text = (ROOT / f"{page}.md").read_text("utf-8")
    if "{code-cell}" in text:
        notebook = jupytext.reads(text, fmt="md:myst")
        nbformat.validate(notebook)
        assert {cell.cell_type for cell in notebook.cells} == {"markdown", "code"}


def test_every_link_inside_the_site_leads_somewhere(site):
    """Also those in raw HTML, which Sphinx does not look at."""
    # _static has the theme's templates
    files = [path for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "_static"]
    pages = {path.resolve(): Links(path.read_text("utf-8")) for path in files}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            address, fragment = urldefrag(unquote(link))
            if re.match(r"[a-z]+:", address):
                continue
            target = (path.parent / address.partition("?")[0]).resolve() if address else path
            if not target.is_file() or (fragment and target in pages and fragment not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_names_a_folder_of_the_machine(site):
    """Pages of two clones are the same; a page's files are named from the package on."""
    texts = [path for path in site.rglob("*") if path.suffix in (".html", ".txt", ".ipynb", ".json", ".md", ".csv")]
    assert len(texts) > 200
    assert [path.relative_to(site).as_posix() for path in texts if re.search(rb"/[\w.-]+/lib/tramplab", path.read_bytes())] == []


def test_the_built_ledger_has_the_anchors(site):
    page = (site / "book" / "claims.html").read_text("utf-8")
    assert set(IDS) <= Links(page).ids
    assert f"{len(JUDGED)} of {len(IDS)} claims judged" in page and "Not as expected" not in page


def test_figures_have_their_files_and_a_table_in_the_page(site):
    for page in pages_with_chart(site):
        text = (site / f"{page}.html").read_text("utf-8")
        figures = re.findall(r'href="(_gen/(fig-[\w-]+))\.csv"', text)
        assert figures
        for address, name in figures:
            assert f'id="{name}"' in text, f"{name} is shown under another name"
            for suffix in (".csv", ".json"):
                assert (site / page).parent.joinpath(address + suffix).stat().st_size > 50
        assert len(re.findall(r"<summary>(?:Table|All rows)</summary>|<table class=\"tl-grid\"", text)) >= len(figures)


def test_no_figure_is_only_a_folded_table(site):
    for page in PAGES:
        text = (site / f"{page}.html").read_text("utf-8")
        for name, figure in re.findall(r'<figure[^>]* id="(fig-[\w-]+)">(.*?)</figure>', text, re.S):
            seen = re.sub(r"<details(?! open).*?</details>", "", figure, flags=re.S)
            assert re.search(r"<svg|<img|<table|<pre|<tl-steps|<div class=\"tl-runs", seen), name


def test_the_line_that_unfolds_code_says_what_the_code_shows(site):
    lines = {"fig-first-callback": "stepper", "fig-single-callback": "figure"}
    text = (site / "book" / "trampoline-variants.html").read_text("utf-8")
    for name, what in lines.items():
        above = text[: text.index(f'id="{name}"')].rpartition("<summary>")[2]
        assert f">Code of this {what}</p>" in above and f">Hide the code of this {what}</p>" in above
    assert all("code cell" not in (site / f"{page}.html").read_text("utf-8") for page in PAGES)


def test_titles_say_what_a_page_is(site):
    texts = {page: (site / f"{page}.html").read_text("utf-8") for page in PAGES}
    titles = {page: re.search("<title>(.*?)</title>", text, re.S)[1].strip() for page, text in texts.items()}
    name, _, words = edition.current().title.partition(": ")
    assert titles[TOC["root"]].lower() == f"{words} &#8212; {name}".lower() and len(words) > 20
    assert all(title.endswith(" &#8212; Tramplab") for title in titles.values()) and len(set(titles.values())) == len(titles)
