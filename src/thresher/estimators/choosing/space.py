"""Coordinates of rows before they are lifted: weighted columns, in a basis of their span if smaller, under a metric."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choosing.choose import Choice
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernels.device import Device
from thresher.estimators.kernels.gradients import MIXED, mix_outputs, outer_product, row_gradients
from thresher.theory import firing_probability

__all__ = ["Space", "in_span"]

Matrix = NDArray[np.float64]
_SPANNED = 1000  # most rows whose span is computed, in a second or two; beyond, columns are used as they are
_SINGLE = 512  # rows from which on gradients are made in single precision: three times as fast
_SMALLEST = 1e-10  # length of a direction, relative to the longest, that counts as rounding


class Space(NamedTuple):
    """Coordinates of rows: scaled columns (n, d) times weights (d,), in a basis of their span, times a metric."""

    data: Observations  # at the coordinates
    weights: Matrix | None = None
    basis: Matrix | None = None  # (d, r)
    metric: Matrix | None = None  # (r, r)

    @property
    def rest(self) -> bool:
        """Whether the part of a row outside the basis counts; a learnt metric is 0 there."""
        return self.basis is not None and self.metric is None

    def matrix(self) -> Matrix | None:
        """Return the matrix (d, r) that multiplies weighted columns."""
        if self.basis is None or self.metric is None:
            return self.metric if self.basis is None else self.basis
        return self.basis @ self.metric

    @property
    def columns(self) -> int:
        """Coordinates after the metric, without rest and bias."""
        return self.data.X.shape[1]

    def rows(self) -> Matrix:
        """Return the coordinates after the metric (n, r)."""
        return self.data.X if self.metric is None else self.data.X @ self.metric

    def shuffled(self, most: int) -> Space:
        """Return the space with its rows in the order of :meth:`Observations.shuffled`."""
        return self._replace(data=self.data.shuffled(most))

    def turned(self) -> Observations:
        """Return the observations at the coordinates after the metric."""
        return self.data.with_rows(self.rows())

    def inputs(self, bias: float) -> tuple[Matrix, Matrix]:
        """Return the lifted rows (n, coordinates), and their norms before (n,)."""
        rows = self.rows()
        last = bias * typical_norm(rows, self.data.weights)
        inputs, norms = lift_rows(np.column_stack([rows, np.zeros(len(rows))]) if self.rest else rows, last)
        return inputs if bias else inputs[:, :-1], norms

    def outer_products(self, choice: Choice, device: Device) -> Matrix | None:
        """Return the weighted sum (r, r) of outer products of gradients of the limit by coordinates after the metric.

        None without a fit. Of many rows in single precision, unless that fails. Cost: O(n³ + n²r).
        """
        inputs, norms = self.inputs(choice.bias)
        numbers = min(self.data.targets.shape[1], MIXED) * self.columns  # in the gradients at a row
        penalty = choice.ridge * firing_probability(choice.shift) / self.data.weights
        if len(inputs) > _SINGLE and numbers <= len(inputs) + 2 * self.columns:
            found = device.quick_gradients(inputs, self.data.targets, penalty, choice.shift, mix_outputs)
            if found is not None:
                by_row = row_gradients(iter(found), inputs=inputs, norms=norms, columns=self.columns)
                return outer_product(by_row, weights=self.data.weights, metric=np.eye(self.columns))
        kernel = device.kernel(inputs, choice.shift, gradients=True)
        alpha = kernel.solve(penalty, self.data.targets)
        if alpha is None:
            return None
        return kernel.outer_products(alpha, scale=self.data.weights / norms**2, columns=self.columns)


def in_span(space: Space) -> Space:
    """Return a space whose rows have coordinates in a basis of their own span, if there are fewer rows than columns."""
    n, d = space.data.X.shape
    if d <= n or n > _SPANNED or space.basis is not None:
        return space
    _, sizes, basis = np.linalg.svd(space.data.X, full_matrices=False)
    basis = basis[: max(1, int((sizes > _SMALLEST * sizes[0]).sum()))].T
    return space._replace(data=space.data.with_rows(space.data.X @ basis), basis=basis)
