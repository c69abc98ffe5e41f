"""What all neurons move by alike, and the certificates of neurons that fire on nothing but move all the same.

Where the background of an activation has a slope, a step moves each neuron by one vector times its sign, besides what
its firing pairs do. Neurons that fire on nothing then need certificates too: those with an input within a *band* below
its threshold get a watchlist, all others are safe until the common path is longer than the band.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thresher.loops.rounding import STRETCH, of_common
from thresher.shards.recipe import Recipe

__all__ = ["WIDEST", "Alike"]

_BAND = 2.0  # multiple of the common path that is expected
WIDEST = 0.25  # band that is foreseen: a longer path is met by scanning again, not by watching nearly every pair
_WIDER = 2.0  # multiple of the path, once it is longer than the band


class Alike:
    """The common vector at each snapshot of a shard: a sum of steps, which every neuron moved by, times its sign."""

    def __init__(self, recipe: Recipe) -> None:
        self._inputs, self._scale = recipe.inputs, recipe.settings.scale
        self._size = abs(recipe.knots.pieces.slope) if recipe.knots else 0.0
        self._jump = math.sqrt(np.mean(np.square(recipe.knots.pieces.jumps))) if recipe.knots else 1.0
        n, d = recipe.inputs.shape
        # Firing inputs whose steps lead as far, roughly: what the clock and wake-ups count it as.
        self.inputs = math.sqrt(n) if self._size else 0.0
        self.vectors = np.zeros((1, d if self._size else 0))  # at each snapshot
        self.products = np.zeros((1, n if self._size else 0))  # of these with the inputs
        self.travelled = np.zeros(1)  # the length of their path
        self.band = 0.0

    def expect(self, expected: float) -> None:
        """Set the band, from the drift that is to come, per square root of the number of inputs that a neuron fires on.

        Over all inputs the steps of the jumps are such a drift; those of the slope are in proportion.
        """
        if self._size:
            self.band = min(_BAND * self._size / self._jump * math.sqrt(len(self._inputs)) * expected, WIDEST)

    def take(self, vector: NDArray[np.float64] | None) -> float:
        """Add a snapshot; return its distance from the last, in units of what one step of one input adds at most."""
        if not self._size:
            self.travelled = np.append(self.travelled, 0.0)
            return 0.0
        vector = np.zeros_like(self.vectors[0]) if vector is None else vector
        length = STRETCH * float(np.linalg.norm(vector - self.vectors[-1]))
        self.vectors = np.vstack([self.vectors, vector])
        self.products = np.vstack([self.products, self._inputs @ vector])
        self.travelled = np.append(self.travelled, self.travelled[-1] + length)
        return length / (self._scale * self.inputs)

    def at(self, snapshot: int) -> NDArray[np.float64] | None:
        """Return the common vector (d,) at a snapshot; None if the background has no slope."""
        return self.vectors[snapshot] if self._size else None

    def rounding(self, near: float) -> float:
        """Return what float64 loses by it in pre-activations about ``near``."""
        return float(of_common(self.travelled[-1], self._inputs.shape[1], near))

    def left_band(self) -> bool:
        """Return whether neurons without a watchlist may fire; if so the band grows, and they are to be listed."""
        beyond = self.travelled[-1] >= self.band if self._size else False
        if beyond:
            self.band = _WIDER * float(self.travelled[-1])
        return bool(beyond)
