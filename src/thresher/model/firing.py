"""Who fires on what: the firing pairs of a slice of neurons, and what follows from them alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.kernels.pairs import count_cofiring, count_common

__all__ = ["Firing", "Pattern", "pattern_of_pairs"]


class Pattern(NamedTuple):
    """Firing pairs by neuron, compressed: neurons that fire on nothing take no room.

    ``neurons`` (k,) ascending, ``bounds`` (k + 1,), ``inputs`` (pairs,) ascending within each neuron.
    """

    neurons: NDArray[np.int64]
    bounds: NDArray[np.int64]
    inputs: NDArray[np.int32]

    @property
    def pairs(self) -> int:
        """Number of firing pairs."""
        return len(self.inputs)

    def neuron_of_pair(self) -> NDArray[np.int64]:
        """Return the place in ``neurons`` of each pair, (pairs,)."""
        return np.repeat(np.arange(len(self.neurons)), np.diff(self.bounds))

    def flips_to(self, other: Pattern) -> int:
        """Return how many pairs fire in one pattern and not in the other. Cost: O(pairs)."""
        return self.pairs + other.pairs - 2 * count_common(*self, *other)

    def count_cofiring(self, inputs: int) -> NDArray[np.int64]:
        """Return C (n, n): how many neurons fire on both of two inputs. Cost: O(n² + sum of squared row lengths)."""
        counts = np.zeros((inputs, inputs), np.int64)
        count_cofiring(self.bounds, self.inputs, counts)
        return counts


class Firing(NamedTuple):
    """A pattern with the pre-activation of each firing pair, ``values`` (pairs,)."""

    pattern: Pattern
    values: NDArray[np.float64]


def pattern_of_pairs(neurons: NDArray[np.int64], inputs: NDArray[np.int32]) -> Pattern:
    """Return the pattern of pairs that are already sorted by neuron, then input."""
    first = np.flatnonzero(np.diff(neurons, prepend=-1))
    return Pattern(neurons[first], np.append(first, len(neurons)), inputs)
