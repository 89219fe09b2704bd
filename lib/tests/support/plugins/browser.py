"""The built book and a browser for the tests that look at it; a plugin of pytest, named in conftest.py.

The book is built once; TRAMPLAB_HTML names one that is already built. --keep-book=FOLDER builds it there, and leaves it.
"""

import fcntl
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from support import ROOT

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
CHAPTERS = [chapter for part in TOC["parts"] for chapter in part["chapters"]]
PAGES = [TOC["root"], *(page["file"] for chapter in CHAPTERS for page in (chapter, *chapter.get("sections", ())))]
DESKTOP, PHONE = (1280, 900), (390, 844)
# For what does not depend on where a page is from.
SCREENS = pytest.mark.parametrize(
    "size, scheme", [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop-light", "phone-dark"]
)
# Changes of a page take no time, and none is seen half done: a tooltip that fades in has every contrast from 1 up.
STILL = """{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`*, *::before, *::after {
    transition: none !important; animation: none !important; scroll-behavior: auto !important;
  }`);
  document.adoptedStyleSheets.push(sheet);
}"""
# To the end, and back to where an address leads.
THROUGH = """async () => {
  const back = scrollY;
  for (const to of [document.documentElement.scrollHeight, back]) {
    scrollTo(0, to);
    await new Promise((done) => setTimeout(done, 20));
  }
}"""
# Of each chart how many layouts are shown, and of these the marks, as expected and as drawn.
DRAWN = """[...document.querySelectorAll(".tl-chart")].filter((chart) => chart.checkVisibility()).map((chart) => {
  const shown = [...chart.querySelectorAll("svg")].filter((svg) => svg.checkVisibility());
  const drawn = shown.flatMap((svg) => [...svg.querySelectorAll(`[aria-roledescription="${chart.dataset.role}"]`)]);
  return [+chart.dataset.marks, shown.length === 1 ? drawn.length : 0];
})"""
# The first that is there; that one has no window at all, and takes three quarters of the time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
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


def pytest_addoption(parser):
    parser.addoption("--keep-book", metavar="FOLDER", type=Path, help="build the book there, and leave it and the times it shows")
    parser.addoption("--without-book", action="store_true", help="leave out what looks at the built book, or needs a browser")
    parser.addoption("--pages", metavar="NAMES", default="method", help="the pages whose cells test_cells executes (method)")


def pytest_collection_modifyitems(config, items):
    """What a test asks for it may ask for by way of other fixtures."""
    if config.option.without_book:
        looking = [item for item in items if {"site", "browser"} & {*item.fixturenames}]
        config.hook.pytest_deselected(items=looking)
        items[:] = [item for item in items if item not in looking]


@pytest.fixture(scope="session")
def site(tmp_path_factory, pytestconfig) -> Path:
    """The folder of the built book."""
    if os.environ.get("TRAMPLAB_HTML"):
        return Path(os.environ["TRAMPLAB_HTML"]).resolve()
    out = pytestconfig.option.keep_book
    if out is None:
        out = tmp_path_factory.getbasetemp()
        out = (out.parent if "PYTEST_XDIST_WORKER" in os.environ else out) / "book"  # one for all workers
    html = out / "_build" / "html"
    out.mkdir(exist_ok=True)
    with (out / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "built").exists():
            build(out)
            (out / "built").touch()
    return html


def build(out: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "book" / "_ext" / "book_build.py"),
        "build",
        str(ROOT),
        "-W",
        "-n",
        "--keep-going",
        "--path-output",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"the book does not build:\n{done.stdout[-3000:]}\n{done.stderr[-8000:]}"


@pytest.fixture(scope="session")
def browser():
    """Chromium, with a profile of its own. Absent: skipped, but a failure where CI=true."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not path:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no Chromium found: browser tests not run")
    from playwright.sync_api import sync_playwright  # here, so that the other tests do without it

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

    asked: set[str] = field(default_factory=set)  # files, as paths from the base
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    charts: list[tuple[int, int]] = field(default_factory=list)  # marks expected, marks drawn
    overflow: int = 0  # pixels by which the page is wider than the window

    def problems(self) -> list[str]:
        found = [f"request to {url}" for url in self.outside] + self.errors
        found += [f"chart with {drawn} marks of {expected}" for expected, drawn in self.charts if drawn != expected]
        return found + ([f"scrolls sideways by {self.overflow} pixels"] if self.overflow > 0 else [])


def visit(browser, base: str, page: str, size=DESKTOP, scheme="light", javascript=True, look=None) -> Visit:
    """Open a page and report. Requests that leave the site are noted and stopped.

    page: without .html; may end with a place in it. The page is scrolled to its end and back, for what loads only then. `look` gets
    the open page at the end. See STILL.
    """
    seen = Visit()
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=javascript
    )

    def leaves(route):
        seen.outside.append(route.request.url)
        route.abort()

    def asks(request):
        if request.url.startswith(base + "/"):
            seen.asked.add(unquote(urlsplit(request.url.removeprefix(base + "/")).path))

    context.add_init_script(STILL)
    context.on("request", asks)
    context.route(re.compile(f"^(?!{re.escape(base)}/|data:|blob:)"), leaves)
    tab = context.new_page()
    tab.on(
        "console",
        lambda message: (
            seen.errors.append(f"console: {message.text}") if message.type in ("error", "warning") else None
        ),
    )
    tab.on("pageerror", lambda error: seen.errors.append(f"script: {error}"))
    name, hash_, place = page.partition("#")
    tab.goto(f"{base}/{name}.html{hash_}{place}", wait_until="load")
    if javascript:  # else no timer ever ends
        tab.evaluate(THROUGH)
    seen.charts = [tuple(marks) for marks in tab.evaluate(DRAWN)]
    seen.overflow = overflow(tab)
    if look:
        look(tab)
    context.close()
    return seen


def overflow(tab) -> int:
    """How many pixels the open page is wider than its window."""
    return tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@contextmanager
def reader(browser, javascript):
    """arrives(base, address, there): where a reader who follows an address ends, relative to the base.

    Stops waiting when the reader has come to `there`.
    """
    from playwright.sync_api import TimeoutError as TooLate

    context = browser.new_context(java_script_enabled=javascript)

    def arrives(base, address, there) -> str:
        tab = context.new_page()
        tab.goto(f"{base}/{address}", wait_until="load")
        if address == there:
            tab.wait_for_timeout(400)  # it would have left by now
        else:
            with suppress(TooLate):
                tab.wait_for_url(f"{base}/{there}", timeout=30_000)
        return tab.url.removeprefix(f"{base}/")

    try:
        yield arrives
    finally:
        context.close()


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
