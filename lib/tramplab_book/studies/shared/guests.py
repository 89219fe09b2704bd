"""Guests with functions that the lab's own has not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tramplab.build.toolchain import GUEST


@contextmanager
def with_functions(source: str) -> Iterator[Path]:
    """For a `with`: the folder of a guest's sources that has this C behind its functions."""
    with tempfile.TemporaryDirectory() as folder:
        guest = shutil.copytree(GUEST, Path(folder) / "guest")
        with (guest / "functions.c").open("a", encoding="utf-8") as functions:
            functions.write(source)
        yield guest
