"""How far a long run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from typing import TextIO

_LINES = 10


class Progress:
    """Counts up to `total` of something, `done` of which were there before, for a `with`; writes to `stream` alone, and nothing
    where that is None."""

    def __init__(self, total: int, done: int, of: str, stream: TextIO | None) -> None:
        self._total, self._of, self._stream = total, of, stream
        self._done, self._bar = done, None
        if stream is not None and stream.isatty():
            from tqdm import tqdm  # a tenth of a second that no other command is to wait for

            self._bar = tqdm(total=total, initial=done, unit=f" {of}", file=stream, dynamic_ncols=True)
        elif done:
            self._tell(f"{done} of {total} {of} are there already")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, count: int) -> None:
        """Count so many more as done."""
        before, self._done = self._done, self._done + count
        if self._bar is not None:
            self._bar.update(count)
        elif self._done * _LINES // self._total > before * _LINES // self._total:
            self._tell(f"{self._done} of {self._total} {self._of}")

    def _tell(self, text: str) -> None:
        if self._stream is not None:
            print(text, file=self._stream, flush=True)
