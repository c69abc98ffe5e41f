"""Implicit weights: w_r = start_r + sum over inputs j of c[r, j] x_j. The one place that computes pre-activations.

"Fires" has one meaning everywhere: the pre-activation that :meth:`Weights.look` computes (float64, in one fixed order)
is at or above the threshold. Matrix products in the working precision are only a filter: each carries a bound on its
rounding, the *guard*, and a pair closer to the threshold than the guard is looked at again. So firing sets depend
neither on the precision, the block size, the number of threads nor on the search that found them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from thresher.loops.pairs import look_at, materialise, merge_coefficients
from thresher.loops.rounding import guards, of_look, unit_roundoff
from thresher.model.firing import Pattern
from thresher.model.start import Start

__all__ = ["DenseWeights", "Floating", "Preactivations", "Weights"]

Floating = NDArray[np.float32] | NDArray[np.float64]
_BLOCK = 1 << 16  # moved neurons whose displacements are formed together


class Preactivations(NamedTuple):
    """Pre-activations (k, n) in working precision; each is within ``guard`` of what ``look`` would say."""

    values: Floating
    guard: float


class Weights(NamedTuple):
    """Start weights plus coefficients on the inputs: ``coefficients`` (pairs,) of the pairs in ``support``."""

    start: Start
    inputs: NDArray[np.float64]
    products: NDArray[np.float64]
    fast_inputs: Floating
    fast_products: Floating
    near: NDArray[np.float64]  # (n,): the largest |<x_i, x_j>| over the other inputs j
    support: Pattern
    coefficients: NDArray[np.float64]
    rounding: float  # bound on what float64 loses in sums over coefficients: of a look, or of a materialised vector

    @classmethod
    def at_start(
        cls,
        start: Start,
        inputs: NDArray[np.float64],
        *,
        dtype: DTypeLike,
        products: NDArray[np.float64] | None = None,
    ) -> Weights:
        """Return unmoved weights on inputs (n, d), with bulk products in working precision ``dtype``.

        ``products`` (n, n) are the inner products of the inputs, made here if not given. Cost: O(nd), or O(n²d).
        """
        nobody = Pattern(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32))
        products = inputs @ inputs.T if products is None else products
        return cls(
            start,
            inputs,
            products,
            inputs.astype(dtype, order="F"),  # so that its transpose is contiguous: faster products
            products.astype(dtype),
            _nearest(products),
            nobody,
            np.empty(0),
            0.0,
        )

    def moved(self, pattern: Pattern, step: NDArray[np.float64], *, scale: float) -> Weights:
        """Return the weights after w_r <- w_r - scale a_r (sum of step[j] x_j over the inputs j that r fires on).

        Cost: O(pairs): the coefficients change, no vector is formed.
        """
        push = -scale * self.start.signs(pattern.neurons)
        change = np.repeat(push, np.diff(pattern.bounds)) * step[pattern.inputs]
        *support, coefficients = merge_coefficients(*self.support, self.coefficients, *pattern, change)
        return self.with_coefficients(Pattern(*support), coefficients)

    def with_coefficients(self, support: Pattern, coefficients: NDArray[np.float64]) -> Weights:
        """Return weights with other coefficients (pairs,) on other pairs. Cost: O(pairs)."""
        rounding = 0.0
        if support.pairs:
            travelled = np.add.reduceat(np.abs(coefficients), support.bounds[:-1]).max()  # rows are never empty
            longest = int(np.diff(support.bounds).max())
            rounding = of_look(longest, self.inputs.shape[1], float(travelled), 0.0)
        return self._replace(support=support, coefficients=coefficients, rounding=rounding)

    def joined(self, parts: Sequence[Weights]) -> Weights:
        """Return weights with the coefficients of all parts, whose neurons ascend from part to part. Cost: O(pairs)."""
        sizes = np.cumsum([0] + [part.support.pairs for part in parts])
        bounds = [part.support.bounds[:-1] + size for part, size in zip(parts, sizes, strict=False)]
        support = Pattern(
            np.concatenate([part.support.neurons for part in parts]),
            np.concatenate([*bounds, sizes[-1:]]),
            np.concatenate([part.support.inputs for part in parts]),
        )
        coefficients = np.concatenate([part.coefficients for part in parts])
        rounding = max(part.rounding for part in parts)
        return self._replace(support=support, coefficients=coefficients, rounding=rounding)

    def in_float64(self) -> Weights:
        """Return the same weights with float64 as their working precision."""
        return self._replace(fast_inputs=self.inputs, fast_products=self.products)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision."""
        return self.fast_inputs.dtype

    def moved_neurons(self) -> NDArray[np.int64]:
        """Return the neurons that have left their start, ascending (k,)."""
        return self.support.neurons

    def block(self, neurons: range) -> Floating:
        """Return the weight vectors (k, d) of a block in working precision. Cost: O(d) a neuron and coefficient."""
        first, last = np.searchsorted(self.support.neurons, (neurons.start, neurons.stop))
        p, q = self.support.bounds[first], self.support.bounds[last]
        part = self._replace(support=self.support.slice(first, last), coefficients=self.coefficients[p:q])
        return part.vectors(neurons).astype(self.dtype)

    def vectors(self, neurons: range | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight vectors (k, d) of ascending neurons, materialised. Cost: O(d) a neuron and coefficient."""
        if isinstance(neurons, range):
            start = self.start.block(neurons.start, neurons.stop)
            neurons = np.arange(neurons.start, neurons.stop)
        else:
            start = self.start.rows(neurons)
        vectors: NDArray[np.float64] = materialise(neurons, start, *self.support, self.coefficients, self.inputs)
        return vectors

    def distances(self) -> NDArray[np.float64]:
        """Return how far each moved neuron is from its start, ||w_r - w_r(0)|| (k,). Cost: O(d) a coefficient."""
        support, parts = self.support, [np.empty(0)]
        for first in range(0, len(support.neurons), _BLOCK):
            part = support.slice(first, min(first + _BLOCK, len(support.neurons)))
            begin = support.bounds[first]
            values = self.coefficients[begin : begin + part.pairs]
            shape = (len(part.neurons), len(self.inputs))
            moved = sparse.csr_array((values, part.inputs, part.bounds), shape=shape) @ self.inputs  # (block, d)
            parts.append(np.linalg.norm(moved, axis=1))
        return np.concatenate(parts)

    def look(self, neurons: NDArray[np.int64], inputs: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the pre-activation of each pair (neurons[p], inputs[p]): the value that decides. Cost: O(d) a pair."""
        distinct, places = np.unique(neurons, return_inverse=True)
        start = self.start.rows(distinct).astype(np.float64)
        stored = (*self.support, self.coefficients)
        values: NDArray[np.float64] = look_at(distinct, start, places, inputs, *stored, self.inputs, self.products)
        return values

    def look_rounding(self, neurons: NDArray[np.int64], *, near: float) -> float:
        """Return a bound on what float64 loses in looks at these neurons whose values are about ``near``."""
        norms = np.linalg.norm(self.start.rows(neurons), axis=1)
        _, exact = self.guards(norms=norms)
        longest = int(np.diff(self.support.bounds).max(initial=0))
        return exact + self.rounding + of_look(longest, self.inputs.shape[1], 0.0, near)

    def preactivations(self, neurons: range | NDArray[np.int64], *, out: Floating | None = None) -> Preactivations:
        """Return the pre-activations (k, n) of neurons on all inputs by one matrix product. Cost: O(nd) a neuron."""
        vectors = self.vectors(neurons)
        values = np.matmul(vectors.astype(self.fast_inputs.dtype), self.fast_inputs.T, out=out)
        guard, _ = self.guards(norms=np.sqrt(np.einsum("rk,rk->r", vectors, vectors)))
        return Preactivations(values, guard + self.rounding)

    def guards(self, *, norms: Floating) -> tuple[float, float]:
        """Return bounds on the rounding of products of inputs with vectors of these norms (k,).

        The first is for working precision and includes the second, which is for the float64 of a look.
        """
        return guards(float(norms.max(initial=0.0)), self.inputs.shape[1], unit_roundoff(self.dtype))

    def settle(
        self,
        neurons: NDArray[np.int64],
        inputs: NDArray[np.int32],
        values: NDArray[np.float64],
        *,
        threshold: float,
        guard: float,
    ) -> tuple[NDArray[np.bool_], int]:
        """Look again at pairs whose value is within the guard of the threshold, and correct ``values`` in place.

        Returns which pairs fire (pairs,) and the number of looks. Cost: O(d) a doubtful pair.
        """
        doubtful = np.abs(values - threshold) <= guard
        values[doubtful] = self.look(neurons[doubtful], inputs[doubtful])
        return values >= threshold, int(doubtful.sum())


class DenseWeights(NamedTuple):
    """Start weights plus what was added to each: ``moved`` (m, d), for networks in which most neurons have moved."""

    start: Start
    moved: NDArray[np.float32]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision: double, since what twins say nearly cancels."""
        return np.dtype(np.float64)

    def moved_neurons(self) -> NDArray[np.int64]:
        """Return the neurons that have left their start, ascending (k,). Cost: O(md)."""
        return np.flatnonzero(self.moved.any(axis=1))

    def distances(self) -> NDArray[np.float64]:
        """Return how far each moved neuron is from its start (k,). Cost: O(md)."""
        distances = np.linalg.norm(self.moved, axis=1).astype(np.float64)
        return distances[distances > 0]

    def block(self, neurons: range) -> Floating:
        """Return the weight vectors (k, d) of a block. Cost: O(d) a neuron."""
        start = self.start.block(neurons.start, neurons.stop).astype(np.float64)
        return start + self.moved[neurons.start : neurons.stop]

    def vectors(self, neurons: range | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight vectors (k, d) of neurons. Cost: O(d) a neuron."""
        neurons = np.asarray(neurons, np.int64)
        return self.start.rows(neurons).astype(np.float64) + self.moved[neurons]


def _nearest(products: NDArray[np.float64]) -> NDArray[np.float64]:
    size = np.abs(products)
    np.fill_diagonal(size, 0.0)
    return size.max(axis=1) * (1 + 1e-6)  # the working precision may round up
