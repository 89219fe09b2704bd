"""Repairs of the finished pages for readers who use a screen reader; found with axe-core.

Each is a pattern in the HTML of docutils or the theme, and what takes its place. Done twice they change nothing.
"""

import re
from pathlib import Path

REPAIRS = {
    # docutils: entries of a bibliography have a role that ARIA 1.2 no longer knows, so the list seems to have no items
    r'role="doc-biblioentry"': 'role="listitem"',
    # the theme: the arrow that unfolds a chapter's pages in the sidebar is a button without a name
    r'<summary>(?=<span class="toctree-toggle")': '<summary aria-label="Pages of this chapter">',
    # myst-nb: the line that unfolds a cell's code has a name that hides its words
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    # Sphinx: listings, which the theme lets the keyboard scroll, have no name
    r'(<div class="highlight">)<pre>': r'\1<pre role="group" aria-label="Listing">',
    # the theme: the sidebar's title and search field are outside all landmarks
    r'<div id="pst-primary-sidebar" class=': '<div id="pst-primary-sidebar" role="complementary" aria-label="Book" class=',
    # the theme: what is read aloud is not what is seen, so that a reader who speaks to the computer cannot name it
    r'(search-button-field [^>]*?) aria-label="Search"': r"\1",
    r'(<i class="theme-switch [^>]*?) title="[^"]*"': r"\1",
}


def setup(app):
    """Register with Sphinx the repair of pages."""
    app.connect("build-finished", repair, priority=800)  # after those that write pages, before book_weight


def repair(app, exception):
    """Repair every page that was written."""
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text("utf-8")
            if (better := repaired(text)) != text:
                path.write_text(better, "utf-8")


def repaired(page: str) -> str:
    """A page with all repairs."""
    for pattern, better in REPAIRS.items():
        page = re.sub(pattern, better, page)
    return page
