"""The metric of the inputs, by rounds of averaged gradient outer products (AGOP; recursive feature machines).

A round fits rows under a metric R. The mean of g gᵀ over the training rows, with g the gradient of an output by the
row, is the averaged gradient outer product M; the next metric is a power of M. How many rounds are made is decided on
observations left out, with all of the learning repeated without them: leave-one-out would be optimistic, as the metric
was learnt on what is left out.

The gradients are those of the network's limit of infinite width. Those of a trained network converge to them, but are
too noisy at practical widths.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.conjugate_gradients import Solved, Stop, search_ridges, solve_ridges
from thresher.estimators.data.observations import Observations
from thresher.estimators.gradients import fit_outer_products, mix_outputs, next_metric, outer_product, row_gradients
from thresher.estimators.interfaces import Backend, Operator
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import best_ridge_of, mean_square, surely
from thresher.estimators.ridges import ridges_near
from thresher.theory import Parts, Shares

__all__ = ["POWER", "LearntMetric", "learn_metric"]

Matrix = NDArray[np.float64]
POWER = 0.4  # of the outer products that is the next metric; 1/2 is usual, 0.25 to 0.5 predict about as well
_ROUNDS = 10  # at most, unasked
_A_ROUND = 0.99  # share of the least error so far that one more round must leave to be made, and to be kept
_FOLDS = 4
_LARGE_ROUNDS, _A_LARGE_ROUND = 4, 0.998  # on many rows, which show smaller gains
_MIXED_FITS, _RANK, _GRADIENTS = 10, 384, 4096  # outputs, rank and rows with gradients of a round on many rows
_RIDGE_ROWS = 1024  # on which the ridge of a round is found


class LearntMetric(NamedTuple):
    """A kernel with a metric, and what observations left out have shown."""

    kernel: SphereKernel
    rounds: int
    errors: list[float]  # on observations left out, after 0, 1, ... rounds; empty if none were
    by_shares: dict[Shares, float]  # with the metric and each of the shares of the parts; empty without a metric
    # By how much errors of observations left out exceed those with the metric of all observations: leave-one-out, which
    # takes that as given, is too low by as much.
    optimism: float = 1.0


def learn_metric(
    data: Observations,
    kernel: SphereKernel,
    *,
    columns: int,
    shares: tuple[Shares, ...],
    ridge: float | None,
    guess: float,
    rounds: int | None,
    judged: bool,
    one_fold: bool,
    more: Observations | None = None,
    backend: Backend,
) -> LearntMetric:
    """Return the kernel with the metric that observations left out prefer.

    Parameters
    ----------
    data : observations at scaled rows (n, d), the angles of single ``columns`` after them
    kernel : of all columns at once, without a metric
    shares : of the parts of the kernel that will be used, the first ones while rounds are compared
    ridge, guess : the ridge, or None and one near the best
    rounds : that were asked for; None for as many as observations left out prefer
    judged : whether any are left out
    one_fold : whether they are one part of the observations, instead of each of several
    more : observations at more rows, in random order, which the last rounds are learnt from

    Cost: O(n³ + n²d) for each round, fold and the fit at the end.
    """
    wide = data.X.shape[1] - columns
    begin = kernel._replace(metric=np.eye(wide))
    seen = Shares()  # of all columns, whose metric it is
    errors, by_shares, number = list[float](), dict[Shares, float](), rounds or 0
    if judged:
        folds = data.folds(_FOLDS)[: 1 if one_fold else None]
        fits = [_Fold(kept, held, columns, backend) for kept, held in folds]
        weight = np.concatenate([held.weight for _, held in folds])
        kernels, best, least = [begin] * len(fits), 0, np.zeros(0)
        taken = kernels
        while True:
            known = ridge if ridge is not None else fits[0].find_ridge(kernels[0], seen, guess)
            guess = known
            squares = np.concatenate([fit.errors(one, seen, known) for fit, one in zip(fits, kernels, strict=True)])
            error = float(np.average(squares, weights=weight))
            errors.append(error)
            here = len(errors) - 1
            better = rounds is None and (here == 0 or surely(least, squares, weight, least=1 - _A_ROUND, sure=0.0))
            if here == rounds or better:
                best, taken, least = here, kernels, squares
            elif rounds is None:
                break
            if here == (_ROUNDS if rounds is None else rounds) or not math.isfinite(error):
                break
            kernels = [fit.after_round(one, seen, known) for fit, one in zip(fits, kernels, strict=True)]
        number = best if rounds is None else rounds
        for several in shares if len(shares) > 1 and number else ():
            known = ridge if ridge is not None else fits[0].find_ridge(taken[0], several, guess)
            squares = np.concatenate([fit.errors(one, several, known) for fit, one in zip(fits, taken, strict=True)])
            by_shares[several] = float(np.average(squares, weights=weight))
    if not number:
        return LearntMetric(kernel, 0, errors, by_shares)
    whole = _Fold(data, data, columns, backend)
    for left in reversed(range(number)):
        known = ridge if ridge is not None else whole.find_ridge(begin, seen, guess)
        if more is not None and not left:
            begin = _learn_on_many(begin, more, ridge, known, backend)
        else:
            begin, guess = whole.after_round(begin, seen, known), known
    optimism = 1.0
    if judged:
        known = ridge if ridge is not None else fits[0].find_ridge(begin, seen, guess)
        squares = np.concatenate([fit.errors(begin, seen, known) for fit in fits])
        fixed = float(np.average(squares, weights=weight))
        optimism = errors[number] / fixed if 0 < fixed < errors[number] < math.inf else 1.0
    return LearntMetric(begin, number, errors, by_shares, optimism)


class _Fold:
    """Observations that are fitted, and others that are left out."""

    def __init__(self, kept: Observations, held: Observations, columns: int, backend: Backend) -> None:
        self._kept, self._held, self._columns, self._backend = kept, held, columns, backend
        self._known: tuple[SphereKernel, Shares, float, Matrix | None] | None = None  # the last fit

    def _with_parts(self, kernel: SphereKernel, shares: Shares) -> SphereKernel:
        return kernel if shares.whole == 1 else kernel._replace(parts=Parts.of(self._columns, shares))

    def _rows(self, data: Observations, shares: Shares) -> Observations:
        return data.with_rows(data.X[:, : -self._columns]) if self._columns and shares.whole == 1 else data

    def find_ridge(self, kernel: SphereKernel, shares: Shares, guess: float) -> float:
        """Return the best ridge, by leaving out observations of some rows one at a time."""
        some = self._rows(self._kept.some(_RIDGE_ROWS), shares)
        return best_ridge_of(self._with_parts(kernel, shares), some, guess=guess, backend=self._backend)

    def _fit(self, kernel: SphereKernel, shares: Shares, ridge: float) -> Matrix | None:
        """Return the coefficients (n, k)."""
        if self._known is None or self._known[0] is not kernel or self._known[1:3] != (shares, ridge):
            kept, whole = self._rows(self._kept, shares), self._with_parts(kernel, shares)
            inputs = whole.lift(kept.X, kept.weights).inputs
            alpha = self._backend.dense(whole, inputs).solve(whole.penalty(ridge, kept.weights), kept.targets)
            self._known = kernel, shares, ridge, alpha
        return self._known[3]

    def errors(self, kernel: SphereKernel, shares: Shares, ridge: float) -> Matrix:
        """Return the squared errors (c,) of what is left out, summed over outputs; infinity if there is no fit."""
        alpha = self._fit(kernel, shares, ridge)
        if alpha is None:
            return np.full(len(self._held.row), np.inf)
        kept, held, whole = (
            self._rows(self._kept, shares),
            self._rows(self._held, shares),
            self._with_parts(kernel, shares),
        )
        inputs, _, last = whole.lift(kept.X, kept.weights)
        asked, place = np.unique(held.row, return_inverse=True)
        others = whole.lift(held.X[asked], last=last).inputs
        outputs = self._backend.product(whole, others, inputs, alpha, double=True)
        return np.asarray(((outputs[place] - held.target) ** 2).sum(axis=1))

    def after_round(self, kernel: SphereKernel, shares: Shares, ridge: float) -> SphereKernel:
        """Return the kernel after one more round."""
        assert kernel.metric is not None
        plain = self._rows(self._kept, Shares())
        alpha = self._fit(kernel, shares, ridge)
        if alpha is None:
            return kernel
        outer = fit_outer_products(kernel, plain, alpha, self._backend)
        metric = kernel.metric
        return kernel._replace(metric=next_metric(metric @ outer @ metric.T, metric=metric, power=POWER))


def _learn_on_many(
    kernel: SphereKernel, data: Observations, ridge: float | None, guess: float, backend: Backend
) -> SphereKernel:
    """Return the kernel after more rounds on many rows, fitted by conjugate gradients; some are held out.

    These choose the ridge of each round, and end the rounds once one gains next to nothing.

    Cost: O(n²) for each of some dozens of products in a round, and O(n) for each output and coordinate of 4,096 rows.
    """
    held = len(data) // 8
    kept = data.at(np.arange(len(data) - held)).mixed(_MIXED_FITS)
    left = data.at(np.arange(len(data) - held, len(data))).mixed(_MIXED_FITS)
    matrix, best, least, columns = None, kernel, math.inf, kept.X.shape[1]
    for number in range(_LARGE_ROUNDS + 1):
        inputs, norms, last = kernel.lift(kept.X, kept.weights)
        fast = inputs.astype(np.float32)
        both = np.concatenate([fast, kernel.lift(left.X, last=last).inputs.astype(np.float32)])
        matrix = backend.operator(kernel, both, memory=math.inf) if matrix is None else matrix.renewed(kernel, both)
        solved = _solve(matrix, kept, left, ridges_near(guess) if ridge is None else [ridge], backend)
        if solved is None or not solved.error < _A_LARGE_ROUND * least:
            return best
        best, least, guess = kernel, solved.error, solved.ridge
        if number == _LARGE_ROUNDS:
            break
        some, metric = fast[:_GRADIENTS], kernel.metric
        assert metric is not None
        found = backend.gradients(kernel, some, fast, mix_outputs(solved.alpha))
        by_row = row_gradients(iter(found), inputs=some.astype(np.float64), norms=norms[:_GRADIENTS], columns=columns)
        outer = outer_product(by_row, weights=kept.weights[:_GRADIENTS])
        kernel = kernel._replace(metric=next_metric(metric @ outer @ metric.T, metric=metric, power=POWER))
    return best


def _solve(
    matrix: Operator, kept: Observations, left: Observations, ridges: list[float], backend: Backend
) -> Solved | None:
    """Return a rough fit of rows that are kept, with the ridge that is best for those left out."""
    low = backend.pivots(matrix, rank=min(_RANK, len(matrix) // 12))

    def solve(ridges: list[float], start: Solved | None) -> Solved | None:
        return solve_ridges(
            matrix,
            low,
            kept,
            backend=backend,
            ridges=ridges,
            error_of=lambda outputs: mean_square(left, outputs[left.row]),
            stop=Stop(steps=20, residual=2e-2, each=True),
            start=None if start is None else start.alpha,
        )

    return search_ridges(solve, ridges)
