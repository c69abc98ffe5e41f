"""Robust statistics of targets: weighted quantiles, and the deviation that most of them have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["robust_size", "weighted_quantile", "winsorise"]

Matrix = NDArray[np.float64]
_NORMAL = 1.482602, 0.607957  # a deviation, in medians of absolute errors, and in their quantiles 0.9, if normal


def weighted_quantile(values: Matrix, share: float, weights: Matrix | None) -> float:
    """Return the least value (n,) that this share of the weights does not exceed."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    return float(values[order][np.searchsorted(total, share * total[-1] * (1 - 1e-12))])


def robust_size(errors: Matrix, weights: Matrix | None) -> float:
    """Return the deviation (a number) that most errors (n,) would have if they were normal.

    From their median; or, where more than half are near zero, from the quantile 0.9.
    """
    sizes = np.abs(errors)
    found = (weighted_quantile(sizes, share, weights) for share in (0.5, 0.9))
    return max(factor * size for factor, size in zip(_NORMAL, found, strict=True))


def winsorise(targets: Matrix, weights: Matrix | None, *, reach: float) -> Matrix:
    """Return targets (n, k) pulled in to so many robust deviations from their medians.

    Of a column nine tenths of which are one value nothing is left but that.
    """
    found = targets.copy()
    for column in found.T:
        middle = weighted_quantile(column, 0.5, weights)
        size = robust_size(column - middle, weights)
        np.clip(column, middle - reach * size, middle + reach * size, out=column)
    return found
