"""Outputs of networks of twins, many networks at a time, without computing what cancels.

Twins begin at the same weights w with the signs 1 and -1; u and v were added to them. If both fire on an input x,
together they add <u - v, x>, whatever w is; if neither fires, nothing. <w, x> decides which, unless it is closer to the
threshold than u or v are long: such pairs are few, and computed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.loops.outputs import which_fire
from thresher.loops.rounding import of_margin, unit_roundoff
from thresher.model.network import Network, NetworkSettings, row_blocks
from thresher.parallel import in_order

__all__ = ["moved_twins", "predict_twins"]

Matrix = NDArray[np.float64]
_INPUTS = 4096  # rows for which start weights are made once
_TOGETHER = 256  # rows of one matrix product, at most
_NUMBERS = 1 << 20  # at a time: of what was added to the neurons of a block, and of products
_RARE = 1000  # one in this many pairs may be close to the threshold before more memory is allocated


def predict_twins(networks: Sequence[Network], inputs: Matrix, *, threads: int = 1) -> Matrix:
    """Return the outputs (k, networks) of networks of twins with the same start, on unit-norm inputs (k, d).

    Their weights must be dense. The result does not depend on ``threads``, and is exact to double precision.

    Cost: O(md/2) per row to find which neurons fire, and as much per network; many times that if neurons have moved by
    more than some hundredths. Memory for some blocks of 2^20 numbers, or of 64 neurons of all networks, per thread.
    """
    settings, moved = networks[0].settings, moved_twins(networks)
    most = _NUMBERS // (len(networks) * inputs.shape[1])
    size, together = max(64, min(2048, most) // 2 * 2), max(16, min(_TOGETHER, most))

    def sums(rows: Matrix) -> Matrix:
        def part(block: range) -> Matrix:
            pairs = _Pairs(settings, moved, block, longest=float(np.linalg.norm(rows, axis=1).max()))
            return np.concatenate([pairs.outputs(some) for some in _blocks(rows, together)])

        total = np.zeros((len(rows), len(networks)))
        for one in in_order(part, row_blocks(0, settings.neurons, size=size), threads=threads):
            total += one
        return total * settings.scale

    none = np.empty((0, len(networks)))
    return np.concatenate([none, *(sums(rows) for rows in _blocks(inputs, _INPUTS))])


def moved_twins(networks: Sequence[Network]) -> list[NDArray[Any]]:
    """Return what was added to the neurons of each network, (m, d); refuse networks that are not twins of one start."""
    settings = networks[0].settings
    moved = [network.weights.moved for network in networks if network.weights.dense]
    same = all(one.settings == settings for one in networks) and settings.pieces is None
    if len(moved) < len(networks) or not settings.start.twins or not same:
        raise InvalidInput(
            "networks can predict together only if they are dense twins of one start. Call predict on each."
        )
    return moved


def _blocks(inputs: Matrix, size: int) -> Iterator[Matrix]:
    return (inputs[first : first + size] for first in range(0, len(inputs), size))


class _Pairs:
    """A block of pairs of twins, of all networks."""

    def __init__(
        self, settings: NetworkSettings, moved: Sequence[NDArray[Any]], block: range, *, longest: float
    ) -> None:
        self._shift, self._networks = settings.shift, len(moved)
        self._start = settings.start.block(block.start, block.stop)[::2]  # (pairs, d)
        self._added = np.stack([one[block.start : block.stop] for one in moved], axis=1)  # (neurons, networks, d)
        both = self._added[::2].astype(np.float64) - self._added[1::2]
        self._both = both.reshape(len(self._start), -1)  # (pairs, networks times d)
        farthest = np.linalg.norm(self._added, axis=2).max(axis=1).reshape(-1, 2).max(axis=1)
        norms = np.linalg.norm(self._start, axis=1)
        rounding = of_margin(self._start.shape[1], unit_roundoff(np.float32), norms, self._shift)
        self._reach = ((farthest + rounding) * longest * 1.001).astype(np.float32)

    def outputs(self, inputs: Matrix) -> Matrix:
        """Return the contribution of the block to the outputs (k, networks) on inputs (k, d)."""
        values, fires = inputs.astype(np.float32) @ self._start.T, np.empty((len(inputs), len(self._start)))
        room = 1 + values.size // _RARE
        while True:
            rows, pairs = np.empty((2, room), np.int64)
            found = which_fire(values, np.float32(self._shift), self._reach, fires, rows, pairs)
            if found <= room:
                break
            room = found
        pushed = (fires @ self._both).reshape(len(inputs), self._networks, -1)
        total = np.einsum("knd,kd->kn", pushed, inputs)
        most = max(1, _NUMBERS // self._added[0].size)
        for first in range(0, found, most):
            some = slice(first, min(first + most, found))
            self._add_near(total, inputs, rows[some], pairs[some])
        return total

    def _add_near(self, total: Matrix, inputs: Matrix, rows: NDArray[np.int64], pairs: NDArray[np.int64]) -> None:
        """Add to ``total`` the outputs of pairs on rows, computed in full."""
        margins = np.einsum("pd,pd->p", self._start[pairs].astype(np.float64), inputs[rows]) - self._shift
        for twin, sign in ((0, 1.0), (1, -1.0)):
            added = np.einsum("pnd,pd->pn", self._added[2 * pairs + twin].astype(np.float64), inputs[rows])
            np.add.at(total, rows, sign * np.maximum(margins[:, None] + added, 0.0))
