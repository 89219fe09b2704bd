"""What each further thing adds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping


def step(line: Mapping[int, float]) -> int | str:
    """Count -> number: what is added from one count to the next, for one; "-" if it is not the same everywhere, or there are not
    two.

    >>> step({0: 4, 2: 10, 3: 13}), step({0: 4, 1: 5, 2: 7}), step({0: 4})
    (3, '-', '-')
    """
    steps = {(b - a) / (m - n) for (n, a), (m, b) in itertools.pairwise(line.items())}
    return int(steps.pop()) if len(steps) == 1 else "-"
