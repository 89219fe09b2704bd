"""The built page of sparse registers: a cell of the matrix that is not right is a link, and what it leads to is opened."""

import pytest

from support.plugins.browser import DESKTOP, SCREENS, visit

PAGE, FIGURE = "book/pt-regs-sparsity", "#fig-register-consumers"
#: Of the cells of the chart: where each leads, if anywhere, and what it says.
CELLS = f"""[...document.querySelectorAll('{FIGURE} .tl-chart svg [aria-roledescription="letter"]')]
  .filter((cell) => cell.checkVisibility())
  .map((cell) => [cell.closest("a")?.getAttribute("href") ?? "", cell.getAttribute("aria-label")])"""
IN_VIEW = """(name) => { const { top, bottom } = document.getElementById(name).getBoundingClientRect();
  return document.getElementById(name).checkVisibility() && top >= 0 && bottom <= innerHeight; }"""


@SCREENS
def test_a_cell_that_is_not_right_leads_to_its_run(browser, bases, size, scheme):
    """By the mouse, on the letter in its middle; once more, after the run was folded; and by the keyboard."""

    def look(tab):
        cells = tab.evaluate(CELLS)
        assert len(cells) > 100 and all(bool(leads) == said.endswith(("wrong", "garbage")) for leads, said in cells)
        addresses = [leads[1:] for leads, _ in cells if leads]
        assert len(set(addresses)) == len(addresses) > 20
        assert tab.evaluate("(names) => names.filter((name) => !document.getElementById(name))", addresses) == []
        cell, name = tab.query_selector_all(f"{FIGURE} .tl-chart a:visible")[7], addresses[7]
        for _ in range(2):
            cell.scroll_into_view_if_needed()
            box = cell.bounding_box()
            tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            tab.wait_for_function(IN_VIEW, arg=name)
            tab.evaluate("document.querySelectorAll('.tl-runs, .tl-runs details').forEach((d) => { d.open = false; })")
        assert tab.url.endswith(f"{PAGE}.html#{name}")
        tab.query_selector_all(f"{FIGURE} .tl-chart a:visible")[-1].focus()
        tab.keyboard.press("Enter")
        tab.wait_for_function(IN_VIEW, arg=addresses[-1])

    assert visit(browser, bases["file"], PAGE, size, scheme, look=look).problems() == []


@pytest.mark.parametrize("javascript", [True, False], ids=["script", "none"])
def test_the_address_of_a_run_opens_it(browser, bases, javascript):
    """Without scripts, too: Chromium opens what an address is folded into."""
    name = "run-riscv64-ftrace-caller-perf-argument"

    def look(tab):
        assert not tab.is_visible(f"#{name}")
        tab.goto(f"{bases['file']}/{PAGE}.html#{name}")
        tab.wait_for_selector(f"#{name}", state="visible")
        assert 0 <= tab.query_selector(f"#{name}").bounding_box()["y"] <= DESKTOP[1] / 2
        assert "argument (regs_get_kernel_argument()): wrong" in tab.inner_text(f"#{name}")

    assert visit(browser, bases["file"], PAGE, javascript=javascript, look=look).problems() == []
