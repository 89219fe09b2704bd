"""The line that unfolds a cell's code says what the code shows."""

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

#: What an output has in it -> the word for it; the first that fits is taken.
KINDS = {"<tl-steps": "this stepper", "tl-ledger": "these claims"}


def setup(app):
    """Register with Sphinx what names the code of cells."""
    app.add_post_transform(Prompts)


class Prompts(SphinxPostTransform):
    """Names the code of every folded cell by what the cell shows; from the outputs as HTML, which myst-nb has chosen by then."""

    default_priority = 190  # before 199, when myst-nb makes the lines
    formats = ("html",)

    def run(self, **kwargs):
        """Name the code of the page's folded cells."""
        for cell in self.document.findall(nodes.container):
            if cell.get("hide_mode"):
                code = f"code of {shown}" if (shown := kind(cell)) else "code"
                cell["prompt_show"], cell["prompt_hide"] = code.capitalize(), f"Hide the {code}"


def kind(cell: nodes.container) -> str:
    """What a cell shows, "" for output of no kind."""
    for output in cell.findall(nodes.raw):
        for mark, name in KINDS.items():
            if mark in output.astext():
                return name
    return "this figure" if any(cell.findall(nodes.figure)) else ""
