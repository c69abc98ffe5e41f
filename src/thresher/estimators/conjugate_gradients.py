"""Ridge regression on the kernel of many rows by conjugate gradients, for several ridges at once.

Exact leave-one-out costs O(n³). With thousands of rows some are held out instead: the fit to the others predicts them
at no extra cost, as they are further rows of the matrix in every product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Operator
from thresher.estimators.processor import descend
from thresher.estimators.ridges import best_ridge

__all__ = ["Solved", "Stop", "refine", "search_ridges", "share_that_remains", "solve_ridges"]

Matrix = NDArray[np.float64]
Single = NDArray[np.float32]
_WORSE, _WHILE = 1.003, 3  # a ridge is given up when its error was so many times another's for so many steps
_LOST = 100.0  # times the least residual: conjugate gradients go up by much less before they go down again
_STEEPEST = 2.0  # power of the number of rows by which errors are believed to fall
_ARRIVED = 2e-2  # relative residual from which on errors hardly change


class Stop(NamedTuple):
    """When conjugate gradients have done enough."""

    steps: int = 60  # at the most
    residual: float = 1e-3  # relative, of all columns
    patience: int = 6  # steps without a gain in the error on rows left out
    gain: float = 1e-3  # what counts as one
    each: bool = False  # whether each ridge stops at the residual, rather than all when the last one is there


class Solved(NamedTuple):
    """The best ridge, its coefficients, and what they do on rows left out."""

    ridge: float
    alpha: Matrix  # (n, k)
    outputs: Matrix  # (h, k), on the rows left out
    error: float
    residual: float  # relative, where it stopped
    steps: int


def solve_ridges(
    matrix: Operator,
    low: LowRank,
    data: Observations,
    *,
    backend: Backend,
    ridges: Sequence[float],
    error_of: Callable[[Matrix], float],
    stop: Stop,
    start: Matrix | None = None,
    done: int = 0,
    tell: Callable[[float], object] = lambda share: None,
) -> Solved | None:
    """Return the best of some ridges for observations at the first rows of a matrix; those after them are left out.

    ``start`` is a solution (n, k) for all ridges, or one for each beside the other. ``error_of`` returns the error of
    outputs (h, k) on the rows left out. Every ridge takes part in every
    product. It stops when no ridge has gained for some steps. ``tell`` is called with the share of the steps that are
    done at the most; ``done`` steps led to the start. None if nothing finite came out.

    Cost: O(n²) per step for each ridge and output, and O(nr²) for a preconditioner from a factor of rank r.
    """
    n, outputs = data.targets.shape
    ridges = sorted(ridges)
    alive = list(range(len(ridges)))  # places in ridges
    middle = ridges[len(ridges) // 2] * matrix.diagonal  # near enough to all: most of the diagonal is the factor's rest
    added = np.concatenate([np.outer(ridge * matrix.diagonal / data.weights, np.ones(outputs)) for ridge in ridges], 1)
    descent = descend(
        backend,
        matrix.times,
        np.tile(data.targets, len(ridges)),
        added=added,
        inverse=backend.inverse(low, middle / data.weights),
        start=start if start is None or start.shape == added.shape else np.tile(start, len(ridges)),
    )
    best: Solved | None = None
    gained, behind, least = 0, dict.fromkeys(alive, 0), math.inf  # the least error of ridges that have arrived
    while descent.steps < stop.steps and descent.steps - gained < stop.patience:
        descent.step()
        tell(descent.steps / stop.steps)
        held = np.split(backend.get(descent.images[n:]), len(alive), axis=1)  # outputs on the rows left out
        residuals = backend.get(descent.residuals).reshape(len(alive), -1)
        errors = [error_of(one) for one in held]
        here = int(np.argmin(errors))
        if math.isfinite(errors[here]) and (best is None or errors[here] < best.error):
            if best is None or errors[here] < (1 - stop.gain) * best.error:
                gained = descent.steps
            alpha = backend.get(descent.values[:, here * outputs : (here + 1) * outputs])
            residual = float(residuals[here].max())
            best = Solved(
                ridges[alive[here]], alpha.copy(), held[here].copy(), errors[here], residual, done + descent.steps
            )
        if residuals.max() <= stop.residual or not np.isfinite(errors).all():
            break
        for at, place in enumerate(alive):
            # First steps say nothing: the preconditioner is that of another ridge. It must have arrived itself.
            worse = residuals[at].max() < _ARRIVED and errors[at] > _WORSE * min(least, *errors)
            behind[place] = behind[place] + 1 if worse else 0
        arrived = stop.each & (residuals.max(axis=1) <= stop.residual)
        least = min([least, *np.array(errors)[arrived]])
        stay = [behind[place] < _WHILE and not there for place, there in zip(alive, arrived, strict=True)]
        if not any(stay):
            break
        if not all(stay):
            descent.keep(np.flatnonzero(np.repeat(stay, outputs)).tolist())
            alive = [place for place, one in zip(alive, stay, strict=True) if one]
    return best


def search_ridges(solve: Callable[[list[float], Solved | None], Solved | None], ridges: list[float]) -> Solved | None:
    """Return the best of some ridges; if that is at an end of them, the search goes on beyond it.

    ``solve`` returns the best of some ridges, from a solution on. A larger ridge starts from nothing: steps from a
    solution that follows noise, which lead away from it, would be taken for errors of that ridge.
    """
    best = solve(ridges, None)
    errors = dict.fromkeys(ridges, math.inf)
    if best is not None:
        errors[best.ridge] = best.error

    def attempt(ridge: float) -> float:
        nonlocal best
        found = solve([ridge], best if best is not None and ridge < best.ridge else None)
        if found is None:
            return math.inf
        best = found if best is None or found.error < best.error else best
        return found.error

    best_ridge(errors, attempt)
    return best


def refine(
    matrix: Operator,
    low: LowRank,
    data: Observations,
    *,
    backend: Backend,
    ridge: float,
    residual: float,
    steps: int,
    start: Matrix,
    tell: Callable[[float], object] = lambda share: None,
) -> tuple[Matrix, float]:
    """Return the solution (n, k) for all rows of a matrix, from a start (n, k) on, and its relative residual.

    It stops at a relative residual, or after some steps. In single precision the matrix of rows that are all but equal
    has eigenvalues below zero, down to about -1e-4 of its diagonal. With a smaller ridge the system is then not
    positive, and after some steps residuals grow without bound: what is returned is the solution of the least residual,
    the start if no step has a lower one.
    """
    level = ridge * matrix.diagonal
    descent = descend(
        backend,
        matrix.times,
        data.targets,
        added=np.outer(level / data.weights, np.ones(start.shape[1])),
        inverse=backend.inverse(low, level / data.weights),
        start=start,
    )
    best, values = float(descent.residuals.max()), descent.values
    while descent.steps < steps and best > residual:
        descent.step()
        tell(descent.steps / steps)
        now = float(descent.residuals.max())
        if now < best:
            best, values = now, descent.values
        elif not now < _LOST * best:  # nothing comes back from there, nor from what is not a number
            break
    return backend.get(values), best


def share_that_remains(before: float, after: float, *, few: int, kept: int, whole: int) -> float:
    """Return the share of a squared error that remains when all rows are fitted instead of those kept.

    From few rows to those kept it fell from ``before`` to ``after``, as a power of their number, and goes on to do so.
    """
    if kept <= few or not 0 < after < before:
        return 1.0
    power = math.log(before / after) / math.log(kept / few)
    return float((kept / whole) ** min(power, _STEEPEST))
