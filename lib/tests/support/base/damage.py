"""What may happen to a file on a disk."""

import random
from collections.abc import Callable

#: What it is called -> the file's bytes, those of another file, and a source of chance -> what is there instead.
DAMAGES: dict[str, Callable[[bytes, bytes, random.Random], bytes]] = {
    "cut short": lambda data, other, rng: data[: rng.randrange(1, len(data))],
    "a bit flipped": lambda data, other, rng: _flipped(data, rng.randrange(8 * len(data))),
    "emptied": lambda data, other, rng: b"",
    "appended to": lambda data, other, rng: data + rng.randbytes(rng.randint(1, 100)),
    "another file's content": lambda data, other, rng: other,
}


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
