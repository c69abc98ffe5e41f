"""A fit by log loss of two classes at many rows: some are held out, and the kernel is an operator in single precision.

Each Newton step is ridge regression with targets and penalties of its own, which conjugate gradients solve for several
ridges at once, one product with the kernel for all; the step of each ridge is halved until its objective falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Operator
from thresher.estimators.judging.ridges import best_ridge
from thresher.estimators.processor import descend
from thresher.losses import Logistic

__all__ = ["ManyFit", "fit_many_rows"]

Matrix = NDArray[np.float64]
_LOSS = Logistic()
_LEAST = 1e-3  # curvature that is taken for less: targets of rows that are all but certain would be far away
_STEPS, _ROUNDS, _RESIDUAL = 20, 15, 1e-2  # Newton steps, and of conjugate gradients in each, down to this residual
_HALVES = 6  # of a step at the most
_WORSE = 1.1  # times the error of rows held out that they may have once they are fitted
_ENOUGH = 1e-4  # fall of the mean loss in a step, below which steps end


class ManyFit(NamedTuple):
    """A fit of all rows, and what one without those held out says of them."""

    ridge: float
    alpha: Matrix  # (n, 1)
    curvature: Matrix  # (n,), with the weights
    held: Matrix  # (h, 1), outputs at the rows held out, with the offset


class _State(NamedTuple):
    """Fits with some ridges."""

    alpha: Matrix  # (r, c)
    outputs: Matrix  # (n, c), also at rows beyond those that are fitted, with the offset


class _Rows(NamedTuple):
    """Rows to fit, the first of a matrix, with the share of the second class at each."""

    matrix: Operator
    low: LowRank
    shares: Matrix  # (r, 1)
    weights: Matrix  # (r,)
    offset: float
    backend: Backend

    def objective(self, state: _State, levels: Matrix) -> Matrix:
        """Return the penalised loss for each ridge (c,)."""
        f = state.outputs[: len(self.weights)]
        kept = (state.alpha * (f - self.offset)).sum(axis=0)
        return np.asarray(self.weights @ _LOSS.value(f, self.shares) + levels * kept / 2)

    def bend(self, outputs: Matrix) -> Matrix:
        """Return the curvatures (r, c), with the weights."""
        return self.weights[:, None] * np.maximum(_LOSS.curvature(outputs, self.shares), _LEAST)

    def stepped(self, state: _State, levels: Matrix) -> _State:
        """Return where a Newton step leads. Cost: O(n²) for each round of conjugate gradients."""
        f = state.outputs[: len(self.weights)]
        bend = self.bend(f)
        added = levels / bend
        wanted = f - self.offset - self.weights[:, None] * _LOSS.slope(f, self.shares) / bend
        descent = descend(
            self.backend,
            self.matrix.times,
            wanted,
            added=added,
            inverse=self.backend.inverse(self.low, np.exp(np.log(added).mean(axis=1))),
            start=state.alpha,
        )
        while descent.steps < _ROUNDS:
            descent.step()
            if float(np.max(self.backend.get(descent.residuals))) <= _RESIDUAL:
                break
        return _State(self.backend.get(descent.values), self.backend.get(descent.images) + self.offset)

    def fit(self, state: _State, levels: Matrix, *, tell: Callable[[], object]) -> _State:
        """Return the fits with penalties λ (c,), from others on."""
        here, total = self.objective(state, levels), float(self.weights.sum())
        for _ in range(_STEPS):
            goal, gained = self.stepped(state, levels), np.zeros(len(levels))
            tell()
            fraction, waits = 1.0, np.ones(len(levels), bool)
            alpha, outputs = state.alpha.copy(), state.outputs.copy()
            for _ in range(_HALVES):
                tried = _State(*(a + fraction * (b - a) for a, b in zip(state, goal, strict=True)))
                value = self.objective(tried, levels)
                better = waits & (value < here)
                alpha[:, better], outputs[:, better] = tried.alpha[:, better], tried.outputs[:, better]
                gained[better], here = (here - value)[better], np.where(better, value, here)
                waits &= ~better
                if not waits.any():
                    break
                fraction /= 2
            state = _State(alpha, outputs)
            if gained.max() <= _ENOUGH * total:
                break
        return state


def fit_many_rows(
    matrix: Operator,
    low: LowRank,
    data: Observations,
    *,
    kept: int,
    shares: Matrix,
    ridges: list[float],
    alone: bool,
    start: Matrix,
    backend: Backend,
    error_of: Callable[[Matrix], float],
    tell: Callable[[], object] = lambda: None,
) -> ManyFit | None:
    """Return the fit to all rows with the ridge that is best for those held out; None if nothing finite came out.

    Parameters
    ----------
    matrix, low : the kernel (n, n) of all rows, the first ``kept`` of which are fitted first, and a factor of low rank
    data : observations at these rows
    shares : of the second class at each row (n, 1), not quite certain
    ridges : to choose from; the search goes on beyond them unless one is given ``alone``
    start : coefficients (n, 1) to begin from
    error_of : the error of outputs (h, 1) at the rows held out

    Cost: O(n²) for each round of conjugate gradients, some dozens.
    """
    share = float(np.average(shares[:, 0], weights=data.weights))
    offset = math.log(share / (1 - share))
    rows = _Rows(matrix, low, shares[:kept], data.weights[:kept], offset, backend)
    found = dict[float, _State]()

    def attempt(some: list[float]) -> dict[float, float]:
        levels = np.array(some) * matrix.diagonal
        first = np.repeat(start[:kept], len(some), axis=1)
        made = rows.fit(_State(first, _images(matrix, first, backend) + offset), levels, tell=tell)
        for place, ridge in enumerate(some):
            found[ridge] = _State(made.alpha[:, [place]], made.outputs[:, [place]])
        errors = {ridge: error_of(found[ridge].outputs[kept:]) for ridge in some}
        return {ridge: error if math.isfinite(error) else math.inf for ridge, error in errors.items()}

    errors = attempt(ridges)
    ridge = ridges[0] if alone else best_ridge(errors, lambda one: attempt([one])[one])
    best, level = found[ridge], np.array([ridge * matrix.diagonal])
    rows = _Rows(matrix, low, shares, data.weights, offset, backend)
    alpha = np.concatenate([best.alpha, np.zeros((len(shares) - kept, 1))])
    whole = rows.fit(_State(alpha, best.outputs), level, tell=tell)
    known = error_of(whole.outputs[kept:])  # of rows that were held out, fitted as well: no larger than before
    if not (np.isfinite(whole.outputs).all() and known <= _WORSE * errors[ridge] < math.inf):
        return None
    return ManyFit(ridge, whole.alpha, rows.bend(whole.outputs)[:, 0], best.outputs[kept:])


def _images(matrix: Operator, alpha: Matrix, backend: Backend) -> Any:
    return backend.get(matrix.times(backend.put(alpha))).astype(np.float64)
