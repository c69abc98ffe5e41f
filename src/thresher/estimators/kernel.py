"""The kernel of scaled rows: how rows become inputs of unit norm, and which limit kernel two inputs have.

A further part of the kernel enters here, and in ``block`` and ``dense`` of each backend.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.gradients import fit_outer_products
from thresher.estimators.interfaces import Backend, Lifted
from thresher.theory import Parts, firing_probability

__all__ = ["SphereKernel", "basis_of"]

Matrix = NDArray[np.float64]
_SMALLEST = 1e-10  # length of a direction, relative to the longest, that counts as rounding
_LEAST_FIRING = 1e-30  # probability that a neuron fires, in single precision with room for products


class SphereKernel(NamedTuple):
    """The limit kernel of rows (n, r) on the sphere; a ``Kernel``."""

    bias: float  # coordinate that rows get before they are divided by their norms, times their typical norm
    shift: float  # threshold above which a neuron fires
    metric: Matrix | None = None  # (r, r), multiplies rows first
    rest: bool = False  # new rows have one more coordinate, which is 0 for all training rows
    parts: Parts | None = None  # rows then end with the angles of single columns; None for all columns at once

    @property
    def diagonal(self) -> float:
        """The limit kernel of a row and itself: the unit of ridges."""
        return firing_probability(self.shift)

    @property
    def single(self) -> bool:
        """Whether single precision is enough for its entries."""
        return self.diagonal >= _LEAST_FIRING

    def penalty(self, ridge: float, weights: Matrix) -> Matrix:
        """Return what is added to the diagonal (n,) for rows with these weights."""
        return ridge * self.diagonal / weights

    def coordinates(self, rows: Matrix) -> Matrix:
        """Return rows (n, r) under the metric, and the angles of parts as they are."""
        if self.metric is None:
            return rows
        vectors, angles = self.split(rows)
        return np.hstack([vectors @ self.metric, angles])

    def split(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the coordinates of all columns, and the angles of parts, none without them."""
        columns = 0 if self.parts is None else self.parts.columns
        return rows[:, : rows.shape[1] - columns], rows[:, rows.shape[1] - columns :]

    def lift(self, rows: Matrix, weights: Matrix | None = None, *, last: float | None = None) -> Lifted:
        """Return the inputs of rows (n, r); the bias coordinate is that of these rows unless it is given."""
        turned, angles = self.split(self.coordinates(rows))
        last = self.bias * typical_norm(turned, weights) if last is None else last
        if self.rest and self.metric is None:
            turned = np.column_stack([turned, np.zeros(len(turned))])
        inputs, norms = lift_rows(turned, last)
        inputs = inputs if self.bias else inputs[:, :-1]
        return Lifted(inputs if self.parts is None else np.hstack([inputs, angles]), norms, last)

    def outer_products(self, data: Observations, ridge: float, backend: Backend) -> Matrix | None:
        """Return the weighted sum (r, r) of outer products of gradients of a fit, by coordinates after the metric.

        The fit is that of the limit to these observations; None if there is none. Cost: O(n³ + n²r).
        """
        inputs = self.lift(data.X, data.weights).inputs
        alpha = backend.dense(self, inputs).solve(self.penalty(ridge, data.weights), data.targets)
        return None if alpha is None else fit_outer_products(self, data, alpha, backend)


def basis_of(rows: Matrix, *, most: int) -> Matrix | None:
    """Return an orthonormal basis (d, r) of rows (n, d); None unless these are fewer than columns, and than ``most``.

    Cost: O(n²d).
    """
    n, d = rows.shape
    if d <= n or n > most:
        return None
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[: max(1, int((sizes > _SMALLEST * sizes[0]).sum()))].T)
