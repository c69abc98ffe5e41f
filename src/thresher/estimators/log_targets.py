"""Whether a regressor learns logarithms of its targets: by one proper score of what is said of rows left out.

The score is the mean pinball loss over levels, which is half the continuous ranked probability score (CRPS): in the
units of the targets it is the same for targets and for logarithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choose import FIRST_RIDGE
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import SCALE, Scaling
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import fit_kernel
from thresher.estimators.robust import robust_size, weighted_quantile
from thresher.estimators.settings import Settings
from thresher.parallel import blas_for_size

__all__ = ["choose_floor", "floors_of"]

Matrix = NDArray[np.float64]
_ABOVE = (0.001, 0.1)  # how far the smallest target may lie above the floor of logarithms, in deviations of the targets
_LEVELS = np.arange(1, 20) / 20
_REACH = 20.0  # robust deviations from the median at which targets count as the same
_CLEARLY, _SURE = 0.98, 2.0  # share of the score of targets, and standard errors, that logarithms must leave and gain
# Shares of the mean square of errors that logarithms may have, and of the score from which on it is the second: their
# predictions are medians, whose mean square is up to 1.09 times that of means where targets are log-normal.
_SQUARES, _BETTER = (1.05, 1.12), 0.9


def floors_of(columns: Matrix, weights: Matrix | None) -> list[Matrix]:
    """Return the floors (k,) of logarithms of targets (n, k) that are tried; of amounts above 0 none is below 0."""
    unit = Scaling.of(columns, scale="standardise", weights=weights).unit
    least = columns.min(axis=0)
    below = np.nextafter(least, -np.inf)  # where a share of the unit is lost in rounding
    lowest = np.where(least > 0, 0.0, -np.inf)
    return [np.maximum(np.minimum(least - above * unit, below), lowest) for above in _ABOVE]


def choose_floor(
    data: Observations, settings: Settings, *, floors: list[Matrix], asked: bool
) -> tuple[Matrix | None, dict[str, float]]:
    """Return the floor (k,) of the logarithms that targets (n, k) are learnt as, and the scores of what was tried.

    None where targets are learnt as they are: unless they were ``asked`` for, logarithms must have a surely lower
    score, and no clearly higher mean square. Observations are at raw rows (n, d), few enough for one factor; the
    ``floors`` are below all targets, those of other rows too.

    Cost: O(n³) for each of three fits.
    """
    scores, squares, columns = list[Matrix](), list[float](), data.target
    heavy = data.weight * (data.count.sum() / data.weight.sum())
    middle = np.array([weighted_quantile(column, 0.5, heavy) for column in columns.T])
    unit = np.array([robust_size(column, heavy) or 1.0 for column in (columns - middle).T])
    low, high = middle - _REACH * unit, middle + _REACH * unit
    near = np.clip(columns, low, high)
    scaled = data.with_rows(Scaling.of(data.X, scale=SCALE, weights=data.weights).apply(data.X))
    kernel = SphereKernel(settings.biases[0], settings.shift)
    with blas_for_size(len(data)):
        matrix = settings.backend.dense(kernel, kernel.lift(scaled.X, data.weights).inputs)
        for floor in (None, *floors):
            learnt = columns if floor is None else np.log(columns - floor)
            scaling = Scaling.of(learnt, scale="standardise", weights=heavy)
            own = scaled.with_targets(scaling.apply(learnt))
            fit = fit_kernel(
                matrix, own, diagonal=kernel.diagonal, ridge=settings.ridge, last=len(own), guess=FIRST_RIDGE
            )
            if fit is None:
                scores.append(np.full(len(columns), np.inf))
                squares.append(np.inf)
                continue
            expected = fit.left_out(own)
            wide = np.sqrt(1 + fit.left_out_variance(own) * own.unit / fit.noise)[:, None]
            rest = (own.target - expected) / wide

            def misses(values: Matrix, floor: Matrix | None = floor, scaling: Scaling = scaling) -> Matrix:
                said = values * scaling.unit + scaling.mean
                with np.errstate(over="ignore"):
                    said = said if floor is None else np.minimum(np.exp(said), 1e150) + floor
                return (near - np.clip(said, low, high)) / unit

            score = np.zeros(len(columns))
            for level in _LEVELS:  # one at a time, which takes no more memory than the targets
                steps = np.array([weighted_quantile(one, level, heavy) for one in rest.T])
                away = misses(expected + wide * steps)
                score += np.maximum(level * away, (level - 1) * away).sum(axis=1)
            scores.append(heavy * score / len(_LEVELS))
            squares.append(float(heavy @ (misses(expected) ** 2).sum(axis=1)))
    names = ["targets", "logarithms (near floor)", "logarithms (far floor)"]
    tried = {name: float(score.sum() / heavy.sum()) for name, score in zip(names, scores, strict=True)}
    best = 1 + int(np.argmin([score.sum() for score in scores[1:]]))
    if asked:
        return floors[best - 1], tried
    if not (np.isfinite(scores[0]).all() and np.isfinite(scores[best]).all()):
        return None, tried
    gain, whole = scores[0] - scores[best], scores[0].sum()
    doubt = float(np.linalg.norm(gain - gain.mean()))
    sure = gain.sum() > max((1 - _CLEARLY) * whole, _SURE * doubt)
    allowed = _SQUARES[int(gain.sum() > (1 - _BETTER) * whole)] * squares[0]
    return (floors[best - 1] if sure and squares[best] <= allowed else None), tried
