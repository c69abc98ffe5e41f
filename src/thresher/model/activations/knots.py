"""Inputs at knots: what makes a network with any piecewise linear activation a ReLU network on more inputs.

An input x and a knot make an input of the ReLU network: x, or -x for a knot below the background, with a threshold of
its own. Input i at knot k has number k n + i. The Jacobian of the network is a sum over knots of that of the ReLU
network, times the jumps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.export import Neurons
from thresher.model.activations.curves import Pieces

__all__ = ["Knots", "neurons_at_knots"]

Matrix = NDArray[np.float64]


class Knots(NamedTuple):
    """Inputs X (n, d) and the pieces of an activation with K knots."""

    X: Matrix
    pieces: Pieces

    @property
    def inputs(self) -> Matrix:
        """The inputs at all knots, (K n, d). Cost: O(Knd)."""
        return np.concatenate([side * self.X for side in self.pieces.sides])

    def offsets(self, shift: float) -> Matrix:
        """Return how far the threshold of each input at a knot lies above the shift, (K n,)."""
        return np.repeat(np.array(self.pieces.thresholds) - shift, len(self.X))

    def spread(self, v: Matrix) -> Matrix:
        """Return what a step v (n,), or (n, k), is at all knots, (K n,) or (K n, k)."""
        return np.concatenate([jump * v for jump in self.pieces.jumps])

    def gather(self, values: Matrix) -> Matrix:
        """Return the sum over knots (n,), or (n, k), of values at knots (K n,), or (K n, k), times the jumps."""
        parts = values.reshape(len(self.pieces.jumps), len(self.X), *values.shape[1:])
        return np.tensordot(np.array(self.pieces.jumps), parts, axes=1)

    def squares(self, counts: NDArray[np.int64]) -> Matrix:
        """Return the sum of squared slopes over neurons (n,), of which so many fire at knots (K n,).

        Beyond a knot is beyond all that lie between it and the background.
        """
        many, pieces = counts.reshape(-1, len(self.X)), self.pieces
        total, slope, side = np.zeros(len(self.X)), 0.0, 0
        for place, here in enumerate(pieces.sides):
            slope = 0.0 if here != side else slope
            before, slope, side = slope, slope + here * pieces.jumps[place], here
            total += many[place] * (slope**2 - before**2)
        return total


def neurons_at_knots(neurons: Neurons, pieces: Pieces) -> Neurons:
    """Return ReLU neurons that do what neurons (k,), or pairs of twins, with these pieces do: K k.

    Cost: O(Kkd).
    """

    def turned(rows: Matrix) -> Matrix:
        return np.concatenate([side * rows for side in pieces.sides])

    coefficients = np.concatenate([jump * neurons.coefficients for jump in pieces.jumps])
    shift = np.repeat(pieces.thresholds, len(neurons.coefficients))
    hidden, apart = turned(neurons.hidden), turned(neurons.apart)
    return Neurons(hidden, apart, coefficients, shift, neurons.offset)
