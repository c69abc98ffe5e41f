"""The limit kernel, entry by entry, from a table of the probability that two neurons fire together."""

from __future__ import annotations

import math

from thresher.loops import compiled

__all__ = ["differentiate", "interpolate", "interpolate_slopes", "multiply_symmetric"]


@compiled
def interpolate(products, table, kernel):
    """Write rho P(rho) to ``kernel`` (k, n) for inner products rho (k, n).

    ``table`` (2, N, 4) has coefficients of the cubics that P is on N intervals of sqrt(1 - |rho|), from 0 to 1:
    first for rho of at least 0, then for the others. No angle is computed.
    """
    size = table.shape[1]
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            rho = min(max(products[i, j], -1.0), 1.0)
            place = math.sqrt(1.0 - abs(rho)) * size
            node = min(int(place), size - 1)
            t = place - node
            cubic = table[0 if rho >= 0.0 else 1, node]
            kernel[i, j] = rho * max(cubic[0] + t * (cubic[1] + t * (cubic[2] + t * cubic[3])), 0.0)


@compiled
def interpolate_slopes(products, table, slopes):
    """Write the derivative of rho P(rho) by rho to ``slopes`` (k, n), from the same table; 0 where rho is 1 or -1."""
    size = table.shape[1]
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            rho = min(max(products[i, j], -1.0), 1.0)
            root = math.sqrt(1.0 - abs(rho))
            if root <= 1e-5:
                slopes[i, j] = 0.0
                continue
            node = min(int(root * size), size - 1)
            t = root * size - node
            cubic = table[0 if rho >= 0.0 else 1, node]
            both = max(cubic[0] + t * (cubic[1] + t * (cubic[2] + t * cubic[3])), 0.0)
            change = cubic[1] + t * (2.0 * cubic[2] + t * 3.0 * cubic[3])
            slopes[i, j] = both - abs(rho) * change * size / (2.0 * root)


@compiled
def differentiate(products, shift, kernel):
    """Replace rho P(rho) in ``kernel`` (k, n) by its derivative by rho (k, n), 0 where rho is 1 or -1 and it has none.

    P'(rho) = exp(-b² / (1 + rho)) / (2 pi sqrt(1 - rho²)); where rho is 0 the derivative is P(0) = P(Z >= b)².
    """
    alone = 0.5 * math.erfc(shift / math.sqrt(2.0))
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            rho = min(max(products[i, j], -1.0), 1.0)
            room = 1.0 - rho * rho
            if room <= 1e-10:
                kernel[i, j] = 0.0
                continue
            both = kernel[i, j] / rho if rho != 0.0 else alone * alone
            kernel[i, j] = both + rho * math.exp(-shift * shift / (1.0 + rho)) / (2.0 * math.pi * math.sqrt(room))


@compiled
def multiply_symmetric(upper, alpha, slopes):
    """Multiply ``slopes`` (n, n), symmetric, by V - alpha alphaᵀ, entry by entry.

    ``upper`` (n, n) has the upper triangle of a symmetric V; ``alpha`` is (n, k).
    """
    for i in range(slopes.shape[0]):
        for j in range(i, slopes.shape[0]):
            value = upper[i, j]
            for k in range(alpha.shape[1]):
                value -= alpha[i, k] * alpha[j, k]
            slopes[i, j] *= value
            slopes[j, i] = slopes[i, j]
