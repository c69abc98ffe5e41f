"""The inputs as the searches use them: inner products, working-precision copies, and bounds on rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thresher.loops.rounding import STRETCH, guards, unit_roundoff
from thresher.loops.structures import CoarseProducts
from thresher.model.weights import Floating

__all__ = ["Geometry"]

_ROWS = 64  # of products that are made coarse at a time


class Geometry(NamedTuple):
    """Inputs X (n, d), their inner products (n, n), and copies of both in working precision.

    Of many inputs no products are kept: those arrays are (0, 0), and searches look by vector, from X itself.
    """

    inputs: NDArray[np.float64]
    products: NDArray[np.float64]
    fast_inputs: Floating
    fast_products: Floating
    coarse_products: CoarseProducts
    max_correlation: NDArray[np.float64]  # (n,): the largest |<x_i, x_j>| over the other inputs j

    @classmethod
    def of(cls, inputs: NDArray[np.float64], *, dtype: DTypeLike, products: bool = True) -> Geometry:
        """Return the geometry of inputs (n, d), with working precision ``dtype``. Cost: O(n²d); else O(nd)."""
        fast = inputs.astype(dtype, order="F")  # so that its transpose is contiguous: faster products
        if not products:
            none = np.empty((0, 0))
            return cls(inputs, none, fast, none.astype(dtype), _coarse(none), np.full(len(inputs), STRETCH))
        made = inputs @ inputs.T
        sizes = np.abs(made)
        np.fill_diagonal(sizes, 0.0)
        largest = sizes.max(axis=1) * (1 + 1e-6)  # the working precision may round up
        return cls(inputs, made, fast, made.astype(dtype), _coarse(made), largest)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision."""
        return self.fast_inputs.dtype

    def guards(self, *, norms: Floating) -> tuple[float, float]:
        """Return bounds on the rounding of products of inputs with vectors of these norms (k,).

        The first is for working precision and includes the second, which is for float64.
        """
        return guards(float(norms.max(initial=0.0)), self.inputs.shape[1], unit_roundoff(self.dtype))


def _coarse(products: NDArray[np.float64]) -> CoarseProducts:
    """Return products of inputs (n, n) in 127 steps up to the largest. Cost: O(n²), without room for another (n, n)."""
    step = float(max(products.max(initial=0.0), -products.min(initial=0.0), 1e-300)) / 127
    steps, error = np.empty(products.shape, np.int8), 0.0
    for first in range(0, len(products), _ROWS):
        some = products[first : first + _ROWS]
        whole = np.rint(some * (1 / step))
        steps[first : first + _ROWS] = whole
        error = max(error, float(np.abs(some - whole * step).max()))
    return CoarseProducts(steps, step, error)
