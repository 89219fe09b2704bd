"""Every page of the built book in Chromium, opened as few times as will do; everything is looked at in one load.

Nothing leaves the site, nothing is said on the console or scrolls sideways, charts are drawn in the colours of the theme,
axe-core finds no fault, the page is light, and no rule is missed of those that book/_ext leaves out.
"""

import re

import pytest
from browser import DESKTOP, PAGES, PHONE, pages_with_chart, visit
from looks import BUNDLE, opened, too_heavy, unfolded, weigh

#: How a page is read: from where, on what, in which theme.
WAYS = {
    "http-desktop-light": ("http", DESKTOP, "light"),
    "file-phone-dark": ("file", PHONE, "dark"),
    "http-phone-dark": ("http", PHONE, "dark"),
    "file-desktop-dark": ("file", DESKTOP, "dark"),
    "file-phone-light": ("file", PHONE, "light"),
}
USUAL = list(WAYS)[:2]  # every page is read so: each transport, size and theme once
OTHERS = ["search", "genindex"]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS])
@pytest.mark.parametrize("way", USUAL)
def test_page(browser, bases, site, page, way):
    def look(tab):
        text = tab.query_selector(".tl-chart svg text")
        if text:
            found["text"] = text.evaluate("e => getComputedStyle(e).fill")
        found["violations"] = unfolded(tab)
        if page != "genindex" and (size is DESKTOP or page == PAGES[0]):
            found["missed"] = opened(tab, site)

    transport, size, scheme = WAYS[way]
    found: dict = {}
    seen = visit(browser, bases[transport], page, size, scheme, look=look, charts=True)
    assert seen.problems() == [] and found["violations"] == [] and found.get("missed", []) == []
    drawn = page in pages_with_chart(site)
    assert bool(seen.charts) == ("text" in found) == (BUNDLE in seen.asked) == drawn, "the bundle is for charts"
    if drawn:
        brightness = sum(map(int, re.findall(r"\d+", found["text"])[:3])) / 3
        assert brightness < 90 if scheme == "light" else brightness > 160
    sizes = weigh(site, seen.asked)
    assert len(sizes) > 10, "a page has style sheets and scripts"
    assert too_heavy(sizes) == []


@pytest.mark.parametrize("way", list(WAYS)[2:])
def test_a_page_with_charts_in_the_other_ways(browser, bases, site, way):
    """So every two of transport, size and theme meet."""
    transport, size, scheme = WAYS[way]
    seen = visit(browser, bases[transport], pages_with_chart(site)[0], size, scheme, charts=True)
    assert seen.charts and seen.problems() == []
