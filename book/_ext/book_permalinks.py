"""Permalinks: short links to all citable places, redirects from where they used to be, checks that none is lost."""

from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import redirects
from docutils import nodes
from sphinx.util import logging

from tramplab.base.errors import TramplabError
from tramplab.base.paths import checkout
from tramplab.base.revision import history
from tramplab_book.publish.cite import edition, permalinks
from tramplab_book.publish.cite.permalinks import Permalink

logger = logging.getLogger(__name__)
LEVELS = 3  # of headings that must have a label
CLAIM = "tl-claim"  # the class of a claim, which a page declares in HTML of its own


def setup(app):
    """Register with Sphinx the addresses that must not go away."""
    app.connect("html-page-context", add_moved)
    app.connect("build-finished", finish)


def listed(app) -> dict[str, Permalink]:
    """The book's permalinks by id; none for a book that has no list of them."""
    return permalinks.read() if (Path(app.srcdir) / "data" / permalinks.FILE).is_file() else {}


def chapter(app, docname: str) -> Permalink | None:
    """The permalink of a page as a whole; None if it has none, or the book has no list."""
    return permalinks.chapter(docname, listed(app))


def former_places(link: Permalink) -> list[str]:
    """The addresses from which it moved."""
    return [place for place in link.places if place != link.target]


def places(links: dict[str, Permalink]) -> dict[str, str]:
    """Id -> its place now; what moved twice is followed to the end. Raises TramplabError for a circle."""
    steps = {old: link.target for link in links.values() for old in former_places(link)}
    found = {}
    for link in links.values():
        place, seen = link.target, {link.address}
        while place in steps:
            if place in seen:
                raise TramplabError(f"{permalinks.FILE}: {link.address} leads in a circle; it must end at a page.")
            seen.add(place)
            place = steps[place]
        found[link.id] = place
    return found


def moved_from(links: dict[str, Permalink]) -> dict[str, dict[str, str]]:
    """Per page, without suffix: the anchors that are gone from it, and the relative links to where they are now."""
    now, gone = places(links), defaultdict(dict)
    for link in links.values():
        for place in former_places(link):
            old, _, anchor = place.partition("#")
            gone[old.removesuffix(".html")][anchor] = redirects.relative(now[link.id], old)
    return gone


def add_moved(app, pagename, templatename, context, doctree):
    """Add to the end of a page what has moved from it, under the old anchors."""
    links = moved_from(listed(app)).get(pagename)
    if doctree is not None and links:
        context["body"] += redirects.section(links)


def finish(app, exception):
    """Write the short links and the redirects, then hold the pages that were built to the list."""
    links = listed(app)
    if exception or app.builder.format != "html" or not links:
        return
    write_redirects(app, links)
    lost = check_history(links)
    built = {docname: Anchors(Path(app.outdir) / f"{docname}.html") for docname in sorted(app.env.found_docs)}
    check_places(links, built)
    check_pages(app, {*links, *lost}, links, built)


def write_redirects(app, links):
    """Write the short links, and a stub where a page was."""
    out, titles, now = Path(app.outdir), app.env.titles, edition.current()
    (out / "p").mkdir(exist_ok=True)
    for name, place in places(links).items():
        docname = place.partition(".html#")[0]
        title = f"{titles[docname].astext()}: {name}" if docname in titles else name
        text = redirects.short_link(title, redirects.relative(place, f"p/{name}.html"), now.url(place) if now.published else "")
        (out / "p" / f"{name}.html").write_text(text, "utf-8")
    for docname, gone in moved_from(links).items():
        if docname not in app.env.found_docs:
            path = out / f"{docname}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(redirects.stub("This page has moved", gone), "utf-8")


class Anchors(HTMLParser):
    """The ids of a page as it was built, and which of them are claims."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids: set[str] = set()
        self.claims: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        """Note an element's id, as HTMLParser meets it."""
        attributes = dict(attrs)
        if name := attributes.get("id"):
            self.ids.add(name)
            if CLAIM in (attributes.get("class") or "").split():
                self.claims.add(name)


def check_history(links) -> dict[str, str]:
    """Report places that were listed once and are gone, as far as git tells; returns them by their ids."""
    past = history(checkout(), f"data/{permalinks.FILE}")
    lost = permalinks.lost(links, past)
    for sentence in lost.values():
        logger.warning("%s", sentence)
    if past.lacks:
        logger.info("%s is not held against all that it ever listed: %s", permalinks.FILE, past.lacks)
    return lost


def check_places(links, built):
    """Report addresses that lead to no anchor in a page that was built."""
    for name, place in places(links).items():
        docname, _, anchor = place.partition(".html#")
        if docname not in built or anchor not in built[docname].ids:
            what = f"the page {docname} has no anchor {anchor}" if docname in built else f"there is no page {docname}"
            message = "%s lists %s, but %s. The line must stay: add where it went, '-> new-page.html#new-id'"
            logger.warning(message, permalinks.FILE, links[name].address, what)


def check_pages(app, known, links, built):
    """Report citable places of the pages that are not listed, and sections without a label to be cited by."""
    labels, gone = defaultdict(set), moved_from(links)
    for docname, name in app.env.domaindata["std"]["anonlabels"].values():
        labels[docname].add(name)
    for docname, page in built.items():
        for name in sorted((labels[docname] | page.claims) - known):
            message = "%s does not list %s.html#%s: run `make update`"
            logger.warning(message, permalinks.FILE, docname, name, location=docname)
        for name in sorted(labels[docname] & set(gone.get(docname, ()))):
            logger.warning("%s says that %s moved, but it is still here", permalinks.FILE, name, location=docname)
        for section in app.env.get_doctree(docname).findall(nodes.section):
            if level(section) <= LEVELS and not labels[docname] & set(section["ids"]):
                title = section.next_node(nodes.title).astext()
                logger.warning("the section %r has no label: write (some-name)= above it", title, location=section)


def level(section: nodes.section) -> int:
    """1 for the page's own heading, 2 for a section below it."""
    depth = 0
    while isinstance(section, nodes.section):
        depth, section = depth + 1, section.parent
    return depth
