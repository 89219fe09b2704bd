"""What a page loads: of the theme's scripts and style sheets only what this book uses.

Works on the finished pages, as the last step of a build; a second time changes nothing.
"""

import re
import shutil
from pathlib import Path

import book_icons
import book_styles
from sphinx.util import logging

# Font Awesome's script: see book_icons. Sphinx's search: see book_search.
_UNUSED_SCRIPTS = ("fontawesome", "searchtools", "language_data", "searchindex")

# No page asks for these: maps for debugging the theme, its templates, the icon fonts, texts in other languages, the search.
_LEFTOVERS = ("**/*.map", "**/*-macros.html", "scripts/fontawesome.js*", "vendor/fontawesome", "locales")
_LEFTOVERS += ("searchtools.js", "language_data.js")

# Class names that scripts put together from pieces. Bootstrap: `bs-${name}-auto`.
_COMPOSED = {"bs-tooltip-auto"}

_OWN = Path(__file__).parents[1] / "_static"
_SCRIPT = re.compile(r'<script\b[^>]*\bsrc="(?:[^"]*/)?([\w.-]+?)\.js(?:\?[^"]*)?"[^>]*></script>\n?')

logger = logging.getLogger(__name__)


def setup(app):
    """Register with Sphinx what makes pages lighter."""
    app.connect("build-finished", lighten, priority=900)  # after everything that writes pages


def lighten(app, exception):
    """Take out of the finished site what is not used; an icon without outline is a warning."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    for leftover in {path for pattern in _LEFTOVERS for path in static.glob(pattern)}:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    pages = {path: path.read_text("utf-8") for path in sorted(out.rglob("*.html"))}
    sheets = {
        path: path.read_text("utf-8") for path in sorted(static.rglob("*.css")) if not (_OWN / path.name).is_file()
    }
    icons = book_icons.Icons(book_icons.SCRIPT.read_text("utf-8"), list(sheets.values()))
    for path, text in pages.items():
        pages[path] = icons.pictures(without_scripts(text, _UNUSED_SCRIPTS))
        path.write_text(pages[path], "utf-8")
    used = names_in_use(list(pages.values()), static)
    for path, css in sheets.items():
        path.write_text(book_styles.reduced(css, used, icons.block), "utf-8")
    for icon in sorted(icons.unknown):
        logger.warning("no outline for the icon %s: only solid icons and brands of the theme", icon, type="book")


def without_scripts(page: str, names: tuple[str, ...]) -> str:
    """A page without the <script> elements that load files of these names."""
    return _SCRIPT.sub(lambda match: "" if match[1] in names else match[0], page)


def names_in_use(pages: list[str], static: Path) -> set[str]:
    """All words that may be a class or an id in the pages, now or after scripts have run."""
    scripts = [path.read_text("utf-8") for path in sorted(static.rglob("*.js"))]
    return _COMPOSED.union(*map(book_styles.names, pages + scripts))
