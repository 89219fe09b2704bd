"""The search: what it knows of a page, and that it finds sections with an excerpt, from file:// too."""

import json
import sys
from urllib.parse import unquote

import pytest

from support import ROOT
from support.plugins.browser import DESKTOP, PHONE, visit
from tramplab_book.publish.cite import permalinks
from tramplab_book.publish.findings import findings

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from book_index import LEVELS, stem, words
from book_search import INDEX, sections

PAGE = """<body><nav>menu</nav><article><section id="page"><span id="label"></span><h1><span class="section-number">1. </span>
The page<a class="headerlink" href="#page">#</a></h1><p>First &amp; foremost<br>said.</p>
<section id="inner"><span id="id7"></span><h2>Inside</h2><div class="cell tag_hide-input"><details><summary>Show code</summary>
<div class="cell_input"><pre>code()</pre></div></details></div>
<div class="tl-figure"><p class="tl-title">What?</p><p class="tl-finding">This.</p>
<details><summary>Table</summary><pre>1 2</pre></details>
<details class="tl-cite"><summary>Cite</summary><pre>cited</pre></details><p class="tl-links">Rows: text</p></div>
<div class="tl-figure tl-own"><p>measured</p></div><img alt="picture"><ul><li>one</li><li>two</li></ul>
<div class="tl-figure tl-claim tl-holds" id="v1"><p class="tl-title">Claim v1</p><p>It is so.</p></div>
<details class="tl-claim" id="d1"><summary>It will be.</summary><p>Some day.</p></details>
<div class="tl-figure tl-claim tl-holds" id="a-finding"><p>Found.</p></div></section>
<p>Behind <code>user_mode()</code>.</p><dl><dt id="term-a">A<a class="headerlink" href="#term-a">#</a></dt><dt id="term-b">B</dt>
<dd><p>Both.</p></dd><dt id="term-c">C</dt><dd><p>Third.</p></dd></dl></section></article><p>outside</p></body>"""


def test_sections_say_what_readers_see_and_not_what_is_in_them():
    page, inner, claim, folded, *terms = sections(PAGE)
    assert (page.anchor, page.title.strip(), page.text) == ("label", "The page", "First & foremost said. Behind user_mode().")
    assert (page.code, inner.tables) == (["user_mode()"], ["1 2"])
    assert (inner.anchor, inner.title, inner.text) == ("inner", "Inside", "What? This. one two Found.")
    assert (claim.anchor, claim.title, claim.text) == ("v1", "Claim v1", "Claim v1 It is so.")
    assert (folded.anchor, folded.title, folded.text) == ("d1", "Claim d1", "It will be. Some day.")
    assert [(term.anchor, term.title, term.text) for term in terms] == [
        ("term-a", "A", "Both."),
        ("term-b", "B", "Both."),
        ("term-c", "C", "Third."),
    ]


def test_words_are_stems_identifiers_and_versions():
    text = "The calls of ftrace_ops_list_func() missed 3 times in v6.12, at 0xffff, said 0.25 of `x86-64`."
    assert list(words(text)) == ["call", "ftrace_ops_list_func", "miss", "time", "6.12", "said", "x86"]
    assert {stem(word) for word in ("patch", "patches", "patched", "patching")} <= {"patch", "patche"}


def known(site) -> dict:
    text = (site / "_static" / INDEX).read_text("utf-8")
    return json.loads(text.removeprefix("window.tramplabIndex = ").rstrip().removesuffix(";"))


def test_every_section_that_can_be_cited_is_known(site):
    index = known(site)
    found = {f"{index['pages'][page][0]}.html#{anchor}" for page, anchor, _, _ in index["sections"]}
    own = {link.target for link in permalinks.read().values() if not link.id.startswith("fig-")}
    own = {target for target in own if target.partition("#")[2] not in findings.read()}
    missing = own - found
    assert missing == {"book/index.html#cite-it", "book/index.html#rerun"}, "they stand in front of one heading with a third"
    assert all(title.strip() for _, _, title, _ in index["sections"]) and all(title for _, title in index["pages"])


