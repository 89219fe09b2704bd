"""How well one list of numbers predicts another, but for one scale factor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def scaled_errors(predicted: Sequence[float], measured: Sequence[float]) -> list[float]:
    """Relative errors of predictions that are right but for a factor: that factor is the median of the ratios.

    >>> scaled_errors([1, 2, 3], [10, 20, 60])
    [0.0, 0.0, 0.5]
    """
    factor = statistics.median(m / p for p, m in zip(predicted, measured, strict=True))
    return [round(abs(p * factor / m - 1), 6) for p, m in zip(predicted, measured, strict=True)]
