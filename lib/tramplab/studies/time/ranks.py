"""How well one list of numbers tells another: rank correlation, and errors after one scale factor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pandas as pd


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation; equal numbers share their mean rank.

    >>> spearman([1, 2, 3, 4], [10, 20, 30, 40]), spearman([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    ranks = [pd.Series(list(values)).rank() for values in (a, b)]
    return float(ranks[0].corr(ranks[1]))


def scaled_errors(predicted: Sequence[float], measured: Sequence[float]) -> list[float]:
    """Relative errors of predictions that are right but for a factor: that factor is the median of the ratios.

    >>> scaled_errors([1, 2, 3], [10, 20, 60])
    [0.0, 0.0, 0.5]
    """
    factor = statistics.median(m / p for p, m in zip(predicted, measured, strict=True))
    return [round(abs(p * factor / m - 1), 6) for p, m in zip(predicted, measured, strict=True)]
