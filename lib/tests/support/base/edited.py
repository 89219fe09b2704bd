"""Data files that somebody edits or merges, and makes a mistake: each is refused in one sentence, or read as it is now."""

import random
import re
from collections.abc import Callable
from pathlib import Path

from support.complaints import complaint
from tramplab.base.errors import TramplabError


def _swapped(text: str, rng: random.Random, pattern: str, change: Callable[[str], str]) -> str:
    """The text with one of the places that match changed."""
    found = rng.choice([*re.finditer(pattern, text)])
    return text[: found.start()] + change(found[0]) + text[found.end() :]


LATIN = "a byte of Latin-1"
#: What may happen to a file that somebody edits or merges.
EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "cut short": lambda text, rng: text[: rng.randrange(len(text) // 4, len(text) - 2)],
    "a digit changed": lambda text, rng: _swapped(text, rng, r"\d", lambda d: str((int(d) + 1) % 10)),
    "a line gone": lambda text, rng: _swapped(text, rng, r"(?m)^[^#\n].*\n", lambda line: ""),
    "a line twice": lambda text, rng: _swapped(text, rng, r"(?m)^[^#\n].*\n", lambda line: 2 * line),
    "a key renamed": lambda text, rng: _swapped(text, rng, r"\b[a-z_]{3,}\b(?=\"?[:,])", lambda key: f"{key}x"),
    LATIN: lambda text, rng: _swapped(text, rng, r"[a-z]", lambda letter: "\udce9"),
}


def check_edits(data: Path, name: str, read: Callable[[str], object]) -> None:
    """Every edit of a file of data/ twice: it is refused in a sentence that names it, or read."""

    def refused() -> bool:
        try:
            return not read(name)
        except TramplabError:
            return True

    path = data / name
    whole, rng = path.read_text("utf-8"), random.Random(name)
    assert read(name)
    refusals = 0
    for edit, change in 2 * [*EDITS.items()]:
        path.write_bytes(change(whole, rng).encode("utf-8", "surrogateescape"))
        sentence = complaint(lambda: read(name)) if refused() else ""
        assert not sentence or Path(name).name in sentence, edit
        assert edit != LATIN or "is not UTF-8: byte 0xe9 in line " in sentence
        refusals += bool(sentence)
    assert refusals > 2, "the bytes of Latin-1, and more"


def check_refused(data: Path, name: str, old: str, new: str, said: str, read: Callable[[str], object]) -> None:
    """A file of data/ in which something else stands is refused in a sentence that names it and says this."""
    path = data / name
    whole = path.read_text("utf-8")
    assert old in whole
    path.write_text(whole.replace(old, new, 1), "utf-8")
    message = complaint(lambda: read(name))
    assert f"{name.removeprefix('../')}" in message and said in message
