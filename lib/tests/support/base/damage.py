"""What may happen to a file on a disk."""

import os
import random
from collections.abc import Callable
from pathlib import Path

#: What it is called -> the file's bytes, those of another file, and a source of chance -> what is there instead.
DAMAGES: dict[str, Callable[[bytes, bytes, random.Random], bytes]] = {
    "cut short": lambda data, other, rng: data[: rng.randrange(1, len(data))],
    "a bit flipped": lambda data, other, rng: _flipped(data, rng.randrange(8 * len(data))),
    "emptied": lambda data, other, rng: b"",
    "appended to": lambda data, other, rng: data + rng.randbytes(rng.randint(1, 100)),
    "another file's content": lambda data, other, rng: other,
}
#: What it is called -> makes it, in a place where nothing is.
PLACES: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(),
    "a folder with a file in it": lambda path: (path.mkdir(), (path / path.name).write_bytes(b"x")),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to another file": lambda path: path.symlink_to(__file__),
    "a link to a folder": lambda path: path.symlink_to("."),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe that nobody writes to": lambda path: os.mkfifo(path),
}


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
