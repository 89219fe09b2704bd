"""Files that belong to a figure: beside its page while the book is built, inside the page otherwise."""

import base64
import html
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tramplab.base.errors import TramplabError

from ...places import PACKAGE
from . import picture

FOLDER = "TRAMPLAB_GEN"  # set by the book's build: the folder beside the page. Unset in JupyterLab.


class Files:
    """The files of one figure, and the addresses under which its page finds them."""

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

    def drawing(self, suffix: str, spec: dict, attributes: str) -> str:
        """A chart as an <svg> element with these attributes; while the book is built its place and its spec, see picture.py."""
        waiting = f"<svg {attributes}{picture.place(self.id + suffix)}"
        if self.folder is None:
            return picture.placed(waiting, lambda _: picture.svg(spec))
        self.url(suffix + picture.SPEC, json.dumps(spec), "application/json")
        return waiting

    def link(self, suffix: str, label: str, content: str, mime: str) -> str:
        """A link that downloads the file."""
        address = html.escape(self.url(suffix, content, mime))
        return f'<a download="{self.id}{suffix}" href="{address}">{html.escape(label)}</a>'


def experiment(function: Callable[..., Any], folders: bool = False) -> str:
    """A link to the source of a function of a study, which names its file and line. folders: with all folders of the package, and
    not the last one alone."""
    function = inspect.unwrap(function)
    path, line = Path(inspect.getfile(function)), inspect.getsourcelines(function)[1]
    named = path.resolve().relative_to(PACKAGE) if folders else Path(path.parent.name, path.name)
    label = f"{named.as_posix()}, line {line}"
    return "Experiment: " + Files(path.stem).link(".py.txt", label, path.read_text("utf-8"), "text/plain")
