"""Seeds of random states: the same in every run, and under `make fuzz` those that follow from its seed. A plugin of pytest.

As hypothesis would draw them, without what it does besides: a seed is one number, of which none is simpler than another.
"""

import random

import pytest
from hypothesis import settings

#: `make fuzz` runs what has this mark, which hypothesis gives to its own tests.
drawn = pytest.mark.hypothesis
#: What --hypothesis-seed says.
_chosen: str | None = None


def pytest_configure(config):
    global _chosen
    _chosen = config.option.hypothesis_seed


def seeds(of: str, number: int) -> list[int]:
    """So many seeds for the case with this name."""
    rng = random.Random(of if settings.default.derandomize else f"{of} {_chosen}")
    return [rng.getrandbits(64) for _ in range(number)]
