"""The inputs as the searches use them: inner products, working-precision copies, and bounds on rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thresher.loops.rounding import FINE, STRETCH, guards, of_offset, unit_roundoff
from thresher.model.weights import Floating

__all__ = ["Geometry"]


class Geometry(NamedTuple):
    """Inputs X (n, d), their inner products (n, n), and copies of both in working precision.

    Of many inputs no products are kept: those arrays are (0, 0), and searches look by vector, from X itself.
    """

    inputs: NDArray[np.float64]
    products: NDArray[np.float64]
    fast_inputs: Floating
    fast_products: Floating
    max_correlation: NDArray[np.float64]  # (n,): the largest |<x_i, x_j>| over the other inputs j
    offsets: NDArray[np.float64] | None = None  # (n,): how far thresholds of inputs lie above the shift; None: at it

    @classmethod
    def of(
        cls,
        inputs: NDArray[np.float64],
        *,
        dtype: DTypeLike,
        products: bool = True,
        offsets: NDArray[np.float64] | None = None,
    ) -> Geometry:
        """Return the geometry of inputs (n, d), with working precision ``dtype``. Cost: O(n²d); else O(nd)."""
        fast = inputs.astype(dtype, order="F")  # so that its transpose is contiguous: faster products
        if not products:
            none = np.empty((0, 0))
            largest = np.full(len(inputs), STRETCH)
            return cls(inputs, none, fast, none.astype(dtype), largest, offsets)
        made = inputs @ inputs.T
        sizes = np.abs(made)
        np.fill_diagonal(sizes, 0.0)
        largest = sizes.max(axis=1) * (1 + 1e-6)  # the working precision may round up
        return cls(inputs, made, fast, made.astype(dtype), largest, offsets)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision."""
        return self.fast_inputs.dtype

    def guards(self, *, norms: Floating) -> tuple[float, float]:
        """Return bounds on the rounding of products of inputs with vectors of these norms (k,).

        The first is for working precision and includes the second, which is for float64.
        """
        longest = float(norms.max(initial=0.0))
        working, exact = guards(longest, self.inputs.shape[1], unit_roundoff(self.dtype))
        lost, fine = self.lost(longest)
        return working + lost, exact + fine

    def lost(self, longest: float) -> tuple[float, float]:
        """Return bounds on what subtracting offsets takes from products with vectors of at most that norm.

        The first is for working precision and includes the second, which is for float64; both are 0 without offsets.
        """
        fine = of_offset(longest, self.farthest, FINE)
        return of_offset(longest, self.farthest, unit_roundoff(self.dtype)) + fine, fine

    @property
    def farthest(self) -> float:
        """The largest size of an offset."""
        return 0.0 if self.offsets is None else float(np.abs(self.offsets).max())

    def less_offsets(self, values: Floating) -> Floating:
        """Return products (k, n) with inputs less the offsets, in place: what is compared with the shift."""
        if self.offsets is not None:
            values -= self.offsets.astype(values.dtype)
        return values
