"""The recursion that fills a stack: return addresses that occur again and again, at the same distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..base.errors import Recursion

#: The least number of rounds on the stack that are called recursion, and the share of addresses that must repeat.
LEAST, ALIKE = 4, 0.9
WORD = 8


def found(words: Sequence[int], name_of: Callable[[int], str | None]) -> Recursion | None:
    """The recursion that these words of a stack, from its lowest address on, tell of; None if they do not repeat.

    name_of: symbol+offset of an address in text, None for any other word. A function's first byte is no return address. The
    shortest distance is taken at which they repeat.

    >>> found([7, 0x11, 0x22] * 5, {0x11: "inner+0x4", 0x22: "outer+0x8"}.get)
    Recursion(functions=('outer', 'inner'), rounds=5, size=24)
    >>> found(range(100), "start+{:#x}".format)
    """
    names = {word: name for word in set(words) if "+" in (name := name_of(word) or "")}
    code = np.array([word if word in names else 0 for word in words], np.uint64)
    half = code[: len(code) // 2]  # the far end, where nothing but the recursion is
    matches = np.flatnonzero(half)
    for gap in range(1, len(code) // LEAST + 1):
        again = half[matches] == code[matches + gap]
        if len(matches) and again.mean() >= ALIKE:
            first = int(matches[again][0])  # behind what the last round had only begun
            one = code[first : first + gap]
            rounds = min(int((code == word).sum() // (one == word).sum()) for word in one[one > 0])
            if rounds < LEAST:
                return None
            inside = [names[int(word)].split("+")[0] for word in one[one > 0]]
            return Recursion(tuple(dict.fromkeys(reversed(inside))), rounds, gap * WORD)
    return None
