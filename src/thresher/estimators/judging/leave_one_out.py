"""A judge that leaves out observations one at a time: ridge regression on a matrix, exact, without a fit for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, DenseOperator, Kernel, Measure
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.ridges import RIDGES, nearest

__all__ = ["LeaveOneOut", "LeaveOneOutFit", "fit_kernel", "leave_one_out", "solve_kernel"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_FLAT, _CLOSE = 0.001, 0.5  # a search ends if it can gain this share of the error at most, and the mean slack is less
_REACH = math.log(10)  # how far the slope of an error, by the logarithm of the ridge, says what can be gained


class LeaveOneOutFit(NamedTuple):
    """Ridge regression on a kernel, and its leave-one-out errors; a ``Judged``."""

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


class LeaveOneOut:
    """Observations at few rows, each of which is left out.

    Parameters
    ----------
    data : observations at rows (n, r)
    backend : that computes
    measure : of what :meth:`measured` returns
    last : rows at which observations are left out at most, the last ones
    """

    def __init__(
        self, data: Observations, backend: Backend, *, measure: Measure = mean_square, last: int = 1 << 30
    ) -> None:
        self.data, self.held = data, data.last(last)
        self._backend, self._measure, self._last = backend, measure, last

    def evaluate(
        self,
        kernel: Kernel,
        *,
        ridge: float | None = None,
        guess: float = 1e-2,
        rival: float = math.inf,
        start: Any = None,
    ) -> LeaveOneOutFit | None:
        """Return the fit with this ridge, or the best; see :func:`fit_kernel`. A ``start`` does not help it."""
        inputs = kernel.lift(self.data.X, self.data.weights).inputs
        matrix = kernel.matrix(inputs, self._backend)
        return self.fit(matrix, kernel, ridge=ridge, guess=guess, rival=rival)

    def fit(self, matrix: DenseOperator, kernel: Kernel, **more: Any) -> LeaveOneOutFit | None:
        """Return the same from the matrix of these rows, which is there already; ``more`` is for :func:`fit_kernel`."""
        return fit_kernel(matrix, self.data, diagonal=kernel.diagonal, last=self._last, **more)

    def left_out(self, judged: LeaveOneOutFit) -> Matrix:
        """Return what the fit predicts for each observation (c, k) when it is left out."""
        return judged.left_out(self.held)

    def measured(self, judged: LeaveOneOutFit) -> float:
        """Return the error of these predictions."""
        return judged.error if self._measure is mean_square else self._measure(self.held, self.left_out(judged))


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


def solve_kernel(
    matrix: DenseOperator, data: Observations, kernel: Kernel, *, ridge: float | None, guess: float
) -> tuple[Matrix | None, float]:
    """Return the coefficients (n, k) of a fit, None if there are none, and its ridge: the best if none is given."""
    if ridge is not None:
        return matrix.solve(kernel.penalty(ridge, data.weights), data.targets), ridge
    fit = fit_kernel(matrix, data, diagonal=kernel.diagonal, ridge=None, last=len(data), guess=guess)
    return (None, guess) if fit is None else (fit.alpha, fit.ridge)


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
