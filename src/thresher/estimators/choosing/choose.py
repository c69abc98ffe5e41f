"""Shift, bias and ridge by exact leave-one-out on a kernel: that of the limit, or of a network at its start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choosing.ridges import RIDGES, nearest
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernels.device import DenseKernel
from thresher.theory import firing_probability

__all__ = [
    "SEARCHED",
    "SHIFTS",
    "Choice",
    "Fit",
    "Judge",
    "choose",
    "fit_kernel",
    "leave_one_out",
    "mean_square",
    "search",
    "solve_kernel",
]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
# Tried one after the other: first the biases with the first shift, then the other shifts with the best bias.
SHIFTS = (0.5, 0.0, 1.0, 1.5)
_WORTH = 0.99  # share of the favourite's error that another must stay below: kernels of networks are noisy
SEARCHED = 1024  # rows on which the ridge is searched for, and that are left out; the one found is used for all
_REACH = math.log(10)  # how far the slope of an error, by the logarithm of the ridge, says what can be gained


Judge = Callable[[Observations, Matrix], float]  # the error of outputs (c, k) for observations left out
Tried = tuple[float, float, float, float]  # bias, shift, ridge, error


class Fit(NamedTuple):
    """Ridge regression on a kernel, and its leave-one-out errors."""

    ridge: float  # relative to the diagonal of the limit kernel
    noise: float  # the penalty of one observation of unit 1: ridge times that diagonal
    alpha: Matrix  # (n, k)
    outputs: Matrix  # f (n, k)
    slack: Matrix  # (s,): at the last rows, 1 minus how far f at a row follows the mean of the observations there
    error: float  # weighted mean of squared residuals of observations left out, summed over outputs
    slope: float = math.nan  # of the error by the logarithm of the ridge, if asked for

    def left_out(self, data: Observations) -> Matrix:
        """Return the prediction (c, k) for each observation at the last rows when it is left out."""
        residual = data.target - self.outputs[-len(self.slack) :][data.row]
        return data.target - residual / self._rest(data.row, data.unit, data.weights)[:, None]

    def left_out_variance(self, data: Observations) -> Matrix:
        """Return the variance (c,) of the Gaussian process at each of them left out, without its noise."""
        rest = self._rest(data.row, data.unit, data.weights)
        return self.noise / data.unit * (1 / rest - 1)

    def _rest(self, row: Numbers, unit: Matrix, weights: Matrix) -> Matrix:
        """Return 1 minus the leverage of one observation (c,)."""
        return _rest(self.slack, row, unit, weights)


class Choice(NamedTuple):
    """What was chosen and its error; ``tried`` has (bias, shift, ridge, error) for each kernel tried."""

    bias: float
    shift: float
    ridge: float
    error: float
    tried: list[Tried]


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


def leave_one_out(
    kernel: DenseKernel, data: Observations, *, ridge: float, diagonal: float, slope: bool = False
) -> Fit | None:
    """Return ridge regression with a penalty ``ridge * diagonal`` per observation; None if the matrix is not positive.

    With p = ridge * diagonal / weights and P the diagonal of (H + p)⁻¹, an output follows the mean target at its own
    row with the leverage 1 - p P. The share h of one observation is unit / weight times that. When it is left out,
    its residual is that in the fit divided by 1 - h: exact, without a fit per observation. Of more than 1024 rows
    the last 1024 are left out, one at a time: P costs little there, see :meth:`LowerFactor.inverse_diagonal`.

    Cost: O(n³) for one factor, and half as much for the slope; O(c) for c observations that differ.
    """
    penalty = ridge * diagonal / data.weights
    made = kernel.invert(penalty, data.targets, last=SEARCHED, whole=slope)
    if made is None:
        return None
    alpha, last = made.alpha, data.last(SEARCHED)
    away, some = penalty[:, None] * alpha, penalty[-len(last) :]  # away: mean target minus output
    slack, pools = some * made.diagonal, last.pools
    miss = pools.mean - last.targets[pools.row] + away[-len(last) :][pools.row]
    squares = (pools.spread + pools.number[:, None] * miss**2).sum(axis=1)
    rest = _rest(slack, pools.row, pools.unit, last.weights)
    total = float(pools.unit @ pools.number)
    error = float((pools.unit / rest**2) @ squares) / total
    if not math.isfinite(error):
        return None
    rise = math.nan
    if made.changes is not None:
        more = penalty[:, None] * (alpha - made.changes[0])
        slacker = penalty * (made.diagonal - made.changes[1])
        by_miss = pools.number * (miss * more[pools.row]).sum(axis=1) / rest**2
        share = pools.unit / last.weights[pools.row]
        rise = 2 * float(pools.unit @ (by_miss - squares * share * slacker[pools.row] / rest**3)) / total
    return Fit(ridge, ridge * diagonal, alpha, data.targets - away, slack, error, rise)


def _rest(slack: Matrix, row: Numbers, unit: Matrix, weights: Matrix) -> Matrix:
    share = unit / weights[row]
    return (1 - share) + share * slack[row]  # no cancellation where a row has one observation


def solve_kernel(kernel: DenseKernel, data: Observations, *, shift: float, ridge: float) -> Matrix | None:
    """Return only alpha (n, k); None if the matrix is not positive. Cost: O(n³/3), half of leaving rows out."""
    return kernel.solve(ridge * firing_probability(shift) / data.weights, data.targets)


def fit_kernel(
    kernel: DenseKernel,
    data: Observations,
    *,
    shift: float,
    ridge: float | None,
    guess: float = 1e-2,
    rival: float = math.inf,
    tell: Callable[[int], object] = lambda tried: None,
) -> Fit | None:
    """Return the fit with this ridge, or the best, found downhill from the guess by half powers of ten.

    Of more than 1024 rows the ridge is found on the last 1024, which should be a sample (see
    :meth:`Observations.shuffled`): how much noise targets have does not depend on the number of rows. None if no ridge
    in the range makes the matrix positive. The search is given up where the slope of the error does not lead below
    that of a ``rival``. ``tell`` is called with the number of ridges tried.

    Cost: O(n³), and O(min(n, 1024)³) for each of about two ridges.
    """
    diagonal = firing_probability(shift)
    if ridge is None and len(data) > SEARCHED:
        last = kernel.last(SEARCHED)
        some = fit_kernel(last, data.last(SEARCHED), shift=shift, ridge=None, guess=guess, tell=tell)
        least = nearest(RIDGES[-1] if some is None else some.ridge)
        fits_all = (leave_one_out(kernel, data, ridge=one, diagonal=diagonal) for one in RIDGES[least:])
        return next((fit for fit in fits_all if fit is not None), None)  # all rows may need a larger one
    if ridge is not None:
        return leave_one_out(kernel, data, ridge=ridge, diagonal=diagonal)
    place, tried = nearest(guess), 1
    best = leave_one_out(kernel, data, ridge=RIDGES[place], diagonal=diagonal, slope=True)
    tell(tried)
    while True:
        towards = 1 if best is None or best.slope < 0 else -1
        place, tried = place + towards, tried + 1
        if not 0 <= place < len(RIDGES) or (best is not None and best.error - _REACH * abs(best.slope) > rival):
            return best
        other = leave_one_out(kernel, data, ridge=RIDGES[place], diagonal=diagonal, slope=True)
        tell(tried)
        if best is not None and (other is None or not other.error < best.error):
            return best
        if best is not None and other is not None and towards * other.slope > 0:  # the lowest is between the two
            return other
        best = other


def choose(
    data: Observations,
    *,
    biases: Sequence[float],
    shifts: Sequence[float],
    ridge: float | None,
    guess: float = 1e-2,
    kernel_of: Callable[[Matrix, float], DenseKernel],
    favourite: Choice | None = None,
    enough: float = 0.0,
    known: Sequence[Tried] = (),
) -> Choice:
    """Return the bias, shift and ridge of the lowest leave-one-out error, for observations at scaled rows.

    A list of one value fixes it. ``ridge=None`` is chosen. ``kernel_of`` returns the kernel of lifted inputs (n, d)
    and a shift: that of the limit, or of a network. The favourite is tried first and kept
    unless another is better by a hundredth; others are not tried if its error is ``enough``. What is ``known`` of
    the same kernels is not tried again.

    Cost: O(n³) for each kernel tried, see :func:`fit_kernel`.
    """
    length = typical_norm(data.X, data.weights)

    def attempt(bias: float, shift: float, near: float, rival: float) -> tuple[float, float]:
        inputs, _ = lift_rows(data.X, bias * length)
        fit = fit_kernel(kernel_of(inputs, shift), data, shift=shift, ridge=ridge, guess=near, rival=rival)
        return (near, math.inf) if fit is None else (fit.ridge, fit.error)

    return search(attempt, biases=biases, shifts=shifts, guess=guess, favourite=favourite, enough=enough, known=known)


def search(
    attempt: Callable[[float, float, float, float], tuple[float, float]],
    *,
    biases: Sequence[float],
    shifts: Sequence[float],
    guess: float,
    favourite: Choice | None = None,
    enough: float = 0.0,
    known: Sequence[Tried] = (),
) -> Choice:
    """Return the best bias and shift: the biases with the first shift, then the other shifts with the best bias.

    ``attempt`` is called with a bias, a shift, a ridge to begin with and an error to get below, unless the result is
    ``known``; it returns the ridge and the error. The favourite, which is tried first, is kept if its error is
    ``enough``.
    """
    tried: list[Tried] = []
    found = {one[:2]: one for one in known}

    def best() -> Tried:
        least = min(tried, key=lambda one: one[3])
        return tried[0] if favourite is not None and least[3] > _WORTH * tried[0][3] else least

    def add(bias: float, shift: float) -> None:
        near, rival = (best()[2], best()[3]) if tried else (guess, math.inf)
        if favourite is not None and tried:
            rival = min(rival, _WORTH * tried[0][3])
        tried.append(found.get((bias, shift)) or (bias, shift, *attempt(bias, shift, near, rival)))

    if favourite is not None:
        biases, shifts = _first(favourite.bias, biases), _first(favourite.shift, shifts)
    for bias in biases:
        add(bias, shifts[0])
        if favourite is not None and tried[0][3] <= enough:
            return Choice(*tried[0], tried)
    middle = best()[0]
    for shift in shifts[1:]:
        add(middle, shift)
    return Choice(*best(), tried)


def _first(value: float, values: Sequence[float]) -> list[float]:
    return [value, *(other for other in values if other != value)]
