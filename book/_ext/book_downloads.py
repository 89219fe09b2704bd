"""The other forms of a page, for download: text, notebook, source. A line under its title, and the theme's menu."""

import html
import posixpath

import book_notebooks


def setup(app):
    """Register with Sphinx the links to a page's other forms."""
    app.connect("html-page-context", add_line)
    app.connect("html-page-context", add_buttons, priority=502)  # after the theme has made its menu


def forms(app, pagename, context) -> list[tuple[str, str, str, bool]]:
    """(label, address relative to the page, description, is it to be saved and not opened?) of each other form of a page."""
    name = posixpath.basename(pagename)
    found = [("Text", f"{name}.txt", "plain text, at most 72 columns wide", False)]
    if book_notebooks.executed(app, pagename).is_file():
        found.append(("Notebook", f"{name}.ipynb", "executed Jupyter notebook", True))
    source = context["pathto"](f"_sources/{context['sourcename']}", True)
    return [*found, ("Source", source, "MyST Markdown, as JupyterLab opens it", True)]


def add_line(app, pagename, templatename, context, doctree):
    """Put the links into the page itself, where they are on a phone, in w3m and without JavaScript, too."""
    if doctree is None:
        return
    links = [
        f'<a href="{html.escape(address)}" title="{what}"{" download" if save else ""}>{label}</a>'
        for label, address, what, save in forms(app, pagename, context)
    ]
    line = f'<p class="tl-links">This page as: {" · ".join(links)}</p>'
    context["body"] = context["body"].replace("</h1>", f"</h1>\n{line}", 1)


def add_buttons(app, pagename, templatename, context, doctree):
    """Add the links to the theme's download menu, which has the source only."""
    if doctree is None:
        return
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons":
            group["buttons"][:0] = [
                {
                    "type": "link",
                    "url": address,
                    "text": posixpath.splitext(address)[1],
                    "icon": "fas fa-file",
                    "tooltip": f"Download {label.lower()}",
                    "label": f"download-{label.lower()}-button",
                }
                for label, address, _, _ in forms(app, pagename, context)[:-1]
            ]
