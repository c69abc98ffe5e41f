"""A fit by any loss on the kernel: damped Newton steps, and every observation left out approximately.

Minimised is Σ_c w_c l(y_c, f_c) + ½ λ Σ_k αᵀ_k K α_k with f = K α + intercept + offset, over alpha (n, k) and the
intercept (k,), which costs next to nothing: a constant is added to K. λ is the ridge times the diagonal, as in ridge
regression: with :class:`~thresher.losses.Squared` this is that fit. Each step solves

    (λ + W K) δ = -(w l' + λ α),    W = diag(w l''), or for a joint loss w (diag p - p pᵀ) in each row,

by conjugate gradients. What preconditions them is the same system with a number h for each row, one Cholesky factor of
λ + √h K √h for all outputs: where W is diagonal it is the system itself, and one round solves it. The factor is made
anew when a step was too long.

An observation of weight u that is left out changes the output at its row to

    f₋ = f + G u l' / (1 - G u l''),    G = 1/h - λ (λ + √h K √h)⁻¹_ii / h the diagonal of (λ K⁻¹ + h)⁻¹.

At the minimum w l' is -λ α: that is taken for it, as it has settled long before l' has. The others are parabolas: of
the squared loss this is exact. For a joint loss l'' is a mean curvature over all directions but the constant one: that
is as exact for two classes, and within a few hundredths of the loss for more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.cholesky import LowerFactor, factor
from thresher.algebra.pivots import LowRank
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Operator
from thresher.estimators.processor import descend
from thresher.estimators.ridges import RIDGES, nearest
from thresher.losses import Loss
from thresher.parallel import blas_for_size

__all__ = ["LossFit", "ManyRowsFit", "find_ridge", "fit_loss", "fit_loss_to_many", "mean_loss", "unsettled"]

Matrix = NDArray[np.float64]
_CONSTANT = 100.0  # times the diagonal, or the penalty if that is larger: added to the kernel for the intercept
_LEAST = 1e-8  # of the largest h: the least that a row has in what preconditions
_ROUNDS = 12  # of conjugate gradients in a step
_STRIP = 32  # rows of a matrix that are filled at a time
_INNER = 0.3  # relative size of what a step leaves of its system
_LEAN = 0.25  # of the mean curvature of a joint loss towards the mean weighted with itself
_HALVES = 40  # of a step, until the objective falls
_SLOPE = 0.1  # of curvatures: slopes that are as good as none
_LITTLE = 1e-2  # of the mean loss: what a fit may leave
_FALL = 1e-4  # share of the fall that a step promises, which it must have
_FLAT = 1e-4  # relative gain of a ridge that is none
_LEAST_BEND = 1e-3  # curvature that is taken for less: targets of rows that are all but certain would be far away
_MANY_STEPS, _MANY_ROUNDS, _MANY_RESIDUAL = 20, 12, 1e-1  # steps, rounds of conjugate gradients in each, their residual
_MANY_FEW = 8  # rounds of a step from which on its preconditioner is made anew
_MANY_HALVES = 6  # of a step at the most
_LARGER, _GAIN = 10.0, 0.995  # times the ridge, and share of the error held out that it must leave
_MANY_ENOUGH = 5e-4  # fall of the mean loss in a step, below which steps end


class LossFit(NamedTuple):
    """A fit with a loss and a ridge, and what leaving observations out needs."""

    ridge: float  # relative to the diagonal of the kernel
    alpha: Matrix  # (n, k)
    intercept: Matrix  # (k,), beside the offset
    outputs: Matrix  # (n, k) at the rows, with offset and intercept
    curvature: Matrix  # (n,): h, of all observations at a row
    rest: Matrix  # (n, k): by what the mean slope at a row is not that which alpha says, as steps end early
    slack: Matrix  # (s,): at the last rows, 1 - G h
    steps: int  # Newton steps
    error: float  # weighted mean of the loss of observations at the last rows, left out

    def left_out(self, data: Observations, loss: Loss) -> Matrix:
        """Return the output (c, k) at each observation at the last rows when it is left out."""
        last = len(self.slack)
        f, h = self.outputs[-last:][data.row], self.curvature[-last:][data.row]
        unit, slack = data.unit, self.slack[data.row]
        share = np.minimum(unit * _mean_curvature(loss, f, data.target) / h, 1.0)
        rest = (1 - share) + share * slack
        slope = _slope(loss, f, data.target) - self.rest[-last:][data.row]
        return f + ((1 - slack) / h * unit / rest)[:, None] * slope


def mean_loss(loss: Loss, data: Observations, outputs: Matrix) -> float:
    """Return the weighted mean loss of outputs (c, k) at observations."""
    value = loss.value(outputs, data.target) if loss.joint else loss.value(outputs[:, 0], data.target[:, 0])
    return float(data.weight @ value / data.weight.sum())


def unsettled(
    loss: Loss, data: Observations, outputs: Matrix, alpha: Matrix, *, offset: Matrix, level: float, diagonal: float
) -> float:
    """Return how far slopes of the loss at some rows, with outputs (r, k), are from those that alpha (r, k) says.

    At the minimum w l' + λ alpha is 0. Relative to the slopes where all outputs are the offset, or to a share of the
    curvatures there if that is more. It is 0 where no step by these rows could gain anything, as with a large ridge.
    Cost: O(ck).
    """
    start = np.tile(offset, (len(data), 1))
    bend = _mean_curvature(loss, start[data.row], data.target)
    left = float(np.linalg.norm(_slopes(loss, data, outputs) + level * alpha))
    if left**2 / 2 * len(data) * diagonal / level <= _LITTLE * float(data.weight.sum()):  # by its trace
        return 0.0
    before = float(np.linalg.norm(_slopes(loss, data, start)))
    return left / max(before, _SLOPE * float(np.linalg.norm(data.weight * bend)))


def fit_loss(
    matrix: Matrix,
    data: Observations,
    loss: Loss,
    *,
    ridge: float,
    diagonal: float,
    offset: Matrix,
    last: int | None = None,
    start: tuple[Matrix, Matrix] | None = None,
    tol: float = 1e-7,
    most: int = 100,
) -> LossFit | None:
    """Return the fit of observations at n rows with this kernel (n, n); None if that is not positive.

    Parameters
    ----------
    matrix : the kernel (n, n), which is not changed
    data : its ``target`` are (c, 1), or (c, k) for a joint loss: several outputs of another loss are fits of their own
    diagonal : of the kernel, the unit of the ridge
    offset : (k,), what the outputs are where alpha is zero: the log of the odds, of the mean, or a median
    last : rows at which observations are left out, the last ones; None for all, 0 for none
    start : alpha and intercept of another fit of these rows, to begin from
    tol : steps end when the next one promises less than this for the mean loss
    most : steps at the most

    Cost: O(n³) for each factor, one for each step or fewer; O(n²k) for each round of conjugate gradients.
    """
    level, constant = ridge * diagonal, _CONSTANT * diagonal * max(ridge, 1.0)
    problem = _Problem(matrix, data, loss, level, constant)
    alpha = np.zeros((len(matrix), len(offset))) if start is None else _with_sums(start, constant)
    with blas_for_size(len(matrix)):
        found = _descend(problem, alpha, offset, tol=tol * float(data.weight.sum()), most=most)
        if found is None:
            return None
        alpha, inner, steps = found
        outputs, left = inner + offset, len(matrix) if last is None else min(last, len(matrix))
        none, intercept = np.zeros(0), constant * alpha.sum(axis=0)
        fit = LossFit(ridge, alpha, intercept, outputs, none, np.zeros_like(alpha), none, steps, math.nan)
        made = _Near.of(problem, outputs) if left else None
        if made is None:
            return None if left else fit
        slack = np.clip(level * made.factor.inverse_diagonal(left), 0.0, 1.0)
    rest = (problem.slope(outputs) + level * alpha) / data.weights[:, None]
    fit, held = fit._replace(curvature=made.roots**2, slack=slack, rest=rest), data.last(left)
    return fit._replace(error=mean_loss(loss, held, fit.left_out(held, loss)))


def _descend(
    problem: _Problem, alpha: Matrix, offset: Matrix, *, tol: float, most: int
) -> tuple[Matrix, Matrix, int] | None:
    """Return alpha (n, k) at the minimum, the outputs there without the offset, and the steps that led there.

    None if the kernel is not positive.
    """
    inner, made, steps = problem.times(alpha), None, 0
    here = problem.value(inner + offset, alpha, inner)
    while steps < most:
        steps += 1
        fresh = made is None
        made = _Near.of(problem, inner + offset) if made is None else made
        if made is None:
            return None
        # One step is always made: with a large ridge the least fall goes with slopes that nothing has met yet.
        step, moved, promise, rounds = problem.step(inner + offset, alpha, made, enough=tol if steps > 1 else 0.0)
        if not rounds:
            break
        fraction = 1.0
        for _ in range(_HALVES):
            other = problem.value(inner + fraction * moved + offset, alpha + fraction * step, inner + fraction * moved)
            if other <= here - _FALL * fraction * promise:
                alpha, inner, here = alpha + fraction * step, inner + fraction * moved, other
                break
            fraction /= 2
        else:
            if fresh:
                break
        made = made if fraction == 1.0 else None
    return alpha, inner, steps


def find_ridge(
    matrix: Matrix,
    data: Observations,
    loss: Loss,
    *,
    guess: float,
    diagonal: float,
    offset: Matrix,
    start: tuple[Matrix, Matrix] | None = None,
    tol: float = 1e-5,
    worth: Callable[[LossFit], float] = lambda fit: fit.error,
) -> LossFit | None:
    """Return the fit with the ridge that is best for observations left out, found downhill from a guess.

    ``worth`` returns what is to be small, the error unless it is given; the rest is as in :func:`fit_loss`. Each fit
    begins where the one before ended. Cost: that of three fits or more.
    """
    place, best = nearest(guess), None
    tried = dict[int, LossFit | None]()

    def attempt(at: int, begin: tuple[Matrix, Matrix] | None) -> float:
        if not 0 <= at < len(RIDGES):
            return math.inf
        if at not in tried:
            tried[at] = fit_loss(
                matrix, data, loss, ridge=RIDGES[at], diagonal=diagonal, offset=offset, start=begin, tol=tol
            )
        made = tried[at]
        found = math.inf if made is None else worth(made)
        return found if math.isfinite(found) else math.inf

    least = attempt(place, start)
    while not math.isfinite(least) and place + 1 < len(RIDGES):  # the kernel is not positive with less
        place += 1
        least = attempt(place, start)
    for towards in (1, -1):
        moved = False
        while True:
            best = tried.get(place)
            error = attempt(place + towards, None if best is None else (best.alpha, best.intercept))
            if not error < least - _FLAT * abs(least):
                break
            place, least, moved = place + towards, error, True
        if moved:
            break
    return tried.get(place)


class _Problem(NamedTuple):
    """The objective, and what it has at outputs (n, k)."""

    matrix: Matrix
    data: Observations
    loss: Loss
    level: float  # λ
    constant: float  # added to the kernel

    def times(self, vectors: Matrix) -> Matrix:
        """Return the kernel with its constant times vectors (n, k)."""
        return self.matrix @ vectors + self.constant * vectors.sum(axis=0)

    def value(self, outputs: Matrix, alpha: Matrix, inner: Matrix) -> float:
        """Return the objective; ``inner`` are the outputs without the offset."""
        data, loss, f = self.data, self.loss, outputs[self.data.row]
        each = loss.value(f, data.target) if loss.joint else loss.value(f[:, 0], data.target[:, 0])
        return float(data.weight @ each) + 0.5 * self.level * float((alpha * inner).sum())

    def slope(self, outputs: Matrix) -> Matrix:
        """Return the weighted slopes, summed over the observations of each row (n, k)."""
        return _slopes(self.loss, self.data, outputs)

    def bend(self, outputs: Matrix) -> Callable[[Matrix], Matrix]:
        """Return the product with W."""
        data, loss = self.data, self.loss
        if loss.joint:
            shares, weights = loss.link(outputs), data.weights[:, None]
            return lambda v: weights * shares * (v - (shares * v).sum(axis=1, keepdims=True))
        each = data.weight * loss.curvature(outputs[data.row, 0], data.target[:, 0])
        summed = np.bincount(data.row, each, minlength=len(outputs))[:, None]
        return lambda v: summed * v

    def roots(self, outputs: Matrix) -> Matrix:
        """Return √h (n,)."""
        data, f = self.data, outputs[self.data.row]
        each = data.weight * _mean_curvature(self.loss, f, data.target)
        summed = np.bincount(data.row, each, minlength=len(outputs))
        return np.sqrt(np.maximum(summed, _LEAST * summed.max()))

    def step(self, outputs: Matrix, alpha: Matrix, near: _Near, *, enough: float) -> tuple[Matrix, Matrix, float, int]:
        """Return a step (n, k), the kernel times it, by what the objective would fall at first, and rounds it took.

        None are taken if what preconditions them says that the objective will not fall by more than ``enough``.
        Conjugate gradients for K (λ + W K) δ = -K (w l' + λ α), of which no factor K is ever divided by.
        """
        bend, left = self.bend(outputs), -(self.slope(outputs) + self.level * alpha)
        first, step, moved = left, np.zeros_like(alpha), np.zeros_like(alpha)
        along = image = np.zeros_like(alpha)
        before = begun = 0.0
        rounds = 0
        while rounds < _ROUNDS:
            towards, its_image = near.solve(left, self.times(left), self.level)
            size = float((left * its_image).sum())
            begun = begun if rounds else size
            if not size > (_INNER**2 * begun if rounds else 2 * enough) or not math.isfinite(size):
                break
            rounds += 1
            ratio = size / before if rounds > 1 else 0.0
            along, image = towards + ratio * along, its_image + ratio * image
            product = self.level * along + bend(image)
            bent = float((image * product).sum())
            if not bent > 0:
                break
            length, before = size / bent, size
            step, moved, left = step + length * along, moved + length * image, left - length * product
        return step, moved, float((first * moved).sum()), rounds


class _Near(NamedTuple):
    """(λ + h K)⁻¹ by a factor of λ + √h K √h."""

    factor: LowerFactor
    roots: Matrix  # √h (n,)

    @classmethod
    def of(cls, problem: _Problem, outputs: Matrix) -> _Near | None:
        """Return that of the curvatures at outputs (n, k). Cost: O(n³/3)."""
        roots = problem.roots(outputs)
        matrix, some = np.empty_like(problem.matrix), roots * problem.constant
        for first in range(0, len(matrix), _STRIP):  # in the cache
            strip = slice(first, first + _STRIP)
            block = np.multiply(problem.matrix[strip], roots, out=matrix[strip])
            block += some
            block *= roots[strip, None]
        made = factor(matrix, added=problem.level, overwrite=True)
        return None if made is None else cls(made, roots)

    def solve(self, vectors: Matrix, images: Matrix, level: float) -> tuple[Matrix, Matrix]:
        """Return the inverse times vectors (n, k), and the kernel times that; ``images`` are the kernel times vectors.

        (λ + h K)⁻¹ = (1 - √h B⁻¹ √h K) / λ, and K times it is 1/√h B⁻¹ √h K, with B = λ + √h K √h.
        """
        roots = self.roots[:, None]
        inner = self.factor.solve(roots * images)
        return (vectors - roots * inner) / level, inner / roots


def _slope(loss: Loss, outputs: Matrix, targets: Matrix) -> Matrix:
    """Return the slopes (c, k) at outputs (c, k)."""
    return loss.slope(outputs, targets) if loss.joint else loss.slope(outputs[:, 0], targets[:, 0])[:, None]


def _slopes(loss: Loss, data: Observations, outputs: Matrix) -> Matrix:
    """Return the weighted slopes at outputs (n, k) of rows, summed over the observations of each (n, k)."""
    slopes = data.weight[:, None] * _slope(loss, outputs[data.row], data.target)
    return np.stack([np.bincount(data.row, one, minlength=len(outputs)) for one in slopes.T], axis=1)


def _mean_curvature(loss: Loss, outputs: Matrix, targets: Matrix) -> Matrix:
    """Return the curvature of each observation (c,): of a joint loss a mean over all directions but the constant one.

    Between the plain mean, with which rows left out seem a little worse than they are, and the one weighted with the
    curvatures themselves, with which they seem better.
    """
    if not loss.joint:
        return loss.curvature(outputs[:, 0], targets[:, 0])
    shares = loss.link(outputs)
    squares = (shares**2).sum(axis=1)
    trace = np.maximum(1 - squares, _LEAST)
    weighted = np.maximum(squares - 2 * (shares**3).sum(axis=1) + squares**2, _LEAST**2) / trace
    return np.asarray((trace / (outputs.shape[1] - 1)) ** (1 - _LEAN) * weighted**_LEAN)


def _with_sums(start: tuple[Matrix, Matrix], constant: float) -> Matrix:
    """Return an alpha (n, k) whose constant part of the outputs is the intercept that was given."""
    alpha, intercept = start
    return alpha + (intercept / constant - alpha.sum(axis=0)) / len(alpha)


class ManyRowsFit(NamedTuple):
    """A fit with a loss and a ridge to many rows, and what one without those held out says of them."""

    ridge: float
    alpha: Matrix  # (n, k)
    curvature: Matrix  # (n,): the mean over outputs, with the weights
    held: Matrix  # (h, k), outputs at the rows held out, with the offset


class _State(NamedTuple):
    alpha: Matrix  # (r, k)
    outputs: Matrix  # (n, k), also at rows beyond those that are fitted, with the offset


def fit_loss_to_many(
    matrix: Operator,
    low: LowRank,
    data: Observations,
    loss: Loss,
    *,
    kept: int,
    ridge: float,
    larger: bool,
    offset: Matrix,
    backend: Backend,
    tell: Callable[[float], object] = lambda share: None,
) -> ManyRowsFit | None:
    """Return the fit of many rows (n, d); None if nothing finite came out.

    Each Newton step is ridge regression with targets and penalties of its own, which conjugate gradients solve for all
    outputs, one product with the kernel for all; a step is halved until the objective falls. Of a joint loss a step has
    the diagonal of its curvature. Outputs have no intercept but the offset.

    Parameters
    ----------
    matrix, low : the kernel (n, n) of all rows, the first ``kept`` of which are fitted first, and a factor of low rank
    data : observations at these rows, whose own rows are not looked at
    ridge : the first one that is tried
    larger : whether larger ridges are tried while rows held out are predicted better
    offset : (k,), the outputs where alpha is zero

    Cost: O(n²) for each of some dozens of products with the kernel.
    """
    diagonal = matrix.diagonal
    rows = _ManyRows(matrix, low, data.at(np.arange(kept)), loss, offset, ridge * diagonal, backend)
    held = data.at(np.arange(kept, len(data)))

    def error(state: _State) -> float:
        found = mean_loss(loss, held, state.outputs[kept:][held.row])
        return found if math.isfinite(found) else math.inf

    best = rows.fit(rows.at(np.zeros((kept, len(offset)))), tell=lambda share: tell(0.4 * share))
    least = error(best)
    while larger and ridge * _LARGER <= RIDGES[-1]:
        other = rows._replace(level=_LARGER * ridge * diagonal)
        found = other.fit(best, tell=lambda share: tell(0.4 + 0.2 * share))
        if not error(found) < least - (1 - _GAIN) * abs(least):  # losses may be below zero
            break
        rows, best, least, ridge = other, found, error(found), _LARGER * ridge
    whole = rows._replace(data=data)
    zeros = np.zeros((len(data) - kept, len(offset)))
    begin = _State(np.concatenate([best.alpha, zeros]), best.outputs)
    last = whole.fit(begin, tell=lambda share: tell(0.6 + 0.4 * share))
    if not (np.isfinite(last.outputs).all() and math.isfinite(least)):
        return None
    return ManyRowsFit(ridge, last.alpha, whole.bend(last.outputs).mean(axis=1), best.outputs[kept:])


class _ManyRows(NamedTuple):
    """The objective of some rows, the first of a matrix."""

    matrix: Operator
    low: LowRank
    data: Observations  # at these r rows
    loss: Loss
    offset: Matrix  # (k,)
    level: float  # λ
    backend: Backend

    def value(self, state: _State) -> float:
        """Return the objective."""
        data, f = self.data, state.outputs[: len(self.data)]
        total = mean_loss(self.loss, data, f[data.row]) * float(data.weight.sum())
        return total + self.level * float((state.alpha * (f - self.offset)).sum()) / 2

    def bend(self, outputs: Matrix) -> Matrix:
        """Return the curvatures (r, k), with the weights."""
        data = self.data
        if self.loss.joint:
            shares = self.loss.link(outputs)
            classes = outputs.shape[1]
            found = shares * (1 - shares) * classes / (classes - 1)  # of two classes that of their difference
            return data.weights[:, None] * np.maximum(found, _LEAST_BEND)
        each = np.maximum(self.loss.curvature(outputs[data.row, 0], data.target[:, 0]), _LEAST_BEND)
        summed: Matrix = np.bincount(data.row, data.weight * each, minlength=len(outputs)).astype(np.float64)
        return summed[:, None]

    def at(self, alpha: Matrix) -> _State:
        """Return the outputs that coefficients have. Cost: O(n²)."""
        outputs = self.backend.get(self.matrix.times(self.backend.put(alpha))).astype(np.float64)
        return _State(alpha, outputs + self.offset)

    def inverse(self, state: _State) -> Callable[[Any], Any]:
        """Return what preconditions steps from here. Cost: O(nr²)."""
        added = self.level / self.bend(state.outputs[: len(self.data)])
        return self.backend.inverse(self.low, np.exp(np.log(added).mean(axis=1)))

    def stepped(self, state: _State, inverse: Callable[[Any], Any]) -> tuple[_State, int]:
        """Return where a Newton step leads, and the rounds it took. Cost: O(n²) for each."""
        f = state.outputs[: len(self.data)]
        bend = self.bend(f)
        added = self.level / bend
        wanted = f - self.offset - _slopes(self.loss, self.data, f) / bend
        steps = descend(
            self.backend,
            self.matrix.times,
            wanted,
            added=added,
            inverse=inverse,
            start=state.alpha,
        )
        while steps.steps < _MANY_ROUNDS:
            steps.step()
            if float(np.max(self.backend.get(steps.residuals))) <= _MANY_RESIDUAL:
                break
        return _State(self.backend.get(steps.values), self.backend.get(steps.images) + self.offset), steps.steps

    def fit(self, state: _State, *, tell: Callable[[float], object]) -> _State:
        """Return the fit, from another on."""
        here, total, rounds = self.value(state), float(self.data.weight.sum()), _MANY_FEW
        for number in range(_MANY_STEPS):
            if number == 1 or rounds >= _MANY_FEW:  # curvatures at the start are all alike
                inverse = self.inverse(state)
            (goal, rounds), fraction, gained = self.stepped(state, inverse), 1.0, 0.0
            tell((number + 1) / _MANY_STEPS)
            for _ in range(_MANY_HALVES):
                tried = _State(*(a + fraction * (b - a) for a, b in zip(state, goal, strict=True)))
                value = self.value(tried)
                if value < here:
                    gained, here, state = here - value, value, tried
                    break
                fraction /= 2
            if gained <= _MANY_ENOUGH * total:
                break
        return state
