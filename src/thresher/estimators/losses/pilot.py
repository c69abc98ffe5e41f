"""A first look at targets: a small fit to some rows says what to expect of each, before anything is chosen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import CANDIDATES, Scaling
from thresher.estimators.judging.leave_one_out import fit_kernel
from thresher.estimators.judging.newton import find_ridge
from thresher.estimators.losses.working import KNEES, moved_targets, robust_size, weighted_quantile
from thresher.estimators.options import Options
from thresher.estimators.pipeline.scale import GUESS
from thresher.losses import Poisson
from thresher.parallel import blas_for_size
from thresher.tables.rows_on_disk import BLOCK

__all__ = ["Followed", "Pulled", "SmallFit", "expected_logs", "followed", "pulled_in", "standardised"]

Matrix = NDArray[np.float64]
_ROWS = 768  # of a small fit
_BEFORE = 20.0  # deviations from the median beyond which targets are pulled in before any fit
_TIMES = 3  # that the fit and the targets it is given follow each other
_CLEARLY = 0.98  # share of the absolute error with a larger knee that a smaller one must leave
_SURE = 1.5  # standard errors by which it must, as well
_ROOM = 3.0  # by which an expected logarithm may lie beyond those of all counts


class SmallFit:
    """The limit kernel that is tried first, at some of the rows (n, d), in the scale that is tried first."""

    def __init__(self, rows: Any, options: Options, *, most: int) -> None:
        self._rows, self._backend = rows, options.backend
        self.some = np.sort(np.random.default_rng(0).permutation(len(rows))[:most])
        few = rows[self.some]
        self._scaling = Scaling.of(few, scale=CANDIDATES[0] if options.scale is None else options.scale)
        self._kernel = options.first_kernel
        self.scaled = self._scaling.apply(few)
        self._inputs, _, self._last = self._kernel.lift(self.scaled)
        self.matrix, self.diagonal = self._kernel.matrix(self._inputs, options.backend), self._kernel.diagonal

    def outputs(self, alpha: Matrix) -> Matrix:
        """Return what coefficients (s, k) predict of all rows (n, k). Cost: O(nsd)."""
        found = np.empty((len(self._rows), alpha.shape[1]))
        for first in range(0, len(found), BLOCK):
            rows = self._rows[np.arange(first, min(first + BLOCK, len(found)))]
            inputs = self._kernel.lift(self._scaling.apply(rows), last=self._last).inputs
            found[first : first + BLOCK] = self._backend.product(self._kernel, inputs, self._inputs, alpha)
        return found


class Pulled(NamedTuple):
    """Targets (n, k) of which none is far from what the others say of it, and what far means."""

    targets: Matrix
    knee: float  # in deviations


def pulled_in(rows: Any, targets: Matrix, weights: Matrix | None, options: Options) -> Pulled:
    """Return targets (n, k) of which none is far from what the others say of it.

    Some rows are left out one by one, with each of the knees; one with a surely smaller absolute error is taken. Of all
    other rows the fit to these says what to expect. Where nothing can be said, as of three rows, far is far from the
    median.

    Cost: O(s³) for each of some twenty fits to s rows at most, and O(ns).
    """
    middle, unit, standard, before = standardised(targets, weights)
    known = np.where(unit > 0, unit, 1.0)
    if len(targets) < options.sizes.for_judging or not unit.any():
        return Pulled(middle + known * before, KNEES[0])
    with options.backend.session(), blas_for_size(_ROWS):
        small = SmallFit(rows, options, most=_ROWS)
        heavy = None if weights is None else weights[small.some]
        found = [followed(small, standard, before, heavy, knee, options.ridge) for knee in KNEES]
        best = 0
        for place, one in enumerate(found):
            best = place if _surely_less(one.misses, found[best].misses) else best
        moved, alpha, size = found[best].moved, found[best].alpha, found[best].size
        if alpha is not None and len(small.some) < len(targets):
            others = np.ones(len(targets), np.bool_)
            others[small.some] = False
            moved[others] = moved_targets(standard, small.outputs(alpha), KNEES[best] * size)[others]
    return Pulled(middle + known * moved, KNEES[best])


class Standard(NamedTuple):
    """Targets (n, k) less their medians, in robust deviations (k,), and the same pulled in where they are far out."""

    middle: Matrix
    unit: Matrix
    targets: Matrix
    near: Matrix


def standardised(targets: Matrix, weights: Matrix | None) -> Standard:
    """Return targets (n, k) in robust deviations from their medians; in units of 1 where most are equal."""
    middle = np.array([weighted_quantile(one, 0.5, weights) for one in targets.T])
    unit = np.array([robust_size(one, weights) for one in (targets - middle).T])
    standard = (targets - middle) / np.where(unit > 0, unit, 1.0)
    return Standard(middle, unit, standard, np.clip(standard, -_BEFORE, _BEFORE) * (unit > 0))


class Followed(NamedTuple):
    """A fit to some rows, and the targets that it moved."""

    misses: Matrix  # (s,): weighted absolute errors of these rows left out
    moved: Matrix  # (n, k)
    alpha: Matrix | None  # (s, k)
    size: Matrix  # (k,): deviations
    expected: Matrix | None  # (s, k): what is said of these rows left out
    wide: Matrix  # (s, 1): how wide errors are there, relative to others


def followed(
    small: SmallFit, standard: Matrix, before: Matrix, heavy: Matrix | None, knee: float, asked: float | None
) -> Followed:
    """Return a fit to some rows and the targets (n, k) that it moved, which have followed each other."""
    some, moved = small.some, before.copy()
    weight = np.ones(len(some)) if heavy is None else heavy / heavy.mean()
    ridge, ones = GUESS, np.ones(standard.shape[1])
    made = Followed(np.full(len(some), np.inf), moved, None, ones, None, np.ones((len(some), 1)))
    for time in range(_TIMES):
        data = Observations.of_rows(small.scaled, moved[some], weight)
        fixed = asked if time == 0 else ridge
        fit = fit_kernel(small.matrix, data, diagonal=small.diagonal, ridge=fixed, last=len(data), guess=ridge)
        if fit is None:
            break
        ridge, expected = fit.ridge, fit.left_out(data)
        wide = np.sqrt(1 + fit.left_out_variance(data) * data.unit / fit.noise)[:, None]
        misses = weight * np.minimum(np.abs(standard[some] - expected), _BEFORE).sum(axis=1)
        size = np.array([robust_size(one, heavy) for one in ((standard[some] - expected) / wide).T])
        moved[some] = moved_targets(standard[some], expected, knee * size * wide)
        made = Followed(misses, moved, fit.alpha, size, expected, wide)
    return made


def _surely_less(misses: Matrix, others: Matrix) -> bool:
    """Return whether errors (s,) are less than others of the same rows, by a share and by standard errors."""
    gain = others - misses
    doubt = float(np.linalg.norm(gain - gain.mean()))
    return bool(np.isfinite(gain).all() and gain.sum() > max((1 - _CLEARLY) * others.sum(), _SURE * doubt))


def expected_logs(rows: Any, counts: Matrix, weights: Matrix | None, options: Options) -> Matrix:
    """Return logarithms of means (n,) of counts (n,), by a small fit with the loss of counts.

    At its own rows each is left out. Cost: O(s³) for each step of some fits to s rows at most, and O(ns).
    """
    mean = math.log(float(np.average(counts, weights=weights)))
    found = np.full(len(counts), mean)
    if len(counts) < options.sizes.for_judging:
        return found
    with options.backend.session(), blas_for_size(_ROWS):
        small = SmallFit(rows, options, most=_ROWS)
        some = small.some
        heavy = np.ones(len(some)) if weights is None else weights[some] / weights[some].mean()
        data = Observations.of_rows(small.scaled, counts[some, None], heavy)
        matrix, offset = np.asarray(small.matrix.dense()), np.array([mean])
        fit = find_ridge(matrix, data, Poisson(), guess=GUESS, diagonal=small.diagonal, offset=offset)
        if fit is None:
            return found
        if len(some) < len(found):
            found = small.outputs(fit.alpha)[:, 0] + fit.intercept[0] + mean
        found[some] = fit.left_out(data, Poisson())[:, 0]
    least = float(np.log(counts[counts > 0].min())) if (counts > 0).any() else mean
    return np.clip(found, min(least, mean) - _ROOM, math.log(float(counts.max())) + _ROOM)
