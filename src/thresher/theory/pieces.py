"""The limit of networks with any piecewise linear activation: the mean of phi'(Z1) phi'(Z2), in closed form.

Slopes are sums of steps at knots, so it is a sum over pairs of knots of P(Z1 >= h, Z2 >= k), which Owen's T function
gives; knots below the background count as knots of -Z. Its derivative by the correlation is a sum of normal densities.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from thresher.model.activations import Pieces

__all__ = ["bends_sharply", "mean_slopes", "slopes_by_root"]

Matrix = NDArray[np.float64]
_ZERO = 1e-14  # knots nearer to 0 are at 0


def both_above(rho: Matrix, h: float, k: float) -> Matrix:
    """Return P(Z1 >= h, Z2 >= k) for N(0, 1) variables of correlations rho, any shape (Owen 1956)."""
    h, k = (0.0 if abs(one) < _ZERO else one for one in (h, k))
    root = np.sqrt(np.maximum(1 - rho * rho, np.finfo(float).tiny))
    found = 0.5 * (special.ndtr(-h) + special.ndtr(-k)) - _owen(h, k, rho, root) - _owen(k, h, rho, root)
    return np.clip(found - 0.5 * ((h < 0) != (k < 0)), 0.0, 1.0)


def _owen(h: float, k: float, rho: Matrix, root: Matrix) -> Matrix:
    """Return T(h, (k - rho h) / (h root)): Owen's T function; where h is 0, an angle."""
    if h == k:
        return np.asarray(special.owens_t(h, np.sqrt((1 - rho) / np.maximum(1 + rho, np.finfo(float).tiny))))
    if h == 0:
        return np.full(rho.shape, math.copysign(0.25, k))
    return np.asarray(special.owens_t(h, (k - rho * h) / (h * root)))


def mean_slopes(rho: Matrix, pieces: Pieces) -> Matrix:
    """Return E phi'(Z1) phi'(Z2) for N(0, 1) variables of correlations rho, any shape.

    Cost: some hundred nanoseconds an entry and pair of knots.
    """
    steps = [side * jump for side, jump in zip(pieces.sides, pieces.jumps, strict=True)]
    total = np.zeros(rho.shape)
    for a, b in itertools.product(range(len(steps)), repeat=2):
        same = pieces.sides[a] * pieces.sides[b]
        total += steps[a] * steps[b] * both_above(same * rho, pieces.thresholds[a], pieces.thresholds[b])
    return total


def slopes_by_root(s: Matrix, sign: int, pieces: Pieces) -> Matrix:
    """Return the derivative of :func:`mean_slopes` by s, where rho = sign (1 - s²), for s from 0 to 1."""
    total = np.zeros_like(s)
    for a, b in itertools.product(range(len(pieces.sides)), repeat=2):
        near = s**2 if pieces.sides[a] * pieces.sides[b] * sign == 1 else 2 - s**2  # 1 - rho of the two, or 1 + rho
        h, k = pieces.thresholds[a], pieces.thresholds[b]
        # (h² + k² - 2 rho h k) / (2 (1 - rho²))
        size = ((h - k) ** 2 / np.maximum(near, 1e-300) + (h + k) ** 2 / np.maximum(2 - near, 1e-300)) / 4
        total += pieces.jumps[a] * pieces.jumps[b] * np.exp(-size)
    return -sign * total / (math.pi * np.sqrt(2 - s**2))


def bends_sharply(pieces: Pieces, sharp: float) -> bool:
    """Return whether knots are so close to each other, or to the opposite of another, that the mean bends sharply."""
    close = [abs(h - k) for h, k in _pairs(pieces)] + [abs(h + k) for h, k in _pairs(pieces)]
    return any(0 < distance < 2 * sharp for distance in close)


def _pairs(pieces: Pieces) -> Any:
    return itertools.combinations_with_replacement(pieces.thresholds, 2)
