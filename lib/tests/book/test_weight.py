"""What a page costs its reader: bytes to load.

The pages get their small size from book/_ext/book_weight.py, which leaves out most of the theme; what it leaves out must
not be missed. That no page of the book is too heavy or misses anything is in test_pages.py.
"""

import base64
import random
import shutil
import sys

import pytest
import tinycss2

from support import ROOT
from support.book.looks import INDEX, INDEX_LIMIT, PAGE_LIMIT, WHOLE, missed, too_heavy, weigh
from support.plugins.browser import PAGES, pages_with_chart, visit

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import book_icons
import book_styles
import book_weight


def test_a_heavy_page_and_a_heavy_index_are_reported(browser, site, tmp_path):
    """Also what is loaded only where one scrolls to."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    page = pages_with_chart(site)[0]
    noise = f"// {base64.b64encode(random.Random(1).randbytes(PAGE_LIMIT)).decode()}\n"  # does not compress below 3/4
    (folder / "_static" / "large.svg").write_text(noise, "utf-8")
    path = folder / f"{page}.html"
    image = '<img src="../_static/large.svg" alt="" loading="lazy" style="width: 1px"></article>'
    path.write_text(path.read_text("utf-8").replace("</article>", image, 1), "utf-8")
    (heavy,) = too_heavy(weigh(folder, visit(browser, folder.as_uri(), page).asked))
    assert "large.svg" in heavy
    assert too_heavy({INDEX: INDEX_LIMIT + 1}) == [f"the index has {INDEX_LIMIT + 1} bytes"]


def test_the_script_of_the_charts_is_small():
    assert (ROOT / "book" / "_static" / "marks.js").stat().st_size <= 10_000


# -- what was left out is not missed


def test_a_missed_rule_is_reported(browser, bases, site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    sheet = tmp_path / "site" / "_static" / "styles" / "pydata-sphinx-theme.css"
    rules = sheet.read_text("utf-8").splitlines(keepends=True)
    sheet.write_text("".join(rule for rule in rules if not rule.startswith(".bd-sidebar-primary{")), "utf-8")
    found = []
    visit(browser, bases["file"], PAGES[0], look=lambda tab: found.extend(missed(tab, tmp_path / "site")))
    assert found == [".bd-sidebar-primary"]


def test_search_and_copying_work_without_the_scripts_left_out(browser, bases):
    """From a page, through the search dialog, to the results; and the copy button of a code cell."""

    def look(tab):
        tab.keyboard.press("Control+k")
        tab.fill("#pst-search-dialog input", "trampoline")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("ul.search li a", timeout=30_000)
        hits.append(len(tab.query_selector_all("ul.search li a")))

    def copy(tab):
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab.hover("div.highlight")
        tab.click("button.copybtn >> nth=0")
        tab.wait_for_selector("button.copybtn.success")
        hits.append(tab.evaluate("navigator.clipboard.readText()"))

    hits: list = []
    page = "book/method"  # its first cell is open
    visit(browser, bases["http"], page, look=look)
    visit(browser, bases["http"], page, look=copy)
    found, copied = hits
    assert found >= 1 and copied.splitlines()[0] in (ROOT / f"{page}.md").read_text("utf-8").splitlines()


# -- without a browser


@pytest.fixture(scope="module")
def icons():
    sheet = WHOLE["styles/pydata-sphinx-theme.css"].read_text("utf-8")
    return book_icons.Icons(book_icons.SCRIPT.read_text("utf-8"), [sheet])


def test_icons_of_the_pages_are_pictures(site):
    for page in [*PAGES, "search"]:
        text = (site / f"{page}.html").read_text("utf-8")
        assert text.count('<svg class="svg-inline--fa') >= 6  # three of the theme switch alone
        assert 'class="fa' not in text


def test_an_icon_element_becomes_a_picture_with_its_other_classes_and_its_title(icons):
    made = icons.pictures('<i class="theme-switch fa-solid fa-sun fa-lg" data-mode="light" title="Light"></i>')
    assert made.startswith('<svg class="svg-inline--fa theme-switch fa-sun fa-lg" data-mode="light" aria-hidden="true"')
    assert "<title>Light</title><path " in made and not icons.unknown


@pytest.mark.parametrize("classes", ["fa-solid fa-nonsense", "fas", "far fa-circle"])
def test_an_icon_without_outline_is_reported(classes):
    icons = book_icons.Icons(book_icons.SCRIPT.read_text("utf-8"), [])
    element = f'<span class="{classes}"></span>'
    assert icons.pictures(element) == element and icons.unknown == {classes}


def test_other_elements_are_left_alone(icons):
    page = '<span class="fast"></span><i class="x-fa-y"></i><i class="fa-solid">text</i><span id="fa-sun"></span>'
    assert icons.pictures(page) == page and not icons.unknown


def declarations(icons, css: str) -> str:
    return book_styles.reduced(css, {"note"}, icons.block)


def test_an_icon_in_the_style_sheet_becomes_a_mask(icons):
    made = declarations(
        icons, ".note::after{color:red;content:var(--pst-icon-admonition-note);font:var(--fa-font-solid)}"
    )
    assert 'content:"";' in made and "mask:url(" in made and "color:red" in made and "font" not in made


@pytest.mark.parametrize("content", ['"#"', '"\\2014"', "var(--unknown)", "counter(x)"])
def test_other_content_stays(icons, content):
    assert content in declarations(icons, f".note::after{{content:{content}}}").replace("—", "\\2014")


@pytest.mark.parametrize(
    "css, kept",
    [
        (".used{a:b}", True),
        (".used .other{a:b}", False),
        (".other,.used:hover{a:b}", True),
        ("p:not(.other){a:b}", True),
        ("#used>p.other{a:b}", False),
        ("@media print{.used{a:b}.other{a:b}}", True),
        ("@media print{.other{a:b}}", False),
        ("/*! MIT licence */", True),
        ("/* remark */", False),
        ("@keyframes other{to{a:b}}", True),
        ("@font-face{font-family:other}", False),
    ],
)
def test_rules_that_can_apply_are_kept(css, kept):
    made = book_styles.reduced(css, {"used"}, lambda rule: tinycss2.serialize(rule.content))
    assert bool(made) == kept and ("other{a:b}" not in made or "keyframes" in made)


def test_scripts_are_taken_out_by_name():
    page = (
        '<script src="../_static/a.js?v=1"></script>\n<script defer="defer" src="b.js"></script><script>a.js</script>'
    )
    assert book_weight.without_scripts(page, ("a",)) == page.partition("\n")[2]
    assert book_weight.without_scripts(page, ("b", "c")) == page.replace(
        '<script defer="defer" src="b.js"></script>', ""
    )
