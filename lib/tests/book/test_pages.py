"""Every page of the built book in Chromium, opened as few times as will do; everything is looked at in one load.

Nothing leaves the site, nothing is said on the console or scrolls sideways, charts have the colours of the theme and no two
elements one id, what an address names is below the header, axe-core finds no fault, the page is light, and no rule is missed of
those that book/_ext leaves out.
"""

import itertools
import re

import pytest

from support.book.looks import copied, missed, opened, pasted, too_heavy, unfolded, weigh
from support.plugins.browser import DESKTOP, PAGES, PHONE, overflow, pages_with_chart, visit

#: How a page is read: from where, on what, in which theme. Every two of transport, size and theme meet.
WAYS = {
    "http-desktop-light": ("http", DESKTOP, "light"),
    "file-phone-dark": ("file", PHONE, "dark"),
    "http-phone-dark": ("http", PHONE, "dark"),
    "file-desktop-dark": ("file", DESKTOP, "dark"),
    "file-phone-light": ("file", PHONE, "light"),
}
OTHERS = ["search", "genindex"]
CHARTED = "book/unwinding"
#: Every page in one way, by turns, and one page with charts in all of them. There, too, is pressed and pasted by hand, and looked
#: at what pages have in common: menus, tooltips, the sidebar, the other theme.
OPENED = dict.fromkeys([*zip([*PAGES, *OTHERS], itertools.cycle(WAYS)), *((CHARTED, way) for way in WAYS)])


def turned(tab, size):
    """Give the window another size, and wait for what follows it: a tooltip in the next frame."""
    tab.set_viewport_size({"width": size[0], "height": size[1]})
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


#: Heights of a desktop's window: of the front page, and of lists, in which one looks something up.
MOST_SCREENS = {PAGES[0]: 3, "genindex": 99, "book/references": 99}


def screens(tab) -> float:
    """How many heights of a desktop's window the page has, with everything folded that is."""
    tab.evaluate("document.querySelectorAll('article details').forEach((d) => { d.open = d.dataset.open === 'true'; })")
    return tab.evaluate("(document.querySelector('article') ?? document.body).getBoundingClientRect().height") / DESKTOP[1]


# Of what addresses name, what is not below the page's header when the address is followed.
COVERED = """() => {
  const header = document.querySelector(".bd-header-article");
  const found = [...document.querySelectorAll("article :is(section, figure, dt, span, .tl-claim)[id]")].filter((named) => {
    if (!header || !named.checkVisibility() || named.closest("svg")) return false;
    location.hash = named.id;
    return named.getBoundingClientRect().top < header.getBoundingClientRect().bottom - 1;
  });
  history.replaceState(null, "", location.pathname);
  scrollTo(0, 0);
  return found.map(({ id }) => id);
}"""


TALLEST = "Math.max(0, ...[...document.querySelectorAll('.tl-chart svg')].map((svg) => svg.getBoundingClientRect().height))"


def readable(fills: list[str], scheme: str) -> bool:
    """On the page's own ground; what stands in a cell has the colour that suits the cell."""
    brightness = [sum(map(int, re.findall(r"\d+", fill)[:3])) / 3 for fill in fills]
    return min(brightness) < 90 if scheme == "light" else max(brightness) > 160


@pytest.mark.parametrize(("page", "way"), OPENED)
def test_page(browser, bases, site, page, way):
    def look(tab):
        tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.dataset.open = d.open; })")
        texts = tab.eval_on_selector_all(".tl-chart svg text", "all => all.map((e) => getComputedStyle(e).fill)")
        if texts:
            found["text"] = texts
        found["covered"] = tab.evaluate(COVERED)
        found["ids"] = tab.evaluate("[...document.querySelectorAll('[id]')].map(({ id }) => id)")
        found["copied"] = copied(tab)
        if page == CHARTED:
            found["copied"] += pasted(tab)
            tab.hover(".theme-switch-button")  # its tooltip comes while axe-core looks
        found["violations"] = unfolded(tab)
        if page != "genindex":
            found["missed"] = opened(tab, site) if page == CHARTED else missed(tab, site)
        found["screens"] = screens(tab)
        turned(tab, PHONE if size is DESKTOP else DESKTOP)
        found["overflow"] = overflow(tab)
        if size is DESKTOP:
            found["tallest"] = tab.evaluate(TALLEST)
        found["screens"] = found["screens"] if size is DESKTOP else screens(tab)

    transport, size, scheme = WAYS[way]
    found: dict = {}
    seen = visit(browser, bases[transport], page, size, scheme, look=look)
    assert seen.problems() == [] and found["violations"] == [] and found.get("missed", []) == []
    assert all(said == wanted for said, wanted in found["copied"])
    assert bool(found["copied"]) == (page in PAGES), "every page can be cited"
    if page == CHARTED:
        assert "not Linux" in " ".join(found["copied"][-1][1].split()) and "@incollection" in found["copied"][-1][1]
    assert found["overflow"] <= 0, "in a window of the other size, the page scrolls sideways"
    assert found["screens"] <= MOST_SCREENS.get(page, 12), "a page is split, or what is long is folded"
    assert found.get("tallest", 0) <= 1.5 * PHONE[1], "a chart is taller than a screen and a half of a phone"
    assert found["covered"] == [], "what an address names is under the header"
    assert len(set(found["ids"])) == len(found["ids"])
    assert bool(seen.charts) == ("text" in found) == (page in pages_with_chart(site))
    assert "text" not in found or readable(found["text"], scheme)
    sizes = weigh(site, seen.asked)
    assert len(sizes) > 10, "a page has style sheets and scripts"
    assert too_heavy(sizes) == []


def test_the_page_opened_in_all_ways_has_charts(site):
    assert CHARTED in pages_with_chart(site)
