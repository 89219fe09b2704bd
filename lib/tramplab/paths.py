"""Where the repository's data lies (beside the package in a checkout, or where $TRAMPLAB_DATA says), and writing files whole."""

from __future__ import annotations

import hashlib
import os
import tempfile
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


def sources(*parts: str) -> hashlib._Hash:
    """A SHA-256 of all files of these folders of the package, by name and content; more can be added to it."""
    package, h = Path(__file__).resolve().parent, hashlib.sha256()
    for path in sorted(p for part in parts for p in (package / part).rglob("[!.]*") if p.suffix not in (".pyc", "")):
        h.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return h


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, under a temporary name and rename it: it is never half there. TramplabError where that fails."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(content.encode() if isinstance(content, str) else content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as e:
        raise TramplabError(f"cannot write {path}: {e.strerror}.") from None
