"""The shell of a page: the width of its column, and what is wider than a phone."""

import pytest

from support.plugins.browser import DESKTOP, PHONE, visit

COLUMN = 760  # px that a figure has on a desktop
# Of all that scrolls sideways: whether the keyboard reaches it, its name, and the pictures behind it: two grounds, two shadows.
SIDEWAYS = """() => {
  for (const fold of document.querySelectorAll("article details")) fold.open = true;
  return [...document.querySelectorAll("article *")]
    .filter((e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1)
    .map((e) => [e.tabIndex, e.ariaLabel, getComputedStyle(e).backgroundAttachment]);
}"""


@pytest.mark.parametrize("page", ["book/index", "book/trampoline-variants", "book/method"])
def test_the_column_is_as_wide_as_a_chart(browser, bases, page):
    widths = []
    look = "all => all.map((e) => e.getBoundingClientRect().width)"
    visit(browser, bases["file"], page, DESKTOP, look=lambda tab: widths.extend(tab.eval_on_selector_all(".tl-figure", look)))
    assert widths and max(widths) >= COLUMN


@pytest.mark.parametrize("page", ["book/index", "book/real-kernels", "book/pt-regs-ways"])
def test_what_is_wider_than_a_phone_shows_that_it_scrolls(browser, bases, page):
    found = []
    visit(browser, bases["file"], page, PHONE, look=lambda tab: found.extend(tab.evaluate(SIDEWAYS)))
    assert len(found) > 1
    for tab_index, name, attached in found:
        assert tab_index == 0 and name and attached.split(", ")[:4] == ["local", "local", "scroll", "scroll"]
