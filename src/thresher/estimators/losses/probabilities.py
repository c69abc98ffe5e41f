"""Probabilities of classes: a fit by log loss on the kernel that squares have chosen, alone or mixed with their scores.

The scores of squares become the log of the odds once they are multiplied by a temperature. A fit by log loss has such
outputs as it is. Half of each, added, is a third model, the geometric mean of the two probabilities; its coefficients
are those sums too. Observations left out say which of the three has the least log loss.

No label is taken as quite certain: if none of n observations left out is misclassified, the next may be, with a chance
of 1 / (n + 2) (Laplace's rule of succession). Otherwise outputs of separable classes had no bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend
from thresher.estimators.judging.newton import find_ridge, fit_loss
from thresher.estimators.judging.ridges import ridges_near
from thresher.estimators.losses.many_rows import fit_many_rows
from thresher.estimators.sizes import Sizes
from thresher.losses import Logistic, Loss, Softmax
from thresher.theory import Limit

__all__ = [
    "Labelled",
    "LogOdds",
    "by_class",
    "choose_log_odds",
    "choose_of_many_rows",
    "find_temperature",
    "log_loss",
]

Matrix = NDArray[np.float64]
_MOST_LOG_TEMPERATURE = 8.0
_TOLERANCE, _ROUGHLY = 1e-4, 1e-3  # of the mean log loss, up to which a fit is made, and fits that are compared
_ROOM = 0.8  # share of the free memory that the kernel of many rows may take
_MIXED = 0.5  # share of the fit by log loss in what is mixed


class Labelled(NamedTuple):
    """Observations of classes with scores of squares, and what these scores are when each is left out."""

    data: Observations  # at all inputs (n, d), with targets less their mean
    left_out: Observations  # at the last of them
    scores: Matrix  # (c, outputs): of observations left out, with the mean
    prior: Matrix  # (outputs,): that mean
    alpha: Matrix  # (n, outputs): coefficients of the scores
    temperature: float


class LogOdds(NamedTuple):
    """Coefficients of the log of the odds, and how they were chosen."""

    loss: str  # "log", "mixed", or "squared" where the scores stay
    reason: str
    errors: dict[str, float]  # log loss of observations left out
    alpha: Matrix  # (n, outputs)
    offset: Matrix  # (outputs,): what is added
    ridge: float  # of the fit by log loss
    penalty: Matrix  # (n,): its ridge over its curvatures, which error bars are made with


def by_class(scores: Matrix) -> Matrix:
    """Return scores (k, classes) from outputs (k, outputs); a single output is for the second of two classes."""
    return np.column_stack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores


def _labels(wanted: Matrix, weights: Matrix) -> Matrix:
    """Return labels (c, classes), not quite certain, from wanted scores (c, outputs) and weights (c,)."""
    scores = by_class(wanted)
    count = scores.shape[1]
    doubt = count / (count - 1) / (float(weights.sum()) + 2)
    return np.eye(count)[scores.argmax(axis=1)] * (1 - doubt) + doubt / count


def log_loss(labels: Matrix, scores: Matrix, weights: Matrix) -> float:
    """Return the weighted mean log loss of labels (c, classes) under scores (c, classes)."""
    return -float(np.average((labels * log_softmax(scores, axis=1)).sum(axis=1), weights=weights))


def find_temperature(wanted: Matrix, scores: Matrix, weights: Matrix) -> float:
    """Return the factor under which labels are most likely, given scores (c, outputs) of observations left out."""
    labels, given = _labels(wanted, weights), by_class(scores)
    found = minimize_scalar(
        lambda log_factor: log_loss(labels, np.exp(log_factor) * given, weights),
        bounds=(-_MOST_LOG_TEMPERATURE, _MOST_LOG_TEMPERATURE),
        method="bounded",
    )
    return float(np.exp(found.x))


def choose_log_odds(
    matrix: Matrix, diagonal: float, given: Labelled, *, guess: float, ridge: float | None, rows: int, alone: bool
) -> LogOdds | None:
    """Return the best of scores of squares, a fit by log loss and both mixed, on observations left out.

    Parameters
    ----------
    matrix : the kernel (n, n) of the inputs; ``diagonal`` is every entry of its diagonal
    guess : the ridge of the squares, from which that of the log loss is searched for, unless a ``ridge`` is given
    rows : on so many of them, drawn at random, the ridge is found
    alone : whether the fit by log loss is taken, whatever it is worth

    None if the kernel is not positive. Cost: that of :func:`fit_loss`, and of some fits to so many rows.
    """
    data, prior = given.data, given.prior
    labels = _labels(data.target + prior, data.weight)
    two = data.target.shape[1] == 1
    loss: Loss = Logistic() if two else Softmax()
    told = _with_targets(data, labels[:, 1:] if two else labels)
    shares = np.average(labels, axis=0, weights=data.weight)
    offset = np.log(shares[1:] / shares[:1]) if two else np.log(shares) - np.log(shares).mean()
    begin = given.temperature * given.alpha, given.temperature * prior - offset
    if ridge is None:
        ridge = _ridge_on_some(matrix, told, loss, diagonal=diagonal, offset=offset, guess=guess, rows=rows)
    fit = None if ridge is None else fit_loss(
        matrix, told, loss, ridge=ridge, diagonal=diagonal, offset=offset, start=begin, tol=_TOLERANCE,
        last=len(given.left_out),
    )  # fmt: skip
    if fit is None or not np.isfinite(fit.outputs).all():
        return None
    ridge = fit.ridge
    held = told.last(len(given.left_out))
    errors = _errors(given, fit.left_out(held, loss))
    made = fit.alpha, fit.intercept + offset, ridge, ridge * diagonal / fit.curvature
    return _chosen(given, made, errors, alone=alone)


def choose_of_many_rows(
    kernel: Limit,
    given: Labelled,
    *,
    backend: Backend,
    sizes: Sizes,
    guess: float,
    ridge: float | None,
    alone: bool,
) -> LogOdds | None:
    """Return the same for two classes at many rows, some of which are held out: ``given.data`` has their inputs.

    The fit by log loss has no intercept but the log of the odds of all rows. None if nothing finite came out.
    Cost: O(n²) for each product with the kernel, some dozens, and for making it again.
    """
    data, prior = given.data, given.prior
    held, kept = data.held_out(sizes.held)
    order = np.concatenate([kept, held])
    labels = _labels(data.target + prior, data.weight)
    told = _with_targets(data, labels[:, 1:]).at(order)
    rank = min(sizes.rank, len(order) // 8)
    room = max(_ROOM * backend.spare() - 4.0 * rank * len(order), 0.0)
    matrix = backend.operator(kernel, data.X[order].astype(np.float32), memory=room)
    fit = fit_many_rows(
        matrix,
        backend.pivots(matrix, rank=rank),
        told,
        kept=len(kept),
        shares=told.targets,
        ridges=ridges_near(guess) if ridge is None else [ridge],
        alone=ridge is not None,
        start=given.temperature * given.alpha[order],
        backend=backend,
        error_of=lambda outputs: _errors(given, outputs[given.left_out.row])["log"],
    )
    if fit is None:
        return None
    alpha, penalty = np.empty_like(fit.alpha), np.empty(len(order))
    alpha[order], penalty[order] = fit.alpha, fit.ridge * kernel.diagonal / fit.curvature
    share = np.average(told.targets, axis=0, weights=told.weights)
    errors = _errors(given, fit.held[given.left_out.row])
    return _chosen(given, (alpha, np.log(share / (1 - share)), fit.ridge, penalty), errors, alone=alone)


def _errors(given: Labelled, outputs: Matrix) -> dict[str, float]:
    """Return the log losses of the three models; ``outputs`` (c, k) are the log odds of observations left out."""
    held, known = given.left_out, by_class(outputs)
    warmed = by_class(given.temperature * given.scores)
    own = _labels(held.target + given.prior, held.weight)
    return {
        "squared": log_loss(own, warmed, held.weight),
        "log": log_loss(own, known, held.weight),
        "mixed": log_loss(own, (1 - _MIXED) * warmed + _MIXED * known, held.weight),
    }


def _chosen(
    given: Labelled, made: tuple[Matrix, Matrix, float, Matrix], errors: dict[str, float], *, alone: bool
) -> LogOdds:
    """Return the model of the least error, or the fit by log loss if it is to stand alone.

    What was made has coefficients (n, k), an offset (k,), a ridge and penalties (n,).
    """
    alpha, offset, ridge, penalty = made
    name = "log" if alone else min(errors, key=lambda one: (errors[one], one))
    share = {"squared": 0.0, "log": 1.0, "mixed": _MIXED}[name]
    warm = given.temperature
    said = ", ".join(f"{one} {error:.4g}" for one, error in errors.items())
    return LogOdds(
        name,
        f"{'it was asked for; ' if alone else ''}log loss on rows left out: {said}",
        errors,
        (1 - share) * warm * given.alpha + share * alpha,
        (1 - share) * warm * given.prior + share * offset,
        ridge,
        penalty,
    )


def _ridge_on_some(
    matrix: Matrix, told: Observations, loss: Loss, *, diagonal: float, offset: Matrix, guess: float, rows: int
) -> float | None:
    """Return the best ridge on no more than so many rows, always the same; None if the kernel is not positive."""
    n = len(told)
    some = np.arange(n) if n <= rows else np.sort(np.random.default_rng(0).permutation(n)[:rows])
    found = find_ridge(matrix[np.ix_(some, some)], told.at(some), loss, guess=guess, diagonal=diagonal, offset=offset,
                       tol=_ROUGHLY)  # fmt: skip
    return None if found is None else found.ridge


def _with_targets(data: Observations, target: Matrix) -> Observations:
    return Observations(data.X, row=data.row, target=target, unit=data.unit, count=data.count)