def test_every_word_has_its_sections(site):
    """Unpacked, they are those in which it is, or a part of it."""
    index = known(site)
    assert index["levels"] == list(LEVELS)
    unpacked, before = {}, ""
    for shortened, hits in zip(index["words"].split(" "), index["hits"].split(" "), strict=True):
        before = before[: ord(shortened[0]) - ord("a")] + shortened[1:]
        places = [int(hit) // len(LEVELS) + 1 for hit in hits.split(",")]
        unpacked[before] = [sum(places[: n + 1]) - 1 for n in range(len(places))]
    assert list(unpacked) == sorted(unpacked) and len(unpacked) > 2000
    pages = {name: sections((site / f"{name}.html").read_text("utf-8")) for name, _ in index["pages"]}
    texts = [" ".join([s.title, s.text, *s.tables]).lower() for found in pages.values() for s in found]
    for word in ("freelist", "objpool", "pt_regs", "kaslr", "synchronize_rcu_tasks"):
        assert unpacked[word] == [n for n, text in enumerate(texts) if word in {*words(text), *words(text.replace("_", " "))}]


#: What somebody who works on this code types, and a place that is among the first three.
QUERIES = {
    "user_mode": "book/pt-regs-sparsity",
    "livepatch": "book/live-patching#live-patching",
    "user_mode pt_regs": "book/pt-regs-sparsity",
    "livepatch fexit riscv64": "book/live-patching",
    "shadow stack depth fprobe nmissed": "book/kretprobe-bounds",
    "kretprobe 6.12": "book/kretprobe-releases",
    "BL range KASLR": "book/direct-reach",
    "objpool": "book/direct-contention",
    "what is a trampoline": "book/glossary#term-trampoline",
    "freelist contention": "book/direct-contention#direct-contention",
    "synchronize_rcu_tasks": "book/patching-races#patching-races-barriers",
    "nmissed": "book/kretprobe-bounds#kretprobe-bounds-told",
    "AUIPC": "book/patching-schedules#patching-schedules-preempted",
    "stop_machine": "book/patching-races",
    "recursion guard": "book/direct-guards",
    "FTRACE_OPS_FL_SAVE_REGS": "book/glossary#term-ops-regs",
    "ftrace_partial_regs": "book/pt-regs-copy",
    "perf callchain riscv": "book/pt-regs-sparsity",
    "CALL_OPS x86": "book/call-ops-x86#call-ops-x86",
    "text size CALL_OPS": "book/call-ops-text#call-ops-text",
    "orc unwinder trampoline": "book/unwinding#unwinding",
    "systemtap": "book/kretprobe-migration",
    "return_to_handler stack trace": "book/kretprobe-unwinding",
    "task preempted between auipc and jalr": "book/patching-schedules#patching-schedules-preempted",
    "cost of a second ops": "book/trampoline-variants#single-callback",
    "bpf fexit cost": "book/kretprobe#kretprobe-cost",
    "entry data size fprobe": "book/kretprobe-features",
    "zen4 cycles model": "book/counts-to-time",
}


def test_what_one_looks_for_is_among_the_first_three(browser, bases):
    """Ranked by the script as a reader has it."""
    assert len(QUERIES) == 28
    found: dict[str, list[str]] = {}

    def look(tab):
        for query in QUERIES:
            ranked = tab.evaluate("query => tramplabFind(query)", query)
            found[query] = [f"{page}#{anchor}" for page, anchor, *_ in ranked[:3]]

    assert visit(browser, bases["file"], "search", look=look).problems() == []
    bad = {q: found[q] for q, place in QUERIES.items() if not any(f"{f}#".startswith(f"{place}#") for f in found[q])}
    assert bad == {}


def test_words_that_nothing_has_all_of_and_beginnings_of_words_are_found(browser, bases):
    def look(tab):
        for query in ("freelist nosuchword", "freel", "_mode", "nosuchword", "the", "objpool"):
            found[query] = tab.evaluate("query => tramplabFind(query)", query)

    found: dict[str, list] = {}
    visit(browser, bases["file"], "search", look=look)
    for query in ("freelist nosuchword", "freel"):
        assert "book/direct-contention" in [page for page, *_ in found[query][:3]]
    assert found["_mode"] and found["nosuchword"] == found["the"] == []
    places = [page for page, *_ in found["objpool"]]
    assert len(places) - places[::-1].index("book/direct-contention") <= places.index("book/references"), "lists come last"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_results_follow_what_is_typed_on_the_page_and_in_the_dialog(browser, bases, site, size):
    def look(tab):
        tab.goto(f"{bases['file']}/search.html?q=List+FUNCTION")
        tab.wait_for_selector("#search-results ul.search li a")
        links = [link.evaluate("a => a.href") for link in tab.query_selector_all("#search-results li a")]
        excerpts = [p.text_content() for p in tab.query_selector_all("#search-results p.context")]
        marked = {mark.text_content().lower() for mark in tab.query_selector_all("#search-results mark")}
        seen.append((links, excerpts, marked))
        tab.fill("main input[name=q]", "nosuchword")
        tab.wait_for_function("document.getElementById('search-results').textContent.includes('No sections')")
        tab.goto(f"{bases['file']}/book/method.html")
        tab.keyboard.press("Control+k")
        tab.keyboard.type("livepat")
        tab.wait_for_selector("#pst-search-dialog .tl-found li a")
        tab.keyboard.press("ArrowDown")
        first = tab.evaluate("document.activeElement.href")
        tab.keyboard.press("ArrowUp")
        assert tab.evaluate("document.activeElement.name") == "q"
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        tab.wait_for_url(first)
        seen.append(first)

    seen: list = []
    visited = visit(browser, bases["file"], "search", size, look=look)
    assert visited.problems() == [] and f"_static/{INDEX}" in visited.asked
    (links, excerpts, marked), first = seen
    assert len(links) == len(excerpts) > 3 and {word[:4] for word in marked} == {"list", "func"}
    assert first.endswith("book/live-patching.html?highlight=livepat#live-patching")
    index = known(site)
    texts = {(index["pages"][page][0], anchor): text for page, anchor, _, text in index["sections"]}
    for link, excerpt in zip(links, excerpts, strict=True):
        page, _, anchor = unquote(link).removeprefix(f"{bases['file']}/").partition("#")
        assert excerpt == texts[page.partition(".html")[0], anchor] and len(excerpt) < 150
