"""Nothing that keeps a reader with a screen reader, a keyboard or weak eyes from using menus, dialogs and the search.

The pages themselves are looked at in test_pages.py.
"""

import pytest

from support.book.looks import unfolded, violations
from support.plugins.browser import PAGES, PHONE, SCREENS, visit

OPEN = "dialog[open], .dropdown-menu.show"


@SCREENS
def test_menus_and_dialogs(browser, bases, size, scheme):
    def look(tab):
        openers = [".dropdown-download-buttons > button"]
        openers += [".primary-toggle", ".secondary-toggle"] if size is PHONE else []
        for opener in openers:
            tab.click(opener)
            tab.wait_for_selector(OPEN)
            found.append((opener, violations(tab, OPEN)))
            tab.keyboard.press("Escape")
            tab.wait_for_selector(OPEN, state="detached")
        tab.keyboard.press("Control+k")
        tab.wait_for_selector("#pst-search-dialog[open]")
        tab.keyboard.type("trampoline")
        tab.wait_for_selector("#pst-search-dialog li")
        found.append(("search", violations(tab, OPEN)))
        tab.keyboard.press("Escape")
        tab.hover(".theme-switch-button")
        tab.wait_for_selector(".tooltip")
        found.append(("tooltip", violations(tab)))
        if size is PHONE:  # a button that comes when one scrolls up
            for y in (900, 600):
                tab.evaluate(SCROLLED, y)
            tab.wait_for_selector("#pst-back-to-top")
            found.append(("back to top", violations(tab)))

    found: list[tuple[str, list[str]]] = []
    visit(browser, bases["file"], "book/method", size, scheme, look=look)
    assert len(found) == (6 if size is PHONE else 3) and {name: bad for name, bad in found if bad} == {}


# Scroll there; done when the page has been told.
SCROLLED = """(y) => new Promise((done) => {
  addEventListener("scroll", () => requestAnimationFrame(() => requestAnimationFrame(done)), { once: true });
  scrollTo(0, y);
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_search_results_and_the_words_marked_in_them(browser, bases, scheme):
    def look(tab):
        tab.fill("main input[name=q]", "trampoline")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("ul.search li a")
        found.append(violations(tab))
        tab.click("ul.search li a")
        tab.wait_for_selector("span.highlighted")
        found.append(violations(tab, "span.highlighted"))

    found: list[list[str]] = []
    visit(browser, bases["http"], "search", scheme=scheme, look=look)
    assert found == [[], []]


GREY = '<p style="color: #999">pale on white, and not on black</p>'
HIDDEN = '<a href="#x" style="color: #222; text-decoration: none">a link</a>'
LINKED = '<p>there is <a href="#x">a link</a></p>'
FAULTS = [
    ("image-alt", '<img src="../_static/favicon.svg"/>'),
    ("color-contrast", '<p style="color: #999; background: #fff">pale</p>'),
    ("color-contrast", f'<div style="background: #000">{9 * GREY}</div><div style="background: #fff">{GREY}</div>'),
    ("link-in-text-block", f"{9 * LINKED}<p>there is {HIDDEN} in this line of text</p>"),
    ("summary-name", "<details><summary></summary>text</details>"),
    ("label", '<details><summary>more</summary><input type="text"/></details>'),
    ("label-content-name-mismatch", '<button aria-label="Find">Search the book</button>'),
    ("landmark-unique", '<section aria-label="one">a</section><section aria-label="one">b</section>'),
]


def test_faults_are_reported(browser, bases):
    """The check can fail: each fault, and nothing else, makes it complain about just that; also inside a fold."""

    def look(tab):
        tab.evaluate("html => document.querySelector('article').insertAdjacentHTML('beforeend', html)", html)
        found.extend(unfolded(tab))

    html, found = "".join(text for _, text in FAULTS), []
    visit(browser, bases["file"], PAGES[0], look=look)
    assert sorted(text.partition(":")[0] for text in found) == sorted(rule for rule, _ in FAULTS)
