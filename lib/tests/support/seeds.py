"""Seeds of random states: the same in every run, and others under `make fuzz`.

As hypothesis would draw them, without what it does besides: a seed is one number, of which none is simpler than another.
"""

import random

import pytest
from hypothesis import settings

#: `make fuzz` runs what has this mark, which hypothesis gives to its own tests.
drawn = pytest.mark.hypothesis


def seeds(of: str, number: int) -> list[int]:
    """So many seeds for the case with this name."""
    rng = random.Random(of) if settings.default.derandomize else random.SystemRandom()
    return [rng.getrandbits(64) for _ in range(number)]
