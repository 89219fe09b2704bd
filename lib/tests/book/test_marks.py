"""Charts in a browser: what a mark says is shown at the pointer, at a tap and for the keyboard, in both themes."""

import re

from support.plugins.browser import PHONE, SCREENS, visit

PAGE, CHART = "book/anatomy", ".tl-chart svg:visible"
TIP = "[(tip => tip.hidden ? null : tip.innerText)(document.querySelector('.tl-tip')), document.activeElement.ariaLabel]"
PLACE = "(({ left, right, top }) => [left, right, top])(document.querySelector('.tl-tip').getBoundingClientRect())"
#: What follows a scroll comes before the second frame.
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
STOPS = "[...document.querySelectorAll('.tl-chart svg')].map((svg) => svg.querySelectorAll('[tabindex=\"0\"]').length)"


def shown(said: str) -> str:
    """A label as the box has it: what it names, and below that its number."""
    names, _, number = said.rpartition("; ")
    return f"{names.replace('; ', ' · ')}\n{number}"


@SCREENS
def test_a_mark_says_what_it_is(browser, bases, size, scheme):
    """With the mouse or a finger, on a box too small for its name, and beside it; no longer where nothing is, or after Escape."""

    def look(tab):
        marks = tab.query_selector_all(CHART)[0].query_selector_all('[aria-roledescription="function"]')
        mark = next(one for one in marks if one.bounding_box()["width"] < 10)
        mark.scroll_into_view_if_needed()
        tab.evaluate(SETTLED)
        box, said = mark.bounding_box(), mark.get_attribute("aria-label")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        point = tab.mouse.click if size is PHONE else tab.mouse.move
        for aside in (0, box["width"] / 2 + 5):
            point(x + aside, y)
            at.append((tab.evaluate(TIP)[0], shown(said)))
        left, right, top = tab.evaluate(PLACE)
        assert 0 <= left < right <= size[0] and top >= 0
        ground, ink = tab.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.querySelector('.tl-tip')))")
        grounds.append([sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)])
        tab.keyboard.press("Escape")
        at.append((tab.evaluate(TIP)[0], None))
        point(x, y)
        (tab.mouse.click if size is PHONE else tab.mouse.move)(size[0] - 5, 200)
        at.append((tab.evaluate(TIP)[0], None))

    at, grounds = [], []
    assert visit(browser, bases["file"], PAGE, size, scheme, look=look).problems() == []
    assert at[0][0] == at[0][1] and at[1][0] and [found for found, wanted in at[2:]] == [None, None]
    ((ground, ink),) = grounds
    assert abs(ground - ink) > 400 and (ground > ink) == (scheme == "light")


def test_a_chart_is_one_stop_and_its_marks_are_reached_by_arrows(browser, bases):
    def look(tab):
        assert tab.evaluate(STOPS) == [1] * 6
        svg = tab.query_selector_all(CHART)[0]
        labels = [one.get_attribute("aria-label") for one in svg.query_selector_all('[aria-roledescription="function"]')]
        svg.query_selector('[tabindex="0"]').focus()
        for key, wanted in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1), ("ArrowRight", -1), ("Home", 0)):
            tab.keyboard.press(key)
            assert tab.evaluate(TIP) == [shown(labels[wanted]), labels[wanted]]
        tab.keyboard.press("ArrowDown")
        text, said = tab.evaluate(TIP)
        assert text == shown(said) and said != labels[0], "what is drawn below"
        tab.keyboard.press("ArrowUp")
        assert tab.evaluate(TIP)[1] == labels[0]
        tab.keyboard.press("Escape")
        assert tab.evaluate(TIP) == [None, labels[0]]
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.closest('.tl-chart')") is None

    assert visit(browser, bases["file"], PAGE, look=look).problems() == []
