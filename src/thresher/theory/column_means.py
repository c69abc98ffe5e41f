"""Means of the kernels of single columns over weighted rows, without a loop over all pairs of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["column_means"]

Matrix = NDArray[np.float64]


def column_means(angles: Matrix, rows: Matrix, weights: Matrix) -> Matrix:
    """Return the means (k, u) of the kernels of u columns between angles (k, u) and those of rows (n, u).

    ``weights`` (n,) add up to 1. With t the angle of a row, the kernel is cos(x - t) (1 - |x - t| / pi) for |x - t| <
    pi and 0 beyond. The cosine of a difference is a sum of products, so that sums over the rows below x and over those
    above are four numbers each, which are kept for all sorted rows.

    Cost: O((n + k) log n) per column.
    """
    found = np.empty(angles.shape)
    for column, (points, given) in enumerate(zip(angles.T, rows.T, strict=True)):
        order = np.argsort(given, kind="stable")
        t, w = given[order], weights[order]
        parts = np.stack([w * np.cos(t), w * np.sin(t), w * t * np.cos(t), w * t * np.sin(t)])
        upto = np.hstack([np.zeros((4, 1)), np.cumsum(parts, axis=1)])
        low, middle, high = (np.searchsorted(t, points + step, side="right") for step in (-np.pi, 0.0, np.pi))
        cos, sin, total = np.cos(points), np.sin(points), np.zeros(len(points))
        for begin, end, sign in ((low, middle, 1.0), (middle, high, -1.0)):  # rows below the point, and above
            c, s, tc, ts = upto[:, end] - upto[:, begin]
            total += (1 - sign * points / np.pi) * (cos * c + sin * s) + sign / np.pi * (cos * tc + sin * ts)
        found[:, column] = total
    return found
