"""Learning which directions of the inputs matter: the metric, from the gradients of a trained network.

A round multiplies scaled rows by a metric R and trains; the mean of g gᵀ over the training rows, g being the gradient
of an output by the scaled row, is the averaged gradient outer product M (the idea of recursive feature machines). The
next metric is a power of M. M^(1/2) is the usual choice and goes too far on most data sets; so a mild and a strong
power are tried, and cross-validation decides between them and on the number of rounds.

The gradients are those of the network's limit of infinite width. Those of a trained network tend to them, but are so
noisy at practical widths that the metric suffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choose import fit_kernel, solve_kernel
from thresher.estimators.lift import lift_rows, typical_norm
from thresher.theory import cofiring_slope, limit_kernel

__all__ = ["Rounds", "choose_rounds", "limit_gradients", "mix_outputs", "next_metric"]

Matrix = NDArray[np.float64]
COLUMNS = 512  # columns up to which features are learnt by themselves
MOST_ROUNDS = 5
POWERS = (0.25, 0.4)
_FOLDS = 4
_OUTPUTS = 16  # outputs whose gradients are taken one by one
_A_ROUND = 0.99  # rounds are tried while each leaves at most this share of the error
_WORTH = 0.9  # the strong power is tried if the mild one brings the error down to this share


class Rounds(NamedTuple):
    """How many rounds with which power; the cross-validated errors after 0, 1, ... rounds for each power tried."""

    chosen: int
    power: float
    errors: dict[float, list[float]]


def limit_gradients(inputs: Matrix, alpha: Matrix, *, kernel: Matrix, shift: float) -> Iterator[Matrix]:
    """Yield for each output the gradients (n, d) of h(x) alpha at the inputs (n, d) themselves, alpha (n, k).

    ``kernel`` (n, n) is that of the inputs.

    The kernel bends sharply at x = x_i, where its gradient points nowhere: such a pair counts as nothing.

    Cost: O(n²d) an output.
    """
    slopes = cofiring_slope(inputs @ inputs.T, kernel, shift)
    for one in alpha.T:
        yield slopes @ (one[:, None] * inputs)


def mix_outputs(alpha: Matrix) -> Matrix:
    """Return alpha (n, k) of at most _OUTPUTS outputs: random sums of all, of the same mean outer product of gradients.

    A hundred classes would make a round a hundred times as dear. The sums are always the same ones.
    """
    outputs = alpha.shape[1]
    if outputs <= _OUTPUTS:
        return alpha
    return alpha @ np.random.default_rng(0).normal(size=(outputs, _OUTPUTS)) / np.sqrt(_OUTPUTS)


def next_metric(
    gradients: Iterator[Matrix], *, inputs: Matrix, norms: Matrix, weights: Matrix, metric: Matrix, power: float
) -> Matrix:
    """Return the next metric (d, d) from gradients (n, d + 1) by lifted inputs, one array an output.

    ``inputs`` (n, d + 1) are rows times ``metric``, lifted; ``norms`` (n,) what they were divided by. The sum of
    squares of a metric is d. If nothing depends on the inputs the metric stays.

    Cost: O(nd²) an output and O(d³).
    """
    d = len(metric)
    outer = np.zeros((d, d))
    for one in gradients:
        along = one - (one * inputs).sum(axis=1, keepdims=True) * inputs  # on the sphere only directions count
        by_row = (along / norms[:, None])[:, :d] @ metric.T
        outer += by_row.T @ (weights[:, None] * by_row)
    values, vectors = np.linalg.eigh(outer)
    powers = np.maximum(values / max(values[-1], np.finfo(float).tiny), 0.0) ** power
    found = (vectors * powers) @ vectors.T
    size = np.sqrt((found**2).sum())
    return found * (np.sqrt(d) / size) if values[-1] > 0 else metric


def choose_rounds(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    bias: float,
    shift: float,
    ridge: float | None,
    guess: float,
) -> Rounds:
    """Return the number of rounds of the least cross-validated error, with all of the learning repeated in each fold.

    Leave-one-out would be optimistic: the metric was learnt on the row that is left out. Rounds are tried while they
    help clearly. The limit kernel stands for the network. Cost: O(n³) for each fold, round and ridge tried.
    """
    errors = dict[float, list[float]]()
    for power in POWERS:
        if errors and min(errors[POWERS[0]]) > _WORTH * errors[POWERS[0]][0]:
            break
        learning = _Learning(rows, targets, weights, bias, shift, ridge, power).errors(guess)
        errors[power] = [next(learning)]
        for _ in range(MOST_ROUNDS):
            errors[power].append(next(learning))
            if not errors[power][-1] < _A_ROUND * errors[power][-2]:
                break
    best = min(errors, key=lambda power: min(errors[power]))
    return Rounds(int(np.argmin(errors[best])), best, errors)


class _HeldOut(NamedTuple):
    """The summed squared error on rows held out, the ridge of the fit to the others, and what a metric is learnt of."""

    error: float
    ridge: float
    gradients: Iterator[Matrix]
    inputs: Matrix
    norms: Matrix


class _Learning(NamedTuple):
    """Cross-validation that repeats the learning of a metric in every fold."""

    rows: Matrix
    targets: Matrix
    weights: Matrix
    bias: float
    shift: float
    ridge: float | None
    power: float

    def errors(self, guess: float) -> Iterator[float]:
        """Yield the mean squared error on rows held out, after 0, 1, ... rounds on the others.

        A ridge that is to be chosen is found on the first fold, from the guess, and taken by all: folds are alike.
        """
        folds = np.random.default_rng(0).permutation(len(self.rows)) % min(_FOLDS, len(self.rows))
        kept = [folds != k for k in range(int(folds.max()) + 1)]
        metrics = [np.eye(self.rows.shape[1])] * len(kept)
        while True:
            tried = [self._hold_out(kept[0], metrics[0], self.ridge, guess)]
            guess = tried[0].ridge
            tried += [self._hold_out(*one, guess, guess) for one in zip(kept[1:], metrics[1:], strict=True)]
            yield sum(one.error for one in tried) / float(self.weights.sum())
            metrics = list(map(self._next_metric, tried, kept, metrics))

    def _hold_out(self, kept: NDArray[np.bool_], metric: Matrix, ridge: float | None, guess: float) -> _HeldOut:
        scaled, known, own = self.rows @ metric, self.targets[kept], self.weights[kept]
        last = self.bias * typical_norm(scaled[kept], own)
        inputs, norms = lift_rows(scaled[kept], last)
        others, _ = lift_rows(scaled[~kept], last)
        kernel = limit_kernel(inputs @ inputs.T, self.shift)
        if ridge is None:
            fit = fit_kernel(kernel, known, own, shift=self.shift, ridge=None, guess=guess)
            alpha, ridge = (None, guess) if fit is None else (fit.alpha, fit.ridge)
        else:
            alpha = solve_kernel(kernel, known, own, shift=self.shift, ridge=ridge)
        if alpha is None:
            return _HeldOut(np.inf, ridge, iter(()), inputs, norms)
        outputs = limit_kernel(others @ inputs.T, self.shift, symmetric=False) @ alpha
        error = float((self.weights[~kept] * ((outputs - self.targets[~kept]) ** 2).sum(axis=1)).sum())
        gradients = limit_gradients(inputs, mix_outputs(alpha), kernel=kernel, shift=self.shift)
        return _HeldOut(error, ridge, gradients, inputs, norms)

    def _next_metric(self, held: _HeldOut, kept: NDArray[np.bool_], metric: Matrix) -> Matrix:
        own = self.weights[kept]
        return next_metric(
            held.gradients, inputs=held.inputs, norms=held.norms, weights=own, metric=metric, power=self.power
        )
