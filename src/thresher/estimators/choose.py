"""Shift, bias and ridge by exact leave-one-out on a kernel: that of the limit, or of a network at its start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from thresher.estimators.lift import lift_rows, typical_norm
from thresher.parallel import blas_for_size
from thresher.theory import firing_probability, limit_kernel

__all__ = ["SHIFTS", "Choice", "Fit", "choose", "fit_kernel", "leave_one_out", "limit_of", "solve_kernel"]

Matrix = NDArray[np.float64]
# Tried one after the other: first the biases with the first shift, then the other shifts with the best bias.
SHIFTS = (0.5, 0.0, 1.0, 1.5)
_WORTH = 0.99  # a share of the error of what is in favour: kernels of networks are noisy
_LEAST, _MOST = -10, 4  # half powers of ten; below 1e-5 the single precision of a network cannot follow


Tried = tuple[float, float, float, float]  # bias, shift, ridge, error


class Fit(NamedTuple):
    """Ridge regression on a kernel: alpha (n, k), and what leaving rows out says."""

    ridge: float  # relative to the diagonal of the limit kernel
    alpha: Matrix
    residuals: Matrix  # y - f (n, k) of whole rows left out
    precisions: Matrix  # (n,): one over the variance of those residuals, relative to that of the kernel
    error: float  # weighted mean of squared residuals of single copies left out, summed over outputs


class Choice(NamedTuple):
    """What was chosen, by which error, among what: ``tried`` has a (bias, shift, ridge, error) for each kernel."""

    bias: float
    shift: float
    ridge: float
    error: float
    tried: list[Tried]


def leave_one_out(kernel: Matrix, targets: Matrix, weights: Matrix, *, ridge: float, diagonal: float) -> Fit | None:
    """Return ridge regression with penalty p = ``ridge * diagonal / weights``; None if the matrix is not positive.

    With P the diagonal of (H + p)⁻¹ the residual of a row left out is alpha / P: exact, without n fits. A row of weight
    w above 1 is w copies of one row, as new rows may be copies too; if one of them is left out the residual is
    alpha p w / (w - 1 + p P), and the error is that of single copies.

    Cost: O(n³), one factor and its inverse.
    """
    penalty = ridge * diagonal / weights
    with blas_for_size(len(kernel)):
        solved = _factor(kernel, targets, penalty)
        if solved is None:
            return None
        factor, alpha = solved
        root = dtrtri(factor, lower=1, overwrite_c=1)[0]
        inverse = np.einsum("ij,ij->j", root, root)
    copies = np.maximum(weights, 1.0)
    of_copies = alpha * (penalty * copies / (copies - 1 + penalty * inverse))[:, None]
    error = float(np.average((of_copies**2).sum(axis=1), weights=weights))
    return Fit(ridge, alpha, alpha / inverse[:, None], inverse, error) if math.isfinite(error) else None


def solve_kernel(kernel: Matrix, targets: Matrix, weights: Matrix, *, shift: float, ridge: float) -> Matrix | None:
    """Return alpha (n, k) alone; None if the matrix is not positive. Cost: O(n³/3), half of leaving rows out."""
    with blas_for_size(len(kernel)):
        solved = _factor(kernel, targets, ridge * firing_probability(shift) / weights)
    return None if solved is None else solved[1]


def _factor(kernel: Matrix, targets: Matrix, penalty: Matrix) -> tuple[Matrix, Matrix] | None:
    """Return the lower factor of the kernel plus its penalty (n,), and what it solves the targets to."""
    matrix = kernel.copy(order="F")
    matrix[np.diag_indices(len(matrix))] += penalty
    factor, failed = dpotrf(matrix, lower=1, overwrite_a=1)
    return None if failed else (factor, np.ascontiguousarray(dpotrs(factor, targets, lower=1)[0]))


def fit_kernel(
    kernel: Matrix, targets: Matrix, weights: Matrix, *, shift: float, ridge: float | None, guess: float = 1e-2
) -> Fit | None:
    """Return the fit with this ridge, or with the best one: from the guess downhill, by half powers of ten.

    None if no ridge in reach makes the matrix positive. Cost: O(n³) for each of about five ridges.
    """
    diagonal = firing_probability(shift)
    if ridge is not None:
        return leave_one_out(kernel, targets, weights, ridge=ridge, diagonal=diagonal)
    fits: dict[int, Fit | None] = {}

    def error(power: int) -> float:
        if power not in fits:
            fits[power] = leave_one_out(kernel, targets, weights, ridge=10 ** (power / 2), diagonal=diagonal)
        fit = fits[power]
        return math.inf if fit is None else fit.error

    best = min(max(round(2 * math.log10(guess)), _LEAST), _MOST)
    while True:
        near = [power for power in (best - 1, best, best + 1) if _LEAST <= power <= _MOST]
        lowest = min(near, key=lambda power: (error(power), -power))
        if lowest == best:
            return fits[best]
        best = lowest


def limit_of(inputs: Matrix, shift: float) -> Matrix:
    """Return the limit kernel (n, n) of inputs (n, d). Cost: O(n²d)."""
    return limit_kernel(inputs @ inputs.T, shift)


def choose(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    biases: Sequence[float],
    shifts: Sequence[float],
    ridge: float | None,
    guess: float = 1e-2,
    kernel_of: Callable[[Matrix, float], Matrix] = limit_of,
    favourite: Choice | None = None,
) -> Choice:
    """Return the bias, shift and ridge of the least leave-one-out error, for scaled rows (n, d) and targets (n, k).

    A list of one is no choice. ``ridge=None`` is to be chosen. ``kernel_of`` returns the kernel (n, n) of lifted inputs
    and a shift: that of the limit, or of a network. A favourite among them is tried first and keeps its place
    unless another is better by a hundredth. Cost: O(n³) for each ridge of each kernel tried.
    """
    tried: list[Tried] = []
    length = typical_norm(rows, weights)

    def attempt(bias: float, shift: float) -> None:
        inputs, _ = lift_rows(rows, bias * length)
        near = best()[2] if tried else guess
        fit = fit_kernel(kernel_of(inputs, shift), targets, weights, shift=shift, ridge=ridge, guess=near)
        tried.append((bias, shift, near, math.inf) if fit is None else (bias, shift, fit.ridge, fit.error))

    def best() -> Tried:
        least = min(tried, key=lambda one: one[3])
        return tried[0] if favourite is not None and least[3] > _WORTH * tried[0][3] else least

    if favourite is not None:
        biases, shifts = _first(favourite.bias, biases), _first(favourite.shift, shifts)
    for bias in biases:
        attempt(bias, shifts[0])
    middle = best()[0]
    for shift in shifts[1:]:
        attempt(middle, shift)
    return Choice(*best(), tried)


def _first(value: float, values: Sequence[float]) -> list[float]:
    return [value, *(other for other in values if other != value)]
