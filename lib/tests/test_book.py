"""The built book in Chromium: nothing leaves the site, charts are drawn, phones and script-less readers are served.

The book is built once; TRAMPLAB_HTML names one that is already built.
"""

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import jupytext
import nbformat
import pytest
import yaml
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = [TOC["root"], *(chapter["file"] for part in TOC["parts"] for chapter in part["chapters"])]
DESKTOP, PHONE = (1280, 900), (390, 844)
CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",  # containers have no user namespaces
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # the browser's own requests, which are not the page's
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Under xdist all tests of this file go to one worker, so that the book is built once.
pytestmark = pytest.mark.xdist_group("book")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the built book."""
    if os.environ.get("TRAMPLAB_HTML"):
        return Path(os.environ["TRAMPLAB_HTML"]).resolve()
    out = tmp_path_factory.mktemp("book")
    command = [
        f"{sys.prefix}/bin/jupyter-book",
        "build",
        str(ROOT),
        "-W",
        "-n",
        "--keep-going",
        "--path-output",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"the book does not build:\n{done.stdout[-3000:]}\n{done.stderr[-8000:]}"
    return out / "_build" / "html"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium, with a profile of its own. Absent: skipped, but a failure where CI=true."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not path:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no Chromium found: browser tests not run")
    with sync_playwright() as playwright:
        # without a profile folder of the user's, playwright makes a fresh one for each launch
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def serve(folder: Path):
    """Serve a folder on a free port; returns its address and the function that ends it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def end():
        server.shutdown()
        server.server_close()

    return f"http://127.0.0.1:{server.server_port}", end


@pytest.fixture(scope="session")
def bases(site) -> dict[str, str]:
    """The addresses under which a reader may have the site."""
    address, end = serve(site)
    yield {"http": address, "file": site.as_uri()}
    end()


