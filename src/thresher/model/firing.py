"""Which neurons fire on which inputs: the firing pairs of a slice of neurons, and what follows from them alone."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thresher.loops.pairs.by_neuron import count_cofiring, pairs_missing

__all__ = ["Firing", "Pattern", "pattern_of_pairs"]


Scalar = TypeVar("Scalar", np.int64, np.float64)


class Pattern(NamedTuple):
    """Firing pairs by neuron, compressed: neurons that fire on no input take no memory.

    ``neurons`` (k,) ascending, ``bounds`` (k + 1,), ``inputs`` (pairs,) ascending within each neuron.
    """

    neurons: NDArray[np.int64]
    bounds: NDArray[np.int64]
    inputs: NDArray[np.int32]

    @property
    def pairs(self) -> int:
        """Number of firing pairs."""
        return len(self.inputs)

    def per_pair(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return values (k,) of the neurons, repeated for each of their pairs, (pairs,)."""
        return np.repeat(values, np.diff(self.bounds))

    def slice(self, first: int, last: int) -> Pattern:
        """Return the rows first..last - 1 of this pattern."""
        p, q = self.bounds[first], self.bounds[last]
        return Pattern(self.neurons[first:last], self.bounds[first : last + 1] - p, self.inputs[p:q])

    def without(self, other: Pattern) -> NDArray[np.int64]:
        """Return the places of the pairs that are not in the other pattern. Cost: O(pairs of both)."""
        return pairs_missing(*self, *other)

    def count_cofiring(self, neurons: NDArray[np.int64], counts: NDArray[np.int32], *, sign: int) -> None:
        """Add to ``counts`` (n, n), lower triangle, ``sign`` per pair of inputs and neuron that fires on both."""
        places = np.searchsorted(self.neurons, neurons)
        here = places < len(self.neurons)
        places = places[here][self.neurons[places[here]] == neurons[here]]
        count_cofiring(self.bounds, self.inputs, places, sign, counts)


class Firing(NamedTuple):
    """A pattern with the pre-activation of each firing pair, ``values`` (pairs,)."""

    pattern: Pattern
    values: NDArray[np.float64]


def pattern_of_pairs(neurons: NDArray[np.int64], inputs: NDArray[np.int32]) -> Pattern:
    """Return the pattern of pairs that are already sorted by neuron, then input."""
    first = np.flatnonzero(np.diff(neurons, prepend=-1))
    return Pattern(neurons[first], np.append(first, len(neurons)), inputs)
