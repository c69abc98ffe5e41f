"""The limit fitted to all rows by conjugate gradients: no n x n factor, half of the kernel, as much of it as fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Operator
from thresher.estimators.judging.holdout import Solved, Stop, refine, search_ridges, solve_ridges
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.models.fit_check import SOLVED
from thresher.estimators.models.fitted import LeftOut, LimitFit, RowsToFit
from thresher.estimators.models.variance import Variance

__all__ = ["fit_exact"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_ROOM = 0.8  # share of the free memory that the kernel may take
_BESIDE = 0.2  # share of the error on rows left out that a solve may leave
_CAREFUL, _STEPS, _TIMES = 1e-2, 120, 4  # with more care: residual at most, steps, and how often they begin anew


def fit_exact(inputs: Single, given: RowsToFit, *, tell: Callable[[float], object]) -> LimitFit:
    """Return the fit to all inputs (n, d) with the ridge that is best when some rows are left out.

    The fit to all rows goes on from that to the rows that were kept, to the same relative residual, or to one that is
    small beside the error on rows left out: after few steps these may be best by chance, and what was asked for is the
    solution. With more care it begins at zero instead, takes more steps, and begins anew from where these have led,
    with a residual that is computed, not updated.

    Cost: O(n²) per step and output, some twenty steps, O(n²d) for the kernel, again and again for what does not fit.
    """
    data, order, backend = given.data, np.concatenate([given.kept, given.held]), given.backend
    held_data, outputs = data.at(given.held), data.targets.shape[1]
    rank = min(given.sizes.rank, len(order) // 8)
    room = _ROOM * backend.spare() - len(order) * (4 * rank + 128 * outputs * (len(given.ridges) + 1))
    matrix = backend.operator(given.kernel, inputs[order], memory=max(room, 0.0))
    low = backend.pivots(matrix, rank=rank)
    solved = _fit_kept(matrix, low, given, held_data, tell)
    if solved is None:
        raise InvalidInput("the kernel of these rows is not positive. Use a larger ridge, or a smaller shift.")
    guess = mean_square(data, np.zeros_like(data.target)) or 1.0
    error = math.sqrt(mean_square(held_data, solved.outputs[held_data.row]) / guess)
    wanted = min(solved.residual, max(_BESIDE * min(error, 1.0), Stop().residual))
    wanted = min(wanted, _CAREFUL) if given.careful else wanted
    final = _fit_all(matrix, low, data.at(order), solved, wanted, given, tell)
    alpha = np.empty_like(final.alpha)
    alpha[order] = final.alpha
    penalty, kept, held = given.kernel.penalty(solved.ridge, data.weights), given.kept, given.held
    about = Variance.of_pivots(matrix.inputs[low.pivots[: given.sizes.pivots]], given.kernel, backend=backend)
    before = about.with_rows(inputs[kept], penalty[kept])
    core = before.with_rows(inputs[held], penalty[held]).core
    seen = LeftOut(held_data, solved.outputs[held_data.row], lambda: before.at(inputs[held])[held_data.row])
    return LimitFit(inputs, alpha, penalty, solved.ridge, solved.error, seen, about.pivots, core, residual=wanted)


def _fit_kept(
    matrix: Operator,
    low: LowRank,
    given: RowsToFit,
    held_data: Observations,
    tell: Callable[[float], object],
) -> Solved | None:
    """Return the solution for the rows that are kept, with the ridge that is best for those left out."""

    def solve(ridges: list[float], start: Solved | None) -> Solved | None:
        done = 0.6 if len(ridges) < len(given.ridges) else 0.0
        return solve_ridges(
            matrix,
            low,
            given.data.at(given.kept),
            backend=given.backend,
            ridges=ridges,
            error_of=lambda outputs: mean_square(held_data, outputs[held_data.row]),
            stop=Stop(),
            start=None if start is None else start.alpha,
            done=0 if start is None else start.steps,
            tell=lambda share: tell(done + 0.6 * (1 - done) * share),
        )

    return search_ridges(solve, given.ridges)


def _fit_all(
    matrix: Operator,
    low: LowRank,
    whole: Observations,
    solved: Solved,
    wanted: float,
    given: RowsToFit,
    tell: Callable[[float], object],
) -> Solved:
    """Return the solution for all rows, from that for some; with care from zero on.

    ``wanted`` is the relative residual at which it stops. As many steps are made as were best with some rows left out.
    Rows that are far from all that the others say, such as a target of a thousand deviations, may need more.
    """
    solve = partial(refine, matrix, low, whole, backend=given.backend, ridge=solved.ridge)
    if given.careful:
        return _solve_anew(solve, solved, wanted, np.zeros((len(whole), solved.alpha.shape[1])), tell)
    zeros = np.zeros((len(whole) - len(solved.alpha), solved.alpha.shape[1]))
    alpha, residual = np.concatenate([solved.alpha, zeros]), np.inf
    for steps in (solved.steps, _STEPS):
        alpha, residual = solve(
            residual=wanted,
            steps=steps,
            start=alpha,
            tell=lambda share: tell(0.7 + 0.3 * share),
        )
        if residual <= SOLVED * wanted:
            break
    return solved._replace(alpha=alpha, residual=residual)


def _solve_anew(
    solve: Callable[..., tuple[Matrix, float]],
    solved: Solved,
    wanted: float,
    alpha: Matrix,
    tell: Callable[[float], object],
) -> Solved:
    """Return the solution for all rows from a start (n, k) on, with more care, see :func:`fit_exact`."""
    residual = np.inf
    for done in range(_TIMES):
        alpha, residual = solve(residual=wanted, steps=_STEPS, start=alpha)
        tell(0.7 + 0.3 * (done + 1) / _TIMES)
        if residual <= wanted:
            break
    return solved._replace(alpha=alpha, residual=residual)
