"""What a network's weights are: the start plus what training added, as coefficients on the inputs or neuron by neuron.

Training adds multiples of the inputs, w_r = start_r + sum over j of c[r, j] x_j. Where few neurons move, the
coefficients are kept; where most do, what was added to each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thresher.loops.pairs.by_neuron import materialise
from thresher.model.firing import Pattern
from thresher.model.poisson import AnyStart

__all__ = ["DenseWeights", "Floating", "Weights"]

Floating = NDArray[np.float32] | NDArray[np.float64]
_BLOCK = 1 << 16  # moved neurons whose displacements are formed together


class Weights(NamedTuple):
    """Start weights plus coefficients on the inputs (n, d): ``coefficients`` (pairs,) of the pairs in ``support``."""

    start: AnyStart
    inputs: NDArray[np.float64]
    support: Pattern
    coefficients: NDArray[np.float64]
    dtype: np.dtype[np.floating]  # of the vectors of a block: the working precision of training

    @property
    def dense(self) -> Literal[False]:
        """Whether what was added to each neuron is kept as a vector."""
        return False

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what training added, by name: what a file keeps."""
        neurons, bounds, inputs = self.support
        return {"neurons": neurons, "bounds": bounds, "places": inputs, "coefficients": self.coefficients}

    @classmethod
    def at_start(cls, start: AnyStart, inputs: NDArray[np.float64], *, dtype: DTypeLike) -> Weights:
        """Return unmoved weights. Cost: O(1)."""
        empty = Pattern(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32))
        return cls(start, inputs, empty, np.empty(0), np.empty(0, dtype).dtype)

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
        return self._replace(support=support, coefficients=coefficients)

    def moved_neurons(self) -> NDArray[np.int64]:
        """Return the neurons that have left their start, ascending (k,)."""
        return self.support.neurons

    def part(self, first: int, last: int) -> Weights:
        """Return weights in which of the moved neurons only number ``first`` to ``last - 1`` have moved. Cost: O(1)."""
        p, q = self.support.bounds[first], self.support.bounds[last]
        return self._replace(support=self.support.slice(first, last), coefficients=self.coefficients[p:q])

    def block(self, neurons: range) -> Floating:
        """Return the weight vectors (k, d) of a block in working precision. Cost: O(d) per neuron and coefficient."""
        first, last = np.searchsorted(self.support.neurons, (neurons.start, neurons.stop))
        return self.part(first, last).vectors(neurons).astype(self.dtype)

    def vectors(self, neurons: range | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight vectors (k, d) of ascending neurons. Cost: O(d) per neuron and coefficient."""
        if isinstance(neurons, range):
            start = self.start.block(neurons.start, neurons.stop)
            neurons = np.arange(neurons.start, neurons.stop)
        else:
            start = self.start.rows(neurons)
        start = np.ascontiguousarray(start)  # ten times faster to add to, row by row
        vectors: NDArray[np.float64] = materialise(neurons, start, *self.support, self.coefficients, self.inputs)
        return vectors

    def distances(self) -> NDArray[np.float64]:
        """Return how far each moved neuron is from its start, ||w_r - w_r(0)|| (k,). Cost: O(d) per coefficient."""
        from scipy import sparse  # training does not need it

        count, found = len(self.support.neurons), [np.empty(0)]
        for first in range(0, count, _BLOCK):
            part = self.part(first, min(first + _BLOCK, count))
            neurons, bounds, inputs = part.support
            shape = (len(neurons), len(self.inputs))
            moved = sparse.csr_array((part.coefficients, inputs, bounds), shape=shape) @ self.inputs  # (block, d)
            found.append(np.linalg.norm(moved, axis=1))
        return np.concatenate(found)


class DenseWeights(NamedTuple):
    """Start weights plus what was added to each neuron, from number ``first`` on: ``moved`` (k, d)."""

    start: AnyStart
    moved: Floating
    first: int = 0

    @property
    def dense(self) -> Literal[True]:
        """Whether what was added to each neuron is kept as a vector."""
        return True

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what training added, by name: what a file keeps."""
        return {"moved": self.moved}

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision: double, since the outputs of twins nearly cancel."""
        return np.dtype(np.float64)

    def joined(self, parts: Sequence[DenseWeights]) -> DenseWeights:
        """Return the weights of all parts, whose neurons ascend from part to part. Cost: O(md)."""
        return self._replace(moved=np.concatenate([part.moved for part in parts]))

    def moved_neurons(self) -> NDArray[np.int64]:
        """Return the neurons that have left their start, ascending (k,). Cost: O(md)."""
        return self.first + np.flatnonzero(self.moved.any(axis=1))

    def distances(self) -> NDArray[np.float64]:
        """Return how far each moved neuron is from its start (k,). Cost: O(md)."""
        distances = np.linalg.norm(self.moved, axis=1).astype(np.float64)
        return distances[distances > 0]

    def block(self, neurons: range) -> Floating:
        """Return the weight vectors (k, d) of a block. Cost: O(d) per neuron."""
        start = self.start.block(neurons.start, neurons.stop).astype(np.float64)
        return start + self.moved[neurons.start - self.first : neurons.stop - self.first]

    def vectors(self, neurons: range | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight vectors (k, d) of neurons. Cost: O(d) per neuron."""
        if isinstance(neurons, range):
            return np.asarray(self.block(neurons), np.float64)
        return self.start.rows(neurons).astype(np.float64) + self.moved[neurons - self.first]
