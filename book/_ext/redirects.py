"""The HTML of redirects. They work from any folder and from file://, and lead on without JavaScript."""

import html
import posixpath

# Leads on from an old anchor to where its list item links to; also when the anchor is followed on the open page.
FORWARD = """<script>
(() => {
  const go = () => {
    const item = document.getElementById(location.hash.slice(1));
    if (item?.matches(".tl-moved li")) location.replace(item.querySelector("a").href);
  };
  addEventListener("hashchange", go);
  addEventListener("DOMContentLoaded", go);
})();
</script>
"""


def relative(place: str, page: str) -> str:
    """The address of page.html#id as seen from another page; both count from the top of the site."""
    path, hash_, name = place.partition("#")
    return ("" if path == page else posixpath.relpath(path, posixpath.dirname(page) or ".")) + hash_ + name


def page(title: str, head: str, body: str) -> str:
    """A whole page of HTML with nothing on it but the way on."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        f"{head}</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def short_link(title: str, link: str, canonical: str) -> str:
    """The page p/<id>.html: goes on at once; a browser that does not refresh shows the link. canonical: "" where there is none."""
    head = f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">\n'
    head += f'<link rel="canonical" href="{html.escape(canonical)}">\n' if canonical else ""
    return page(title, head, f'<h1><a href="{html.escape(link)}">{html.escape(title)}</a></h1>\n')


def section(links: dict[str, str]) -> str:
    """The section for a page that is still there: its former anchors, each with the link to where its text is now."""
    items = "".join(f'<li id="{name}"><a href="{html.escape(link)}">{name}</a></li>\n' for name, link in links.items())
    return f'<div class="tl-moved">\n<p>Moved:</p>\n<ul>\n{items}</ul>\n</div>\n{FORWARD}'


def stub(title: str, links: dict[str, str]) -> str:
    """The page in place of one that is gone: what it held, and where that is now. Goes on by itself where there is one way."""
    pages = {link.partition("#")[0] for link in links.values()}
    ways = set(links.values()) if len(links) == 1 else pages
    head = ""
    if len(ways) == 1:  # in noscript: with JavaScript the anchor decides, and must not be overtaken
        way = html.escape(ways.pop())
        head = f'<noscript><meta http-equiv="refresh" content="0; url={way}"></noscript>\n'
    return page(title, head, f"<h1>{html.escape(title)}</h1>\n{section(links)}")
