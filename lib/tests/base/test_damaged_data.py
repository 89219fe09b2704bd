"""Damaged files of data/: each is refused in one sentence that names it, or read as it is now, which git shows."""

import random
import re
from pathlib import Path

import pytest

from support.base.data import CITATION, FILES, copied, read
from support.complaints import complaint
from tramplab.base.errors import TramplabError


def swapped(text, rng, pattern, change):
    """The text with one of the places that match changed."""
    found = rng.choice([*re.finditer(pattern, text)])
    return text[: found.start()] + change(found[0]) + text[found.end() :]


#: What may happen to a file that somebody edits or merges.
DAMAGES = {
    "cut short": lambda text, rng: text[: rng.randrange(len(text) // 4, len(text) - 2)],
    "a digit changed": lambda text, rng: swapped(text, rng, r"\d", lambda d: str((int(d) + 1) % 10)),
    "a line gone": lambda text, rng: swapped(text, rng, r"(?m)^[^#\n].*\n", lambda line: ""),
    "a line twice": lambda text, rng: swapped(text, rng, r"(?m)^[^#\n].*\n", lambda line: 2 * line),
    "a key renamed": lambda text, rng: swapped(text, rng, r"\b[a-z_]{3,}\b(?=\"?[:,])", lambda key: f"{key}x"),
    "a byte of Latin-1": lambda text, rng: swapped(text, rng, r"[a-z]", lambda letter: "\udce9"),
}


def refused(name):
    try:
        return not read(name)
    except TramplabError:
        return True


@pytest.mark.parametrize("name", [*FILES, CITATION], ids=lambda name: Path(name).name)
def test_a_damage_is_refused_in_a_sentence_or_read(name, tmp_path, monkeypatch):
    path = copied(tmp_path, monkeypatch) / name
    whole, rng = path.read_text("utf-8"), random.Random(name)
    assert read(name)
    refusals = 0
    for damage, change in 2 * [*DAMAGES.items()]:
        path.write_bytes(change(whole, rng).encode("utf-8", "surrogateescape"))
        sentence = complaint(lambda: read(name)) if refused(name) else ""
        assert not sentence or Path(name).name in sentence, damage
        assert damage != "a byte of Latin-1" or "is not UTF-8: byte 0xe9 in line " in sentence
        refusals += bool(sentence)
    assert refusals > 2, "the bytes of Latin-1, and more"
