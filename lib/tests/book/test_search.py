"""The search: what it knows of a page, and that it finds sections with an excerpt, from file:// too."""

import json
import sys
from urllib.parse import unquote

import pytest

from support import ROOT
from support.plugins.browser import DESKTOP, PHONE, visit
from tramplab.publish.cite import permalinks
from tramplab.publish.findings import findings

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from book_search import sections

PAGE = """<body><nav>menu</nav><article><section id="page"><span id="label"></span><h1><span class="section-number">1. </span>
The page<a class="headerlink" href="#page">#</a></h1><p>First &amp; foremost<br>said.</p>
<section id="inner"><span id="id7"></span><h2>Inside</h2><div class="cell tag_hide-input"><details><summary>Show code</summary>
<div class="cell_input"><pre>code()</pre></div></details></div>
<div class="tl-figure"><p class="tl-title">What?</p><p class="tl-answer">This.</p>
<details><summary>Table</summary><pre>1 2</pre></details>
<details class="tl-cite"><summary>Cite</summary><pre>cited</pre></details><p class="tl-links">Rows: text</p></div>
<div class="tl-figure tl-own"><p>measured</p></div><img alt="picture"><ul><li>one</li><li>two</li></ul>
<div class="tl-figure tl-claim tl-holds" id="v1"><p class="tl-title">Claim v1</p><p>It is so.</p></div>
<details class="tl-claim" id="d1"><summary>It will be.</summary><p>Some day.</p></details></section>
<p>Behind it.</p></section></article><p>outside</p></body>"""


def test_sections_say_what_readers_see_and_not_what_is_in_them():
    page, inner, claim, folded = sections(PAGE)
    assert (page.anchor, page.title.strip(), page.text) == ("label", "The page", "First & foremost said. Behind it.")
    assert (inner.anchor, inner.title, inner.text) == ("inner", "Inside", "What? This. one two")
    assert (claim.anchor, claim.title, claim.text) == ("v1", "Claim v1", "Claim v1 It is so.")
    assert (folded.anchor, folded.title, folded.text) == ("d1", "Claim d1", "It will be. Some day.")


def known(site) -> list[list[str]]:
    text = (site / "_static" / "sections.js").read_text("utf-8")
    return json.loads(text.removeprefix("window.tramplabSections = ").rstrip().removesuffix(";"))


def test_every_section_that_can_be_cited_is_known(site):
    found = {f"{page}.html#{anchor}" for page, anchor, _, _ in known(site)}
    own = {link.target for link in permalinks.read().values() if not link.id.startswith("fig-")}
    own = {target for target in own if target.partition("#")[2] not in findings.read()}
    missing = own - found
    assert missing == {"book/index.html#cite-it", "book/index.html#rerun"}, "they stand in front of one heading with a third"
    assert all(title.strip() for _, _, title, _ in known(site))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_search_from_a_file_finds_sections_with_an_excerpt(browser, bases, site, size):
    def look(tab):
        tab.goto(f"{bases['file']}/search.html?q=List+FUNCTION")
        tab.wait_for_selector("ul.search li a")
        links = [link.evaluate("a => a.getAttribute('href')") for link in tab.query_selector_all("ul.search li a")]
        excerpts = [p.text_content() for p in tab.query_selector_all("ul.search p.context")]
        marked = {mark.text_content().lower() for mark in tab.query_selector_all("ul.search mark")}
        seen.append((links, excerpts, marked))
        tab.goto(f"{bases['file']}/search.html?q=nosuchword")
        tab.wait_for_function("document.getElementById('search-results').textContent.includes('Try fewer')")

    seen: list = []
    assert visit(browser, bases["file"], "search", size, look=look).problems() == []
    ((links, excerpts, marked),) = seen
    assert len(links) == len(excerpts) > 3 and marked == {"list", "function"}
    texts = {(f"{page}.html", anchor): text for page, anchor, _, text in known(site)}
    for link, excerpt in zip(links, excerpts, strict=True):
        page, _, anchor = link.partition("#")
        assert excerpt.strip("… ") in texts[page.partition("?")[0], unquote(anchor)] and len(excerpt) < 260
