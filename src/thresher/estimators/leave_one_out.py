"""Leave-one-out of ridge regression on a kernel: exact, without a fit for each observation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, DenseOperator, Kernel
from thresher.estimators.ridges import RIDGES, nearest

__all__ = ["LeaveOneOutFit", "best_ridge_of", "fit_kernel", "leave_one_out", "mean_square", "share_of_guess", "surely"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_FLAT, _CLOSE = 0.001, 0.5  # a search ends if it can gain this share of the error at most, and the mean slack is less
_FEW, _DOUBTS = 150, (1.0, 0.0)  # observations below which a gain must be this many standard errors, and beyond
_REACH = math.log(10)  # how far the slope of an error, by the logarithm of the ridge, says what can be gained


class LeaveOneOutFit(NamedTuple):
    """Ridge regression on a kernel, and its leave-one-out errors."""

    ridge: float  # relative to the diagonal of the limit kernel
    noise: float  # the penalty of one observation of unit 1: ridge times that diagonal
    alpha: Matrix  # (n, k)
    outputs: Matrix  # f (n, k)
    slack: Matrix  # (s,): at the last rows, 1 minus how far f at a row follows the mean of the observations there
    error: float  # weighted mean of squared residuals of observations left out, summed over outputs
    slope: float = math.nan  # of the error by the logarithm of the ridge, if asked for

    @property
    def is_settled(self) -> bool:
        """Whether smaller ridges hardly change it: where outputs follow targets closely, the error is linear in them.

        Then the slope by the logarithm of the ridge is all that the error can still fall by.
        """
        return 0 <= self.slope < _FLAT * self.error and float(self.slack.mean()) < _CLOSE

    def left_out(self, data: Observations) -> Matrix:
        """Return the prediction (c, k) for each observation at the last rows when it is left out."""
        residual = data.target - self.outputs[-len(self.slack) :][data.row]
        return data.target - residual / _rest(self.slack, data.row, data.unit, data.weights)[:, None]

    def left_out_variance(self, data: Observations) -> Matrix:
        """Return the variance (c,) of the Gaussian process at each of them left out, without its noise."""
        rest = _rest(self.slack, data.row, data.unit, data.weights)
        return self.noise / data.unit * (1 / rest - 1)


def leave_one_out(
    kernel: DenseOperator, data: Observations, *, ridge: float, diagonal: float, last: int, slope: bool = False
) -> LeaveOneOutFit | None:
    """Return ridge regression with a penalty ``ridge * diagonal`` per observation; None if the matrix is not positive.

    With p = ridge * diagonal / weights and P the diagonal of (H + p)⁻¹, an output follows the mean target at its own
    row with the leverage 1 - p P. The share h of one observation is unit / weight times that. When it is left out,
    its residual is that in the fit divided by 1 - h: exact, without a fit per observation. Only observations at the
    ``last`` rows are left out, one at a time: P costs little there, see :meth:`LowerFactor.inverse_diagonal`.

    Cost: O(n³) for one factor, and half as much for the slope; O(c) for c observations that differ.
    """
    penalty = ridge * diagonal / data.weights
    made = kernel.invert(penalty, data.targets, last=last, whole=slope)
    if made is None:
        return None
    alpha, some = made.alpha, data.last(last)
    away = penalty[:, None] * alpha  # mean target minus output
    slack, pools = penalty[-len(some) :] * made.diagonal, some.pools
    miss = pools.mean - some.targets[pools.row] + away[-len(some) :][pools.row]
    squares = (pools.spread + pools.number[:, None] * miss**2).sum(axis=1)
    rest = _rest(slack, pools.row, pools.unit, some.weights)
    total = float(pools.unit @ pools.number)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of a ridge below rounding no rest is left
        error = float((pools.unit / rest**2) @ squares) / total
    if not math.isfinite(error):
        return None
    rise = math.nan
    if made.changes is not None:
        more = penalty[:, None] * (alpha - made.changes[0])
        slacker = penalty * (made.diagonal - made.changes[1])
        by_miss = pools.number * (miss * more[pools.row]).sum(axis=1) / rest**2
        share = pools.unit / some.weights[pools.row]
        rise = 2 * float(pools.unit @ (by_miss - squares * share * slacker[pools.row] / rest**3)) / total
    return LeaveOneOutFit(ridge, ridge * diagonal, alpha, data.targets - away, slack, error, rise)


def _rest(slack: Matrix, row: Numbers, unit: Matrix, weights: Matrix) -> Matrix:
    """Return 1 minus the leverage of one observation of weight ``unit`` (c,) at each ``row`` (c,)."""
    share = unit / weights[row]
    return (1 - share) + share * slack[row]  # no cancellation where a row has one observation


def best_ridge_of(kernel: Kernel, data: Observations, *, guess: float, backend: Backend) -> float:
    """Return the ridge that is best for observations left out, from a guess on; the guess if there is no fit."""
    matrix = backend.dense(kernel, kernel.lift(data.X, data.weights).inputs)
    fit = fit_kernel(matrix, data, diagonal=kernel.diagonal, ridge=None, last=len(data), guess=guess)
    return guess if fit is None else fit.ridge


def fit_kernel(
    kernel: DenseOperator,
    data: Observations,
    *,
    diagonal: float,
    ridge: float | None,
    last: int,
    guess: float = 1e-2,
    rival: float = math.inf,
    tell: Callable[[int], object] = lambda tried: None,
) -> LeaveOneOutFit | None:
    """Return the fit with this ridge, or the best, found downhill from the guess by half powers of ten.

    Of more rows the ridge is found on the ``last`` ones, which should be a sample (see
    :meth:`Observations.shuffled`): how much noise targets have does not depend on the number of rows. None if no ridge
    in the range makes the matrix positive. The search ends where smaller ridges change nothing, and is given up where
    the slope of the error does not lead below that of a ``rival``. ``tell`` is called with the number of ridges tried.

    Cost: O(n³), and O(min(n, last)³) for each of about two ridges.
    """
    leave_out = partial(leave_one_out, kernel, data, diagonal=diagonal, last=last)
    if ridge is None and len(data) > last:
        sample = kernel.last(last)
        some = fit_kernel(sample, data.last(last), diagonal=diagonal, ridge=None, last=last, guess=guess, tell=tell)
        least = nearest(RIDGES[-1] if some is None else some.ridge)
        fits_all = (leave_out(ridge=one) for one in RIDGES[least:])
        return next((fit for fit in fits_all if fit is not None), None)  # all rows may need a larger one
    if ridge is not None:
        return leave_out(ridge=ridge)
    place, tried = nearest(guess), 1
    best = leave_out(ridge=RIDGES[place], slope=True)
    tell(tried)
    while best is None or not best.is_settled:
        towards = 1 if best is None or best.slope < 0 else -1
        place, tried = place + towards, tried + 1
        if not 0 <= place < len(RIDGES) or (best is not None and best.error - _REACH * abs(best.slope) > rival):
            return best
        other = leave_out(ridge=RIDGES[place], slope=True)
        tell(tried)
        if best is not None and (other is None or not other.error < best.error):
            return best
        if best is not None and other is not None and towards * other.slope > 0:  # the lowest is between the two
            return other
        best = other
    return best


def mean_square(data: Observations, outputs: Matrix) -> float:
    """Return the weighted mean of squared errors of outputs (c, k), summed over outputs."""
    return float(data.weight @ ((outputs - data.target) ** 2).sum(axis=1) / data.weight.sum())


def share_of_guess(data: Observations, outputs: Matrix, own: Callable[[Matrix], Matrix] = np.asarray) -> float:
    """Return the squared error of outputs (c, k) as a share of that of a constant guess for the same observations.

    ``own`` turns targets and outputs (c, k) into the units that they are compared in. The guess is the mean of the
    targets; shares of several outputs are averaged, without those whose targets are all the same. NaN without others.
    """
    target, found = own(data.target), own(outputs)
    spread = data.weight @ (target - np.average(target, axis=0, weights=data.weight)) ** 2
    error = data.weight @ (found - target) ** 2
    return float(np.mean(error[spread > 0] / spread[spread > 0])) if (spread > 0).any() else math.nan


def surely(before: Matrix, after: Matrix, weight: Matrix, *, least: float = 0.0, sure: float | None = None) -> bool:
    """Return whether squared errors (c,) of observations with weights are lower ``after``, by more than chance.

    ``least`` is the share of the error ``before`` that must be gained, and ``sure`` the standard errors. By default few
    observations must say so more clearly: there a wrong choice costs much.
    """
    share = weight / weight.sum()
    gain, error = float(share @ (before - after)), float(share @ before)
    doubt = float(np.linalg.norm(share * (before - after - gain)))
    sure = _DOUBTS[len(before) >= _FEW] if sure is None else sure
    return gain > max(least * error, sure * doubt, 0.0)
