"""Where the repository's data lies: beside the package in a checkout, or where $TRAMPLAB_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import TramplabError


def data_file(name: str) -> Path:
    """The path of a file in data/; raises TramplabError where there is no checkout around the package."""
    base = os.environ.get("TRAMPLAB_DATA")
    folder = Path(base) if base else Path(__file__).resolve().parents[2] / "data"
    if not (folder / name).is_file():
        raise TramplabError(
            f"no data file {folder / name}: work in a checkout of the book, or set TRAMPLAB_DATA to its data/ folder."
        )
    return folder / name


def checkout() -> Path:
    """The folder that holds data/, book/ and CITATION.cff; raises TramplabError where there is none."""
    return data_file("releases.yml").parent.parent
