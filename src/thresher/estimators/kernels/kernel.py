"""The kernel of scaled rows: how rows become inputs of unit norm, and what two inputs have in common.

What is inside a kernel, such as its shift, is known here, where it is chosen (``pipeline/``) and in backends. Judges
and models know what ``interfaces.Kernel`` lists. A further part of the kernel enters here, and in
``block`` and ``dense`` of each backend.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, DenseOperator, Lifted
from thresher.estimators.kernels.gradients import mix_outputs, outer_product, row_gradients
from thresher.model.network import NetworkSettings
from thresher.model.start import Sequence as SequenceName
from thresher.theory import Parts, firing_probability

__all__ = ["Coordinates", "SphereKernel", "Start", "basis_of"]

Matrix = NDArray[np.float64]
_SMALLEST = 1e-10  # length of a direction, relative to the longest, that counts as rounding
_LEAST_FIRING = 1e-30  # probability that a neuron fires, in single precision with room for products


class Start(NamedTuple):
    """A network before training, on so many rows: of fewer rows it has as much fewer neurons, and is as noisy."""

    width: int
    rows: int
    seed: int
    sequence: SequenceName


class SphereKernel(NamedTuple):
    """The limit kernel of rows (n, r) on the sphere, or that of a network at its start; a ``Kernel``."""

    bias: float  # coordinate that rows get before they are divided by their norms, times their typical norm
    shift: float  # threshold above which a neuron fires
    metric: Matrix | None = None  # (r, r), multiplies rows first
    rest: bool = False  # new rows have one more coordinate, which is 0 for all training rows
    start: Start | None = None  # None for the limit of infinite width
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

    def matrix(self, inputs: Matrix, backend: Backend) -> DenseOperator:
        """Return the matrix of few inputs. Cost: O(n²d), O(mn(n/64 + d)) of a network of m neurons."""
        if self.start is None:
            return backend.dense(self, inputs)
        return backend.start_gram(inputs, self.settings(inputs))

    def settings(self, inputs: Matrix) -> NetworkSettings:
        """Return those of the network at these inputs (n, d), all or some of the rows."""
        assert self.start is not None
        start, (n, d) = self.start, inputs.shape
        return NetworkSettings.checked(
            width=2 * math.ceil(start.width * n / start.rows / 2),
            dimension=d,
            shift=self.shift,
            seed=start.seed,
            twins=True,
            sequence=start.sequence,
        )

    def outer_products(self, data: Observations, ridge: float, backend: Backend) -> Matrix | None:
        """Return the weighted sum (r, r) of outer products of gradients of a fit, by coordinates after the metric.

        The fit is that of the limit to these observations; None if there is none. Cost: O(n³ + n²r).
        """
        inputs, norms, _ = self.lift(data.X, data.weights)
        columns, penalty = data.X.shape[1], self.penalty(ridge, data.weights)
        quick = backend.quick_gradients(self, inputs, data.targets, penalty, mix_outputs)
        if quick is not None:
            by_row = row_gradients(iter(quick), inputs=inputs, norms=norms, columns=columns)
            return outer_product(by_row, weights=data.weights)
        matrix = backend.dense(self, inputs, gradients=True)
        alpha = matrix.solve(penalty, data.targets)
        if alpha is None:
            return None
        return matrix.outer_products(alpha, scale=data.weights / norms**2, columns=columns)


class Coordinates(NamedTuple):
    """What becomes of scaled columns before a kernel sees them: they are weighted, and turned into a basis."""

    weights: Matrix | None = None  # (d,)
    basis: Matrix | None = None  # (d, r), orthonormal, of the span of all training rows

    def apply(self, rows: Matrix) -> Matrix:
        """Return the coordinates (n, r) of scaled rows (n, d)."""
        weighted = rows if self.weights is None else rows * self.weights
        return weighted if self.basis is None else weighted @ self.basis

    def matrix(self, metric: Matrix | None) -> Matrix | None:
        """Return the matrix (d, r) that multiplies weighted columns, for a metric of the coordinates."""
        if self.basis is None or metric is None:
            return metric if self.basis is None else self.basis
        return self.basis @ metric


def basis_of(rows: Matrix, *, most: int) -> Matrix | None:
    """Return an orthonormal basis (d, r) of rows (n, d); None unless these are fewer than columns, and than ``most``.

    Cost: O(n²d).
    """
    n, d = rows.shape
    if d <= n or n > most:
        return None
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[: max(1, int((sizes > _SMALLEST * sizes[0]).sum()))].T)
