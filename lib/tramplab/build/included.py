"""All that a compiler may read for a source, without asking its preprocessor: the file, what it includes, and the macros in both.

What stands in a branch that is not taken is read, too. So what is found here may be more than what decides an object, and is never
less: a macro that is set decides nothing where no text has its name, as long as no text pastes one together, which
lib/tests/build/test_included.py forbids.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_WORD = re.compile(rb"[A-Za-z_]\w*")


@dataclass(frozen=True)
class _File:
    sha256: str
    includes: tuple[str, ...]
    words: frozenset[bytes]


class Included:
    """The files below the folders of one build, each read once; the folders are where included names are looked for."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._files: dict[Path, _File] = {}

    def of(self, source: Path) -> dict[Path, str]:
        """SHA-256 of a source and all that it includes, itself first; a name that is nowhere is the compiler's to complain of."""
        return {path: file.sha256 for path, file in self._all(source).items()}

    def mentioned(self, source: Path, names: Iterable[str]) -> list[str]:
        """The names that occur in a source or in what it includes, in the order given."""
        files = self._all(source).values()
        return [name for name in names if any(name.encode() in file.words for file in files)]

    def _all(self, source: Path) -> dict[Path, _File]:
        files: dict[Path, _File] = {}
        left: list[Path | None] = [source]
        while left:
            path = left.pop()
            if path and path not in files and (file := self._file(path)):
                files[path] = file
                left += [self._place(name, path.parent) for name in reversed(file.includes)]
        return files

    def _place(self, name: str, beside: Path) -> Path | None:
        return next((path for folder in (beside, *self._folders) if self._file(path := folder / name)), None)

    def _file(self, path: Path) -> _File | None:
        """A file, read once; None for one that is not there, or not yet: a file that the build makes is looked for again."""
        if path not in self._files:
            try:
                content = path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
            includes = tuple(name.decode() for name in _INCLUDE.findall(content))
            self._files[path] = _File(hashlib.sha256(content).hexdigest(), includes, frozenset(_WORD.findall(content)))
        return self._files[path]
