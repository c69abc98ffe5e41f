"""Outputs of networks of which few neurons fire on an input: start rows are searched for those that may."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thresher.loops import screen
from thresher.loops.outputs import add_outputs
from thresher.loops.structures import PredictedRows
from thresher.model.poisson import AnyStart
from thresher.model.weights import Weights
from thresher.parallel import in_order

__all__ = ["few_near", "sum_near"]

_FEW = 0.1  # of all pairs may be looked at one by one: each costs as much as several in a matrix product
_SAMPLE = 256  # moved neurons that tell how far they have moved
_BLOCK, _TASK = 1024, 1 << 14  # start rows of a matrix product, and of a partial sum


def few_near(weights: Weights, shift: float) -> bool:
    """Return whether few pairs fire, or are nearer to it than neurons have moved. Cost: O(d) for some coefficients."""
    support = weights.support.slice(0, min(_SAMPLE, len(weights.support.neurons)))
    moved = weights._replace(support=support, coefficients=weights.coefficients[: support.pairs]).distances()
    reach = float(moved.mean()) if len(moved) else 0.0
    return 0.5 * math.erfc((shift - reach) / math.sqrt(2)) <= _FEW


def sum_near(
    weights: Weights, inputs: NDArray[np.float64], shift: float, *, neurons: int, threads: int
) -> NDArray[np.float64]:
    """Return the sums over neurons of sign times max(<w, x> - shift, 0), (k,), on inputs (k, d); ``neurons`` exist.

    Twins share a start row and its product, and those that never moved cancel. The sum has a fixed order.

    Cost: O(kd) per start row that counts, and O(d) per pair that is near the threshold.
    """
    start, fast = weights.start, screen.padded(inputs, weights.dtype)
    copies = 2 if start.twins else 1
    rows = np.arange(neurons)
    if start.twins:
        rows = weights.support.neurons >> 1  # ascending
        rows = rows[np.diff(rows, prepend=-1) > 0]
    added = (*weights.support, weights.coefficients, weights.inputs)
    way = screen.way_for(inputs.shape[1])
    rounded_inputs = screen.round_inputs(inputs, way) if way else screen.NO_INPUTS

    def part(first: int) -> NDArray[np.float64]:
        sums, room = np.zeros(len(inputs)), np.empty((0 if way else _BLOCK, len(inputs)), fast.dtype)
        for begin in range(first, min(first + _TASK, len(rows)), _BLOCK):
            base = rows[begin : min(begin + _BLOCK, first + _TASK)]
            signs = start.signs((copies * base[:, None] + np.arange(copies)).ravel())
            columns = _columns(start, base)
            if way:
                products, exact, rounded = room, screen.transpose(columns), screen.round_rows(columns, way.bits)
            else:
                products = np.matmul(
                    columns.T.astype(fast.dtype, copy=False), fast[:, : len(columns)].T, out=room[: len(base)]
                )
                exact, rounded = np.empty((0, fast.shape[1]), np.float32), screen.NO_ROWS
            made = PredictedRows(base, signs, products, exact, rounded, rounded_inputs)
            add_outputs(made, added, fast, shift, sums)
        return sums

    parts = in_order(part, range(0, len(rows), _TASK), threads=threads)
    return sum(parts, np.zeros(len(inputs)))


def _columns(start: AnyStart, base: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return start rows by their numbers, as columns (d, rows)."""
    if base[-1] - base[0] == len(base) - 1:
        return start.base_block(int(base[0]), int(base[-1]) + 1)
    return np.ascontiguousarray(start.rows(2 * base if start.twins else base).T)
