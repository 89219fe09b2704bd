"""Files that belong to a figure: beside its page while the book is built, inside the page otherwise."""

import base64
import html
import json
import os
from pathlib import Path

from ...base.errors import TramplabError
from . import picture

FOLDER = "TRAMPLAB_GEN"  # set by the book's build: the folder beside the page. Unset in JupyterLab.


class Files:
    """Where the files of one figure go, and the addresses under which its page finds them."""

    def __init__(self, figure_id: str):
        self.id = figure_id
        self.folder = Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None

    def url(self, suffix: str, content: str, mime: str) -> str:
        """Write the file and return its address relative to the page, or the content itself as a data URL."""
        if self.folder is None:
            return f"data:{mime};base64,{base64.b64encode(content.encode()).decode()}"
        path = self.folder / (self.id + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_text("utf-8") != content:
            raise TramplabError(
                f"two different figures have the id {self.id}, or its files are of an earlier build: `make book` starts from empty."
            )
        path.write_text(content, "utf-8")
        return f"{self.folder.name}/{path.name}"

    def picture(self, suffix: str, spec: dict) -> str:
        """The address of a chart's static picture; while the book is built only its spec is written, see picture.py."""
        if self.folder is None:
            return self.url(suffix + picture.SVG, picture.picture(spec), "image/svg+xml")
        self.url(suffix + picture.SPEC, json.dumps(spec), "application/json")
        return f"{self.folder.name}/{self.id}{suffix}{picture.SVG}"

    def link(self, suffix: str, label: str, content: str, mime: str) -> str:
        """A link that downloads the file."""
        address = html.escape(self.url(suffix, content, mime))
        return f'<a download="{self.id}{suffix}" href="{address}">{html.escape(label)}</a>'
