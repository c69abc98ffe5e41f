"""Quantiles by their own loss: of what is left out, above or below what a fit says, as functions of the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Kernel
from thresher.estimators.newton import fit_loss
from thresher.estimators.robust import robust_size, weighted_quantile
from thresher.losses import Quantile
from thresher.parallel import blas_for_size

__all__ = ["QuantileFits", "fit_quantiles"]

Matrix = NDArray[np.float64]
_ROWS, _FEWEST = 1024, 32  # inputs of the fits at most, and those from which quantiles may be more than numbers
_TRIED = (100.0, 10.0, 1.0, 0.1, 0.01)  # ridges, besides one so large that a number is left
_WIDTHS = (0.3, 0.1)  # of the loss, in deviations: one fit after the other
_PROMISE, _STEPS = 1e-3, 15  # of each fit


class QuantileFits(NamedTuple):
    """What is added to outputs for each level."""

    levels: Matrix  # (q,), ascending
    inputs: Matrix  # (s, d), lifted
    alpha: Matrix  # (s, outputs q): level after level of each output
    shifts: Matrix  # (outputs q,)

    def at(self, inputs: Matrix, kernel: Kernel, backend: Backend) -> Matrix:
        """Return what is added at lifted inputs (m, d), in no order yet: (m, outputs, q). Cost: O(msd)."""
        found = backend.product(kernel, inputs, self.inputs, self.alpha) + self.shifts
        return found.reshape(len(inputs), -1, len(self.levels))

    def between(self, fitted: Matrix, wanted: Matrix) -> Matrix:
        """Return quantiles at levels (w,) from those fitted (m, outputs, q), put in order: (m, outputs, w).

        In order they never cross, and none is farther from the true one than before. Between levels lines are drawn.
        """
        ordered = np.sort(fitted, axis=2)
        place = np.clip(np.searchsorted(self.levels, wanted, side="right") - 1, 0, max(len(self.levels) - 2, 0))
        above = np.minimum(place + 1, len(self.levels) - 1)
        gap = self.levels[above] - self.levels[place]
        share = np.divide(wanted - self.levels[place], gap, out=np.zeros_like(wanted), where=gap > 0)
        return np.asarray(ordered[:, :, place] * (1 - share) + ordered[:, :, above] * share)


def fit_quantiles(
    data: Observations, errors: Matrix, levels: Sequence[float], kernel: Kernel, backend: Backend
) -> QuantileFits:
    """Return fits to errors (c, k) of observations left out, at lifted inputs, one for each output and level.

    Each has a ridge of its own, by its own loss on rows left out of it: where errors are alike everywhere, one so large
    that a number is left, the quantile of all errors.

    Cost: O(s³) for each of some fifty steps of each fit, most of them to half of s inputs.
    """
    some = np.random.default_rng(0).permutation(len(data))[:_ROWS]
    told = Observations(data.X, row=data.row, target=errors, unit=data.unit, count=data.count).at(some)
    inputs, order = np.asarray(told.X, np.float64), sorted(set(levels))
    with backend.session(), blas_for_size(_ROWS):
        matrix = np.asarray(backend.dense(kernel, inputs).dense())
        fits = [_fit(matrix, told, k, level, kernel.diagonal) for k in range(errors.shape[1]) for level in order]
    alpha, shifts = np.hstack([one for one, _ in fits]), np.array([shift for _, shift in fits])
    return QuantileFits(np.array(order), inputs, alpha, shifts)


def _fit(matrix: Matrix, data: Observations, k: int, level: float, diagonal: float) -> tuple[Matrix, float]:
    """Return the coefficients (s, 1) and the constant of one quantile of the errors of output k.

    Half of the rows are left out, then the other half. The ridge is the largest that is about as good as the best, and
    the constant is such that this share of what was left out lies below.
    """
    errors = data.target[:, k]
    middle = weighted_quantile(errors, level, data.weight)
    unit = robust_size(errors - middle, data.weight)
    if not unit > 0:
        return np.zeros((len(matrix), 1)), middle
    scaled = (errors - middle) / unit
    one = Observations(data.X, row=data.row, target=scaled[:, None], unit=data.unit, count=data.count)
    halves = np.arange(len(matrix)) % 2 == 0  # the rows are in random order
    left_out = {np.inf: np.zeros(len(scaled))}
    if len(matrix) >= _FEWEST:
        left_out |= {ridge: np.zeros(len(scaled)) for ridge in _TRIED}
        for kept in (halves, ~halves):
            rows, others, start = np.flatnonzero(kept), np.flatnonzero(~kept), None
            some, held = one.at(rows), ~kept[one.row]
            constant = weighted_quantile(some.target[:, 0], level, some.weight)
            left_out[np.inf][held] = constant
            for ridge in _TRIED:
                start = _fitted(matrix[np.ix_(rows, rows)], some, level, ridge, diagonal, start)
                found = constant if start is None else matrix[np.ix_(others, rows)] @ start[0] + start[1]
                told = np.zeros(len(matrix))
                told[others] = np.ravel(found)
                left_out[ridge][held] = told[one.row[held]]
    best = _best(scaled, left_out, level, one.weight)
    shift = weighted_quantile(scaled - left_out[best], level, one.weight)
    last = None if best == np.inf else _fitted(matrix, one, level, best, diagonal, None)
    if last is None:
        return np.zeros((len(matrix), 1)), middle
    return unit * last[0], middle + unit * (float(last[1][0]) + shift)


def _fitted(
    matrix: Matrix, data: Observations, level: float, ridge: float, diagonal: float, start: tuple[Matrix, Matrix] | None
) -> tuple[Matrix, Matrix] | None:
    """Return coefficients (s, 1) and constant (1,) of a fit with a loss that becomes sharper step by step."""
    for width in _WIDTHS:
        made = fit_loss(
            matrix, data, Quantile(level, width), ridge=ridge, diagonal=diagonal, offset=np.zeros(1), last=0,
            start=start, tol=_PROMISE, most=_STEPS,
        )  # fmt: skip
        start = start if made is None else (made.alpha, made.intercept)
    return start


def _best(errors: Matrix, left_out: dict[float, Matrix], level: float, weights: Matrix) -> float:
    """Return the largest ridge whose loss on rows left out is no more than a standard error above the least."""
    losses = {}
    for ridge, found in left_out.items():
        rest = errors - found
        losses[ridge] = weights * np.maximum(level * rest, (level - 1) * rest)
    least = min(losses.values(), key=lambda one: float(one.sum()))
    for ridge, loss in losses.items():  # from the largest on
        gain = loss - least
        if gain.sum() <= np.linalg.norm(gain - gain.mean()):
            return ridge
    return np.inf
