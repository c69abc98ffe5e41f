"""The limit of infinite width: the shifted kernel in closed form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from thresher.parallel import core_count, in_order

__all__ = ["firing_probability", "limit_kernel"]

_BLOCK = 64  # rows of the kernel that a thread fills at a time


def firing_probability(shift: float) -> float:
    """Return P(Z >= shift) for Z ~ N(0, 1): the share of neurons that fire on an input at the start."""
    return 0.5 * math.erfc(shift / math.sqrt(2))


def limit_kernel(products: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Return what the Gram matrix tends to as the width grows (``eq:kernel``), from inner products rho (n, n).

    H = rho P(Z1 >= b, Z2 >= b) for N(0, 1) variables of correlation rho; the probability is
    Q(b) - 2 T(b, sqrt((1 - rho) / (1 + rho))) with Owen's T function.

    Cost: O(n²), a few hundred nanoseconds an entry; symmetric, so half of them are computed.
    """
    kernel = np.empty_like(products)

    def fill(first: int) -> None:
        last = min(first + _BLOCK, len(products))
        rho = np.clip(products[first:last, :last], -1.0, 1.0)
        slope = np.sqrt((1 - rho) / np.maximum(1 + rho, np.finfo(float).tiny))
        both = firing_probability(shift) - 2 * special.owens_t(shift, slope)
        kernel[first:last, :last] = rho * np.maximum(both, 0.0)
        kernel[:first, first:last] = kernel[first:last, :first].T

    list(in_order(fill, range(0, len(products), _BLOCK), threads=core_count()))
    return kernel
