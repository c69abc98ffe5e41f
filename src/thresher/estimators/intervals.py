"""Error bars: how far new targets lie from predictions, as observations left out have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, ndtri, stdtrit

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.estimators.solve import LeftOut

__all__ = [
    "LEVELS",
    "calibrate",
    "check_coverage",
    "check_quantiles",
    "deviations_of",
    "residuals_at",
]

Matrix = NDArray[np.float64]
_PLACES = np.linspace(-7.0, 7.0, 57)  # log(p / (1 - p)) of the levels p
LEVELS = expit(_PLACES)  # at which quantiles of residuals are kept: from 0.0009 to 0.9991
# Shares of the limit's variance in error bars that are tried, as log(share / (1 - share)): from about an eighth to 1.
_SHARES = np.linspace(-2.0, 36.0, 20)
_MET = 0.99  # share of the observations whose variances, when left out, are below the border of the known
_FREEDOM = 5.0  # degrees of freedom of errors at least: fewer say next to nothing


def calibrate(left_out: LeftOut, prior: float, *, fitted: float, told: Matrix | None = None) -> tuple[Matrix, Matrix]:
    """Return what error bars are made of: ``noise`` (3, k) and ``residuals`` (levels, k) of k outputs.

    The noise is the factor and the constant that turn variances of the limit into those of left-out data, and the
    border below which 99 % of the variances were. Beyond it deviations grow to those of the targets. The residuals are
    quantiles of what was left out less its prediction, divided by its deviation.

    Left-out errors are too low by what was learnt from all observations, and deviations of new rows are larger by as
    much; the quantiles are the same, but for their median, which stays where it is: a tail that is far out on one side
    must not move it. By how much features that were learnt do this is known, see ``LeftOut.optimism``, which is below 1
    where many rows that were left out have been fitted as well. The mean of the targets, and what was chosen by leaving
    out, count as so many ``fitted`` numbers: of n, errors are n / (n - fitted) times as large. A deviation that is
    itself known from n errors is that of Student's distribution.

    ``prior`` is the variance of the limit where nothing is known, the diagonal of the kernel. ``told`` (c, k) are the
    errors whose quantiles are kept, where they are others than those that say how large a deviation is.

    Cost: O(c log c) for c observations.
    """
    data, optimism = left_out.data, left_out.optimism
    variances, errors = left_out.variances(), data.target - left_out.outputs
    border = np.quantile(variances, _MET)
    number = float(data.count.sum())
    freedom = max(number - 1.0, _FREEDOM)
    wider, student = number / max(number - fitted, 1.0), np.sqrt(freedom / (freedom - 2))
    parts, hidden = [], []  # of variances; squares that learning features has hidden, added wherever a row lies
    for squares in errors.T**2:
        stretch, addend = _fit_variances(squares, variances, data.weight)
        hidden.append(max(optimism - 1, 0.0) * float(np.average(squares, weights=data.weight)))
        known = border if squares.any() else prior  # equal targets say nothing about others
        parts.append([stretch, addend, known])
    noise = np.transpose(parts)
    deviations = deviations_of(variances, noise, prior)
    residuals = [
        _quantiles_of(error, deviation, data.unit, data.count, freedom) / student
        for error, deviation in zip((errors if told is None else told).T, deviations.T, strict=True)
    ]
    quantiles = np.transpose(residuals)
    quantiles -= quantiles[len(LEVELS) // 2] * (1 - 1 / wider)
    noise[1] += hidden
    noise[:2] *= (wider * student) ** 2 * min(optimism, 1.0)
    return noise, quantiles


def deviations_of(variances: Matrix, noise: Matrix, prior: float) -> Matrix:
    """Return the deviations (c, k) of new targets where the limit has these variances (c,). Cost: O(ck)."""
    variance = variances[:, None]
    stretch, addend, border = noise
    most = np.maximum(border * stretch + addend, 1.0)  # 1 is the variance of the targets
    known = np.minimum(variance * stretch + addend, most)
    unknown = np.clip((variance - border) / np.maximum(prior - border, np.finfo(float).tiny), 0.0, 1.0)
    return np.sqrt(known + unknown * np.maximum(1.0 - known, 0.0))


def residuals_at(quantiles: Matrix, residuals: Matrix) -> Matrix:
    """Return quantiles (q, k) of residuals, in deviations, from those kept (levels, k); beyond them normal tails."""
    inside = np.clip(quantiles, LEVELS[0], LEVELS[-1])
    found = np.stack([np.interp(logit(inside), _PLACES, one) for one in residuals.T], axis=1)
    return found + (ndtri(quantiles) - ndtri(inside))[:, None]


def check_coverage(coverage: Any) -> float:
    """Return the share of new targets that an interval is to hold; refuse what is not between 0 and 1."""
    share = check_number(coverage, "coverage")
    if not 0 < share < 1:
        raise InvalidInput(f"coverage must lie between 0 and 1, such as 0.9; got {share:g}.")
    return share


def check_quantiles(quantiles: ArrayLike | Sequence[float]) -> Matrix:
    """Return quantiles (q,); refuse what is no list of numbers between 0 and 1."""
    try:
        found = np.asarray(quantiles, np.float64)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if found.ndim != 1 or not len(found) or not ((found > 0) & (found < 1)).all():
        raise InvalidInput(
            f"quantiles must be numbers between 0 and 1, such as [0.05, 0.5, 0.95]; got {str(quantiles)[:80]}."
        )
    return found


def _quantiles_of(errors: Matrix, deviations: Matrix, unit: Matrix, count: Matrix, freedom: float) -> Matrix:
    """Return the quantiles (levels,) of errors (c,) of observations left out, in units of their deviations (c,).

    Of n equal observations the i-th is at i / (n + 1): a new one is below it with just this probability. Beyond the
    first and the last the tails of Student's distribution go on from them. They are all there is where a deviation is
    0, as with targets that are all the same.
    """
    number, total = float(count.sum()), float((unit * count).sum())
    tails = stdtrit(freedom, LEVELS)
    if not (deviations > 0).all():
        return tails
    scaled = errors / deviations
    order = np.argsort(scaled, kind="stable")
    scaled, unit, last = scaled[order], unit[order], np.cumsum((unit * count)[order])
    first = last - (unit * count[order]) + unit
    places = np.stack([first, last], axis=1).ravel() / (total + total / number)
    ends = places[[0, -1]]
    inside = np.clip(LEVELS, *ends)
    beyond = tails - stdtrit(freedom, inside)
    return np.interp(inside, places, np.repeat(scaled, 2)) + beyond


def _fit_variances(squares: Matrix, variances: Matrix, weights: Matrix) -> Matrix:
    """Return the factor and the constant of variances (n,) under which residuals with these squares are most likely.

    For a given share between the two, the best size is known: only the share is searched for, on a grid and then around
    its best point. Cost: O(n) for some hundred shares.
    """
    typical = max(float(np.average(variances, weights=weights)), np.finfo(float).tiny)
    if not squares.any():
        return np.zeros(2)

    def shape(place: float) -> Matrix:
        return expit(place) * (variances / typical) + expit(-place)

    def surprise(place: float) -> float:
        scaled = shape(place)
        return float(
            np.average(np.log(scaled), weights=weights) + np.log(np.average(squares / scaled, weights=weights))
        )

    best, step = min(_SHARES, key=surprise), _SHARES[1] - _SHARES[0]
    bounds = max(best - step, _SHARES[0]), best + step
    place = minimize_scalar(surprise, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x
    size = float(np.average(squares / shape(place), weights=weights))
    return np.array([size * expit(place) / typical, size * expit(-place)])
