"""The oracle: look at every pair, every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort
from thresher.loops.pairs.by_neuron import collect_above
from thresher.model.firing import Firing, pattern_of_pairs
from thresher.model.network import row_blocks
from thresher.model.position import Position

__all__ = ["Scan"]


class Scan:
    """Threshold search without a data structure: nothing to maintain, every question answered by looking at all pairs.

    Cost: ``init`` and ``update`` O(1), ``query`` O(md), ``firing`` O(mnd); memory O(n) for a block of neurons.
    """

    def __init__(self) -> None:
        self.spent = Effort()

    def init(self, position: Position, neurons: range) -> None:
        """Remember where the weights are. Cost: O(1)."""
        self._position, self._neurons = position, neurons

    def update(self, position: Position, neurons: NDArray[np.int64]) -> None:
        """Remember where the new weights are. Cost: O(1)."""
        self._position = position

    def query(self, i: int, threshold: float) -> NDArray[np.int64]:
        """Return the neurons with <w_r, x_i> >= threshold. Cost: O(md)."""
        one_input = self._position.geometry.fast_inputs[i : i + 1]
        return self._collect(one_input, i, threshold)[0]

    def firing(self, threshold: float) -> Firing:
        """Return all firing pairs in one pass. Cost: O(mnd)."""
        neurons, inputs, values = self._collect(self._position.geometry.fast_inputs, 0, threshold)
        return Firing(pattern_of_pairs(neurons, inputs), values)

    def _collect(
        self, fast_inputs: NDArray[np.float32] | NDArray[np.float64], first_input: int, threshold: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        view = self._position._replace(geometry=self._position.geometry._replace(fast_inputs=fast_inputs))
        found = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))]  # a drawn network may have no neuron
        for block in row_blocks(self._neurons.start, self._neurons.stop):
            products, guard = view.preactivations(block)
            rows, columns = collect_above(products, threshold - guard)
            values = products[rows, columns].astype(np.float64)
            neurons, inputs = rows + block.start, columns + np.int32(first_input)
            fires, looks = view.settle(neurons, inputs, values, threshold=threshold, guard=guard)
            found.append((neurons[fires], inputs[fires], values[fires]))
            self.spent = self.spent.plus(Effort(looks=products.size + looks))
        neurons, inputs, values = (np.concatenate(column) for column in zip(*found, strict=True))
        return neurons, inputs, values
