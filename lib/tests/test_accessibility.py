"""axe-core on every page: nothing that keeps a reader with a screen reader, a keyboard or weak eyes from using it."""

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import PAGES, PHONE, SCREENS, pages_with_chart, visit


def violations(tab) -> list[str]:
    """What axe-core calls serious or critical in what the page shows now: rule and element."""
    found = Axe().run(tab, options={"resultTypes": ["violations"]}).response["violations"]
    return sorted(
        f"{violation['id']}: {node['html'][:120]}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    )


def unfolded(tab) -> list[str]:
    """The same with everything opened that the page has folded."""
    tab.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    tab.wait_for_timeout(400)  # the theme makes blocks that scroll reachable by keyboard 300 ms after a change
    return violations(tab)


@SCREENS
@pytest.mark.parametrize("page", [*PAGES, "search", "genindex"])
def test_page(browser, bases, page, size, scheme):
    found = []
    visit(browser, bases["file"], page, size, scheme, look=lambda tab: found.append(unfolded(tab)))
    assert found == [[]]


@SCREENS
def test_menus_and_dialogs(browser, bases, site, size, scheme):
    def look(tab):
        openers = [".dropdown-download-buttons > button"]
        openers += [".primary-toggle", ".secondary-toggle"] if size is PHONE else []
        for opener in openers:
            tab.click(opener)
            tab.wait_for_selector("dialog[open], .dropdown-menu.show")
            found.append((opener, violations(tab)))
            tab.keyboard.press("Escape")
        tab.keyboard.press("Control+k")
        tab.wait_for_selector("#pst-search-dialog[open]")
        found.append(("search", violations(tab)))
        tab.keyboard.press("Escape")
        if size is PHONE:  # a button that comes when one scrolls up
            for y in (900, 600):
                tab.evaluate(f"scrollTo(0, {y})")
                tab.wait_for_timeout(200)
            tab.wait_for_selector("#pst-back-to-top")
            found.append(("back to top", violations(tab)))

    found: list[tuple[str, list[str]]] = []
    visit(browser, bases["file"], pages_with_chart(site)[0], size, scheme, look=look)
    assert len(found) == (5 if size is PHONE else 2) and {name: bad for name, bad in found if bad} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_search_results_and_the_words_marked_in_them(browser, bases, scheme):
    def look(tab):
        tab.fill("main input[name=q]", "trampoline")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("ul.search li a")
        found.append(violations(tab))
        tab.click("ul.search li a")
        tab.wait_for_selector("span.highlighted")
        found.append(violations(tab))

    found: list[list[str]] = []
    visit(browser, bases["http"], "search", scheme=scheme, look=look)
    assert found == [[], []]


@pytest.mark.parametrize(
    "html, rule",
    [
        ('<img src="../_static/favicon.svg"/>', "image-alt"),
        ('<p style="color: #999; background: #fff">pale</p>', "color-contrast"),
        ("<details><summary></summary>text</details>", "summary-name"),
        ('<details><summary>more</summary><input type="text"/></details>', "label"),
    ],
)
def test_a_fault_is_reported(browser, site, tmp_path, html, rule):
    """The check can fail: one fault, and nothing else, makes it complain about just that; also inside a fold."""
    shutil.copytree(site, tmp_path / "site")
    page = tmp_path / "site" / f"{PAGES[0]}.html"
    page.write_text(page.read_text("utf-8").replace("</article>", html + "</article>", 1), "utf-8")
    found = []
    visit(browser, (tmp_path / "site").as_uri(), PAGES[0], look=lambda tab: found.extend(unfolded(tab)))
    assert [text.partition(":")[0] for text in found] == [rule]
