"""Where the neurons of a search stand: start weights plus coefficients on the inputs, and their pre-activations.

"Fires" means here: the pre-activation that :meth:`Position.exact` computes (float64, in one fixed order) is at or
above the threshold. Matrix products in working precision are only a filter: each carries a bound on its rounding, the
*guard*, and a pair closer to the threshold than the guard is computed exactly. So firing sets depend neither on the
precision, the block size, the number of threads nor on the search that found them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.loops.pairs.by_neuron import look_at, merge_coefficients
from thresher.loops.rounding import of_look
from thresher.model.firing import Pattern
from thresher.model.geometry import Geometry
from thresher.model.poisson import AnyStart
from thresher.model.weights import Floating, Weights

__all__ = ["Position"]


class Position(NamedTuple):
    """Implicit weights on inputs whose geometry is known."""

    geometry: Geometry
    weights: Weights
    rounding: float  # bound on what float64 loses in sums over coefficients

    @classmethod
    def at_start(cls, start: AnyStart, geometry: Geometry) -> Position:
        """Return unmoved weights. Cost: O(1)."""
        return cls(geometry, Weights.at_start(start, geometry.inputs, dtype=geometry.dtype), 0.0)

    def moved(self, pattern: Pattern, step: NDArray[np.float64], *, scale: float) -> Position:
        """Return the position after a step (n,), D <- D + Jᵀ step, J being that of the firing pairs in the pattern.

        Cost: O(pairs): the coefficients change, no vector is formed.
        """
        weights = self.weights
        push = scale * weights.start.signs(pattern.neurons)
        change = pattern.per_pair(push) * step[pattern.inputs]
        *support, coefficients = merge_coefficients(*weights.support, weights.coefficients, *pattern, change)
        return self.with_coefficients(Pattern(*support), coefficients)

    def with_coefficients(self, support: Pattern, coefficients: NDArray[np.float64]) -> Position:
        """Return the position with other coefficients (pairs,) on other pairs. Cost: O(pairs)."""
        rounding = 0.0
        if support.pairs:
            travelled = np.add.reduceat(np.abs(coefficients), support.bounds[:-1]).max()  # rows are never empty
            longest = int(np.diff(support.bounds).max())
            rounding = of_look(longest, self.geometry.inputs.shape[1], float(travelled), self.geometry.farthest)
        weights = self.weights._replace(support=support, coefficients=coefficients)
        return self._replace(weights=weights, rounding=rounding)

    def exact(self, neurons: NDArray[np.int64], inputs: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the pre-activation of each pair (neurons[p], inputs[p]), less offsets: the value that decides.

        Cost: O(d) and O(1) per coefficient, for each pair.
        """
        distinct, places = np.unique(neurons, return_inverse=True)
        weights, (X, products, *_), offsets = self.weights, self.geometry, self.geometry.offsets
        start = weights.start.rows(distinct).astype(np.float64, order="C")
        stored = (*weights.support, weights.coefficients)
        values: NDArray[np.float64] = look_at(distinct, start, places, inputs, *stored, X, products)
        return values if offsets is None else values - offsets[inputs]

    def preactivations(
        self, neurons: range | NDArray[np.int64], *, out: Floating | None = None
    ) -> tuple[Floating, float]:
        """Return the pre-activations (k, n) of neurons on all inputs by one matrix product, and their guard.

        Each is in working precision, and within the guard of the exact one. Cost: O(nd) per neuron.
        """
        vectors, fast = self.weights.vectors(neurons), self.geometry.fast_inputs
        values = self.geometry.less_offsets(np.matmul(vectors.astype(fast.dtype), fast.T, out=out))
        guard, _ = self.geometry.guards(norms=np.sqrt(np.einsum("rk,rk->r", vectors, vectors)))
        return values, guard + self.rounding

    def settle(
        self,
        neurons: NDArray[np.int64],
        inputs: NDArray[np.int32],
        values: NDArray[np.float64],
        *,
        threshold: float,
        guard: float,
    ) -> tuple[NDArray[np.bool_], int]:
        """Compute pairs within the guard of the threshold exactly, and correct ``values`` in place.

        Returns which pairs fire (pairs,) and the number of exact ones. Cost: O(d) per doubtful pair.
        """
        doubtful = np.abs(values - threshold) <= guard
        values[doubtful] = self.exact(neurons[doubtful], inputs[doubtful])
        return values >= threshold, int(doubtful.sum())
