"""How far a long run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

_LINES = 10


class Progress:
    """Counts up to `total` of something, for a `with`; writes to `stream` alone, and nothing where that is None."""

    def __init__(self, total: int, of: str, stream: TextIO | None) -> None:
        self._total, self._of, self._stream = total, of, stream
        self._bar = stream is not None and stream.isatty()
        self._started, self._first = time.monotonic(), 0
        self._done = self._told = 0
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_) -> None:
        if self._drawn:
            self._stream.write("\n")
            self._stream.flush()

    def begin(self, done: int) -> None:
        """So much was there before."""
        self._first = self._done = done
        if done:
            self._tell(f"{done} of {self._total} {self._of} are there already")
        self._show()

    def add(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        self._show()

    def _show(self) -> None:
        if self._bar:
            self._stream.write("\r" + self._line(shutil.get_terminal_size().columns))
            self._stream.flush()
            self._drawn = True
        elif (part := self._done * _LINES // max(self._total, 1)) > self._told:
            self._told = part
            self._tell(f"{self._done} of {self._total} {self._of}")

    def _tell(self, text: str) -> None:
        if self._stream is not None and not self._bar:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def _line(self, columns: int) -> str:
        text = f" {self._done} of {self._total} {self._of}{self._left()}"
        width = min(40, columns - len(f"[] {self._total} of {self._total} {self._of}, 999 s left "))
        if width < 1:
            return text[1:columns].ljust(columns - 1)
        full = width * self._done // max(self._total, 1)
        return f"[{'#' * full}{'.' * (width - full)}]{text}".ljust(columns - 1)

    def _left(self) -> str:
        """The time that is left, at the pace so far."""
        new = self._done - self._first
        if not new or self._done >= self._total:
            return ""
        return f", {(time.monotonic() - self._started) * (self._total - self._done) / new:.0f} s left"
