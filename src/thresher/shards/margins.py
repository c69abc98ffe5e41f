"""Margins of pairs, by matrix products: how far pre-activations lie above the threshold; their signs are exact."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.loops.pairs.by_neuron import collect_within, dot_pairs
from thresher.loops.rounding import of_margin, size_of_product, unit_roundoff

__all__ = ["Bits", "Fast", "Margins", "Matrix"]

Matrix = NDArray[np.float64]
Fast = NDArray[Any]  # in working precision
Bits = NDArray[np.uint8]


class Margins(NamedTuple):
    """The inputs in float64 and in working precision, and the threshold, or thresholds (n,) of the inputs."""

    inputs: Matrix  # (n, d)
    fast: Fast
    shift: float | Matrix

    def guard(self, norms: Matrix) -> Matrix:
        """Return bounds (k,) on the rounding of margins of weight vectors with these norms (k,)."""
        sizes = size_of_product(norms)
        bounds: Matrix = of_margin(self.fast.shape[1], unit_roundoff(self.fast.dtype), sizes, np.abs(self.shift).max())
        return bounds

    def of_vectors(self, start: Fast, added: Fast | None = None) -> Fast:
        """Return how far pre-activations of weight vectors start + added (k, d) lie above the threshold, (k, n).

        Those within the guard are computed in float64, so the sign of each is that of the exact margin.

        Cost: O(nd) per vector.
        """
        vectors = start.astype(self.fast.dtype, copy=False) if added is None else start + added
        margins = vectors @ self.fast.T
        margins -= np.asarray(self.shift, margins.dtype)
        reach = self.guard(np.sqrt(np.einsum("kd,kd->k", vectors, vectors, dtype=np.float64)))
        rows, inputs = collect_within(margins, reach)
        if len(rows):
            margins[rows, inputs] = self.exact(start, added, rows, inputs)
        return margins

    def exact(self, start: Fast, added: Fast | None, rows: NDArray[np.int64], inputs: NDArray[np.int64]) -> Matrix:
        """Return the margins (p,) of pairs in float64: those that decide. Cost: O(d) per pair."""
        vectors = start.astype(np.float64, order="C")
        if added is not None:
            vectors += added
        values: Matrix = dot_pairs(vectors, rows, self.inputs, inputs)
        return values - (self.shift[inputs] if isinstance(self.shift, np.ndarray) else self.shift)
