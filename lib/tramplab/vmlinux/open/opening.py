"""Around all that opens and boots an image: every error is one sentence that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...base.errors import TramplabError


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Whatever goes wrong within raises a TramplabError with the path in it; so does a lack of memory."""
    try:
        yield
    except MemoryError:
        raise TramplabError(
            f"there is not enough memory to open {path}: end other programs, or open it on a larger machine."
        ) from None
    except TramplabError as e:
        if str(path) in e.args[0]:
            raise
        raise TramplabError(f"{path} cannot be booted, {e}") from None
