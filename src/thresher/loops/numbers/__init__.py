"""Random numbers: each start row is a function of the seed and its number."""

from __future__ import annotations

from numba import njit

__all__ = ["polynomial"]


@njit(inline="always")
def polynomial(coefficients, x):
    """Return a polynomial at x; its coefficients, a tuple, come from the highest power down."""
    value = coefficients[0]
    for power in range(1, len(coefficients)):
        value = value * x + coefficients[power]
    return value
