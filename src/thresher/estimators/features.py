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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choose import Fit, fit_kernel
from thresher.estimators.lift import lift_rows, typical_norm
from thresher.theory import cofiring_slope, limit_kernel

__all__ = ["Rounds", "choose_rounds", "limit_gradients", "mix_outputs", "next_metric"]

Matrix = NDArray[np.float64]
COLUMNS = 512  # columns up to which features are learnt by themselves
MOST_ROUNDS = 5
POWERS = (0.25, 0.4)
_FOLDS = 4
_OUTPUTS = 16  # outputs whose gradients are taken one by one
_WORTH = 0.9  # the strong power is tried if the mild one brings the error down to this share


class Rounds(NamedTuple):
    """How many rounds with which power; the cross-validated errors after 0, 1, ... rounds for each power tried."""

    chosen: int
    power: float
    errors: dict[float, list[float]]


def limit_gradients(inputs: Matrix, alpha: Matrix, *, shift: float) -> Iterator[Matrix]:
    """Yield for each output the gradients (n, d) of h(x) alpha at the inputs (n, d) themselves, alpha (n, k).

    The kernel bends sharply at x = x_i, where its gradient points nowhere: such a pair counts as nothing.

    Cost: O(n²d) an output.
    """
    slopes = cofiring_slope(inputs @ inputs.T, shift)
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
    rows: Matrix, targets: Matrix, weights: Matrix, *, bias: float, shift: float, ridge: float | None, guess: float
) -> Rounds:
    """Return the number of rounds of the least cross-validated error, with all of the learning repeated in each fold.

    Leave-one-out would be optimistic: the metric was learnt on the row that is left out. Rounds are tried while they
    help. The limit kernel stands for the network. Cost: O(n³) for each fold, round and ridge tried.
    """
    folds = np.random.default_rng(0).permutation(len(rows)) % min(_FOLDS, len(rows))
    total, errors = float(weights.sum()), dict[float, list[float]]()
    for power in POWERS:
        if errors and min(errors[POWERS[0]]) > _WORTH * errors[POWERS[0]][0]:
            break
        settings: dict[str, Any] = {"bias": bias, "shift": shift, "ridge": ridge, "guess": guess, "power": power}
        learners = [_learn(rows, targets, weights, folds != k, **settings) for k in range(int(folds.max()) + 1)]
        errors[power] = [sum(map(next, learners)) / total]
        for _ in range(MOST_ROUNDS):
            errors[power].append(sum(map(next, learners)) / total)
            if not errors[power][-1] < errors[power][-2]:
                break
    best = min(errors, key=lambda power: min(errors[power]))
    return Rounds(int(np.argmin(errors[best])), best, errors)


def _learn(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    kept: NDArray[np.bool_],
    *,
    bias: float,
    shift: float,
    ridge: float | None,
    guess: float,
    power: float,
) -> Iterator[float]:
    """Yield the summed squared error on the rows that are not kept, after 0, 1, ... rounds on those that are."""
    metric = np.eye(rows.shape[1])
    known, own = targets[kept], weights[kept]
    while True:
        scaled = rows @ metric
        last = bias * typical_norm(scaled[kept], own)
        inputs, norms = lift_rows(scaled[kept], last)
        others, _ = lift_rows(scaled[~kept], last)
        kernel = limit_kernel(inputs @ inputs.T, shift)
        fit: Fit | None = fit_kernel(kernel, known, own, shift=shift, ridge=ridge, guess=guess)
        if fit is None:
            while True:
                yield np.inf
        guess = fit.ridge
        outputs = limit_kernel(others @ inputs.T, shift, symmetric=False) @ fit.alpha
        yield float((weights[~kept] * ((outputs - targets[~kept]) ** 2).sum(axis=1)).sum())
        gradients = limit_gradients(inputs, mix_outputs(fit.alpha), shift=shift)
        metric = next_metric(gradients, inputs=inputs, norms=norms, weights=own, metric=metric, power=power)
