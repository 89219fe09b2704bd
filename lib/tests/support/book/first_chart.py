"""How long a reader waits for the first chart of a page, from opening it at that."""

from pathlib import Path

from support.plugins.browser import DESKTOP, FIRST_CHART, first_figure

CHART_LIMIT = 1.5  # seconds
#: Work for the browser: 20 million steps, each of which waits for the one before; and how long it takes where nothing else
#: runs, in seconds (a virtual machine on a server's Zen 3).
SPIN = "let x = 1; for (let i = 0; i < 2e7; i++) x = Math.imul(x, 31) + i | 0; window.spun = x;"
QUIET = 0.125


def slowness(tab) -> float:
    """How many times as long as there the same work takes here and now; not below 1."""
    spin = f"() => {{ const start = performance.now(); {SPIN} return performance.now() - start; }}"
    return max(1, min(tab.evaluate(spin) for _ in range(3)) / 1000 / QUIET)


def in_time(browser, address: str) -> bool:
    """Is a page's first chart there in time after it was opened? On a busy machine: would it be on a quiet one? `address` names
    the chart's figure, as a citation does."""
    context = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
    tab = context.new_page()
    tab.add_init_script(FIRST_CHART)
    tab.goto(address)
    tab.wait_for_function("window.firstChart", timeout=60_000)
    time = tab.evaluate("window.firstChart") / 1000
    there = time <= CHART_LIMIT or time <= CHART_LIMIT * slowness(tab)
    context.close()
    return there


def fast_enough(browser, base: str, site: Path, page: str, tries: int = 5) -> bool:
    """Is the first chart there in time at least once? Other work on the machine can only add to a time."""
    place, name = first_figure(site, page).split("#")
    return any(in_time(browser, f"{base}/{place}.html#{name}") for _ in range(tries))