@dataclass
class Visit:
    """What happened while a page was open."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    charts: list[tuple[int, int]] = field(default_factory=list)  # bars expected, bars drawn
    overflow: int = 0  # pixels by which the page is wider than the window

    def problems(self) -> list[str]:
        found = [f"request to {url}" for url in self.outside] + self.errors
        found += [f"chart with {drawn} bars of {expected}" for expected, drawn in self.charts if drawn != expected]
        return found + ([f"scrolls sideways by {self.overflow} pixels"] if self.overflow > 0 else [])


def visit(
    browser, base: str, page: str, size=DESKTOP, scheme="light", javascript=True, look=None, patience=8000
) -> Visit:
    """Open a page, scroll to every chart, and report. Requests that leave the site are noted and stopped.

    `patience` is how many milliseconds a chart may take; `look` gets the open page at the end.
    """
    seen = Visit()
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=javascript
    )

    def gate(route):
        if route.request.url.startswith((base + "/", "data:", "blob:")):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    context.route("**/*", gate)
    tab = context.new_page()
    tab.on(
        "console",
        lambda message: (
            seen.errors.append(f"console: {message.text}") if message.type in ("error", "warning") else None
        ),
    )
    tab.on("pageerror", lambda error: seen.errors.append(f"script: {error}"))
    tab.goto(f"{base}/{page}.html", wait_until="load")
    if javascript:
        for chart in tab.query_selector_all(".tl-chart"):
            chart.scroll_into_view_if_needed()
            try:
                chart.wait_for_selector("svg", timeout=patience)
            except Exception:
                pass  # reported below as a chart with 0 bars
            drawn = len(chart.query_selector_all('svg [aria-roledescription="bar"]'))
            seen.charts.append((int(chart.get_attribute("data-bars")), drawn))
    seen.overflow = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if look:
        look(tab)
    context.close()
    return seen


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("transport", ["http", "file"])
def test_page(browser, bases, transport, size, scheme, page):
    assert visit(browser, bases[transport], page, size, scheme).problems() == []


def test_there_is_a_chart_to_look_at(browser, bases):
    assert sum(len(visit(browser, bases["file"], page).charts) for page in PAGES) > 0


def test_a_request_that_leaves_is_reported(browser, site, tmp_path):
    """The check can fail: one link to another host, and nothing else, makes it complain about just that."""
    shutil.copytree(site, tmp_path / "site")
    page = tmp_path / "site" / f"{PAGES[0]}.html"
    link = '<link rel="stylesheet" href="https://cdn.example/x.css"></head>'
    page.write_text(page.read_text("utf-8").replace("</head>", link, 1), "utf-8")
    address, end = serve(tmp_path / "site")
    try:
        for base in (address, (tmp_path / "site").as_uri()):
            assert visit(browser, base, PAGES[0]).outside == ["https://cdn.example/x.css"]
            assert visit(browser, base, PAGES[-1]).problems() == []
    finally:
        end()


def test_a_chart_that_is_not_drawn_is_reported(browser, site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site" / "_static" / "vega-bundle.js").write_text("window.tramplabVega = async () => {};")
    seen = visit(browser, (tmp_path / "site").as_uri(), pages_with_chart(site)[0], patience=500)
    assert seen.charts and seen.problems() == [f"chart with 0 bars of {expected}" for expected, _ in seen.charts]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_charts_are_pictures_without_javascript(browser, bases, site, size):
    widths = []

    def look(tab):
        assert not tab.query_selector_all(".tl-chart svg")
        for picture in tab.query_selector_all(".tl-chart img"):
            widths.append(
                picture.evaluate("img => [img.naturalWidth, img.getBoundingClientRect().width, img.currentSrc]")
            )
            assert picture.get_attribute("alt")

    for page in pages_with_chart(site):
        assert visit(browser, bases["file"], page, size, javascript=False, look=look).problems() == []
    assert widths
    for natural, shown, source in widths:
        assert natural > 200 and 200 < shown <= size[0]
        assert source.endswith("-narrow.svg") == (size is PHONE)


def test_chart_text_follows_the_theme(browser, bases, site):
    def brightness(tab):
        text = tab.query_selector(".tl-chart svg text")
        colour = text.evaluate("e => getComputedStyle(e).fill")
        levels.append(sum(map(int, re.findall(r"\d+", colour)[:3])) / 3)

    levels: list[float] = []
    for scheme in ("light", "dark"):
        visit(browser, bases["file"], pages_with_chart(site)[0], scheme=scheme, look=brightness)
    assert levels[0] < 90 and levels[1] > 160


def test_bundle_is_loaded_only_where_a_chart_is(browser, bases, site):
    def look(tab):
        loaded[tab.url] = tab.evaluate("!!window.tramplabVega")

    loaded: dict[str, bool] = {}
    for page in PAGES:
        visit(browser, bases["file"], page, look=look)
    assert {url for url, yes in loaded.items() if yes} == {
        f"{bases['file']}/{page}.html" for page in pages_with_chart(site)
    }


# -- without a browser


@pytest.mark.parametrize("page", PAGES)
def test_page_opens_as_a_notebook(page):
    """JupyterLab refuses a page whose front matter makes no valid notebook; the book's build does not mind."""
    text = (ROOT / f"{page}.md").read_text()
    if "{code-cell}" in text:
        notebook = jupytext.reads(text, fmt="md:myst")
        nbformat.validate(notebook)
        assert {cell.cell_type for cell in notebook.cells} == {"markdown", "code"}


class Links(HTMLParser):
    """Ids and addresses of one page."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src", "srcset") and value:
                self.links.append(value)


def pages_with_chart(site: Path) -> list[str]:
    return [page for page in PAGES if 'class="tl-chart"' in (site / f"{page}.html").read_text("utf-8")]


def test_every_link_inside_the_site_leads_somewhere(site):
    """Also those in raw HTML, which Sphinx does not look at."""
    # _static has the theme's templates
    files = [path for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "_static"]
    pages = {path.resolve(): Links(path.read_text("utf-8")) for path in files}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            address, fragment = urldefrag(unquote(link))
            if re.match(r"[a-z]+:", address):
                continue
            target = (path.parent / address.partition("?")[0]).resolve() if address else path
            if not target.is_file() or (fragment and target in pages and fragment not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_figures_have_their_files_and_a_table_in_the_page(site):
    for page in pages_with_chart(site):
        text = (site / f"{page}.html").read_text("utf-8")
        figures = re.findall(r'href="(_gen/(fig-[\w-]+))\.csv"', text)
        assert figures
        for address, name in figures:
            assert f'id="{name}"' in text, f"{name} is shown under another name"
            for suffix in (".csv", ".json"):
                assert (site / page).parent.joinpath(address + suffix).stat().st_size > 50
        assert text.count("<summary>Table</summary>") >= len(figures)
