"""Which loss? Small fits with each that the targets allow, and one score of what they say of rows left out.

The score is that of the whole distribution (the mean pinball loss over levels, which is half the continuous ranked
probability score): in the units of the targets, it is the same for counts, logarithms and squares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.leave_one_out import LeaveOneOutFit, fit_kernel
from thresher.estimators.judging.newton import find_ridge
from thresher.estimators.losses.counts import count_quantiles, dispersion_of
from thresher.estimators.losses.pilot import SmallFit, followed, standardised
from thresher.estimators.losses.working import KNEES, robust_size, weighted_quantile
from thresher.estimators.options import Options
from thresher.estimators.pipeline.scale import GUESS
from thresher.losses import Poisson
from thresher.parallel import blas_for_size

__all__ = ["Chosen", "choose_loss"]

Matrix = NDArray[np.float64]
_ROWS = 512  # of the small fits
_SCORED = np.arange(1, 20) / 20
_ABSURD = 15.0  # robust deviations beyond which an error is absurd: where there is one, Huber's loss is tried
_REACH = 20.0  # robust deviations from the median at which targets count as the same
_CLEARLY, _SURE = 0.98, 2.0  # share of the score of squares, and standard errors, that another must leave and gain
_SQUARES = 1.05  # share of the mean square of errors, those of squares being 1, that logarithms and counts may have
_MOST = 1e15  # robust deviations of a target at most
_MOST_COUNT = 1e6  # mean above which whole numbers are no counts


class Chosen(NamedTuple):
    """The loss, the floor of logarithms where squares are of these, and the scores of all that were tried."""

    loss: str
    floor: float | None
    scores: dict[str, float]


class _Said(NamedTuple):
    """What a small fit says of rows left out: quantiles (s, levels), and a prediction (s,)."""

    quantiles: Matrix
    prediction: Matrix


def choose_loss(
    rows: Any, targets: Matrix, weights: Matrix | None, options: Options, floors: list[float], *, counts: bool = True
) -> Chosen:
    """Return the loss for targets (n,): squares, unless another is surely better.

    ``floors`` are those of logarithms that are tried. Huber's loss is tried where some errors of squares are absurd,
    that of counts where targets are whole and none is below 0. All must have about the same mean square of errors, or a
    lower one, where targets are not absurd.

    Cost: O(s³) for each of some fits to s rows at most.
    """
    if len(targets) < options.sizes.for_scales or np.ptp(targets) == 0:
        return Chosen("squared", None, {})
    with options.backend.session(), blas_for_size(_ROWS):
        small = SmallFit(rows, options, most=_ROWS)
        middle, unit, *_ = standardised(targets[:, None], weights)
        far = _MOST * (unit[0] or 1.0)
        y = np.clip(targets[small.some], middle[0] - far, middle[0] + far)
        heavy = np.ones(len(y)) if weights is None else weights[small.some] / weights[small.some].mean()
        plain, rest = _by_squares(small, y, heavy, options)
        if plain is None:
            return Chosen("squared", None, {})
        others: dict[str, Callable[[], _Said | None]] = {}
        for place, floor in enumerate(floors):
            others[f"log {place}"] = lambda floor=floor: _by_logs(small, y, heavy, options, floor)  # type: ignore[misc]
        ordinary = np.abs(rest) <= _ABSURD * robust_size(rest, heavy)
        if not ordinary.all():
            others["huber"] = lambda: _by_huber(small, targets, heavy, options)
        whole = bool((targets == np.rint(targets)).all() and targets.min() >= 0)
        if counts and whole and 0 < targets.mean() < _MOST_COUNT:
            others["poisson"] = lambda: _by_counts(small, y, heavy)
        said = {"squared": plain} | {name: made for name, make in others.items() if (made := make()) is not None}
    return _best(y, heavy, said, floors, ordinary=ordinary)


def _best(
    y: Matrix, heavy: Matrix, said: dict[str, _Said], floors: list[float], *, ordinary: NDArray[np.bool_]
) -> Chosen:
    """Return the loss of the least score that is surely below that of squares, and scores of all.

    Squared errors are those of ``ordinary`` targets, none of which is absurd.
    """
    middle = weighted_quantile(y, 0.5, heavy)
    unit = robust_size(y - middle, heavy) or 1.0
    low, high = middle - _REACH * unit, middle + _REACH * unit  # beyond, one target would be all of the score

    def pinball(one: _Said) -> Matrix:
        rest = np.clip(y, low, high)[:, None] - np.clip(one.quantiles, low, high)
        return heavy * np.maximum(_SCORED * rest, (_SCORED - 1) * rest).mean(axis=1)

    losses = {name: pinball(one) for name, one in said.items()}
    squares = {name: float((heavy * (y - one.prediction) ** 2)[ordinary].sum()) for name, one in said.items()}
    plain, best = losses["squared"], "squared"
    for name, loss in losses.items():
        gain = plain - loss
        sure = gain.sum() > max((1 - _CLEARLY) * plain.sum(), _SURE * float(np.linalg.norm(gain - gain.mean())))
        as_good = squares[name] <= (1.0 if name == "huber" else _SQUARES) * squares["squared"]
        if sure and as_good and loss.sum() < losses[best].sum():
            best = name
    scores = {name: float(loss.mean()) for name, loss in losses.items()}
    if best.startswith("log"):
        return Chosen("squared", floors[int(best[4:])], scores)
    return Chosen(best, None, scores)


def _by_squares(small: SmallFit, y: Matrix, heavy: Matrix, options: Options) -> tuple[_Said | None, Matrix]:
    """Return what squares say of rows left out, and errors (s,) in deviations; None where there is no fit."""
    mean, unit = np.average(y, weights=heavy), np.std(y) or 1.0
    data = Observations.of_rows(small.scaled, ((y - mean) / unit)[:, None], heavy)
    fit = fit_kernel(small.matrix, data, diagonal=small.diagonal, ridge=options.ridge, last=len(data), guess=GUESS)
    if fit is None:
        return None, np.zeros(len(y))
    expected, wide = _around(fit, data)
    rest = ((y - mean) / unit - expected) / wide
    return _Said(_spread(expected, wide, rest, heavy) * unit + mean, expected * unit + mean), rest


def _around(fit: LeaveOneOutFit, data: Observations) -> tuple[Matrix, Matrix]:
    """Return predictions (s,) of rows left out and how wide each is, relative to others."""
    return fit.left_out(data)[:, 0], np.sqrt(1 + fit.left_out_variance(data) * data.unit / fit.noise)


def _spread(expected: Matrix, wide: Matrix, rest: Matrix, heavy: Matrix) -> Matrix:
    """Return quantiles (s, levels) from those of errors in deviations (s,)."""
    steps = np.array([weighted_quantile(rest, level, heavy) for level in _SCORED])
    return expected[:, None] + wide[:, None] * steps


def _by_logs(small: SmallFit, y: Matrix, heavy: Matrix, options: Options, floor: float) -> _Said | None:
    found, _ = _by_squares(small, np.log(y - floor), heavy, options)
    if found is None:
        return None
    with np.errstate(over="ignore"):
        quantiles, prediction = (np.minimum(np.exp(one), np.finfo(float).max) + floor for one in found)
    return _Said(quantiles, np.minimum(prediction, 1e150))


def _by_huber(small: SmallFit, targets: Matrix, heavy: Matrix, options: Options) -> _Said | None:
    """Return what Huber's loss says with the knee of the least absolute error."""
    middle, unit, standard, before = standardised(targets[:, None], None)
    if not unit[0] > 0:
        return None
    made = [followed(small, standard, before, heavy, knee, options.ridge) for knee in KNEES[2:]]
    best = min(made, key=lambda one: float(one.misses.sum()))
    if best.expected is None:
        return None
    expected, wide = best.expected[:, 0], best.wide[:, 0]
    quantiles = _spread(expected, wide, (standard[small.some, 0] - expected) / wide, heavy)
    return _Said(quantiles * unit + middle, expected * unit[0] + middle[0])


def _by_counts(small: SmallFit, y: Matrix, heavy: Matrix) -> _Said | None:
    """Return what a fit to counts says of rows left out."""
    data, offset = Observations.of_rows(small.scaled, y[:, None], heavy), np.log([np.average(y, weights=heavy)])
    fit = find_ridge(
        np.asarray(small.matrix.dense()), data, Poisson(), guess=GUESS, diagonal=small.diagonal, offset=offset
    )
    if fit is None:
        return None
    means = Poisson().link(np.minimum(fit.left_out(data, Poisson())[:, 0], np.log(y.max() + 1) + 3))
    return _Said(count_quantiles(means, _SCORED, dispersion_of(y, means, heavy)), means)
