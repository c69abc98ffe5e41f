"""The limit fitted to all rows by conjugate gradients: no n x n factor, half of the kernel, as much of it as fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank, random_pivots
from thresher.errors import InvalidInput
from thresher.estimators.choose import Judge
from thresher.estimators.deviations import Variance
from thresher.estimators.fitting import LeftOut
from thresher.estimators.holdout import Solved, Stop, refine, solve_ridges
from thresher.estimators.journal import Journal
from thresher.estimators.observations import Observations
from thresher.memory import available_bytes
from thresher.theory.limit_matrix import LimitMatrix

__all__ = ["RANK", "LimitFit", "fit_exact"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
RANK = 2048  # of the preconditioner, at the most
_PIVOTS = 512  # of error bars
_ROOM = 0.8  # share of the free memory that the kernel may take


class LimitFit(NamedTuple):
    """The limit fitted to inputs, and what it predicted for observations that were left out before."""

    inputs: NDArray[Any]  # (n, d)
    alpha: Matrix  # (n, k)
    ridge: float
    error: float  # on observations left out
    left_out: LeftOut
    pivots: Numbers  # (r,)
    core: Matrix | None  # (r, r), see Variance


def fit_exact(
    inputs: Single,
    data: Observations,
    *,
    kept: Numbers,
    held: Numbers,
    shift: float,
    ridges: Sequence[float],
    judge: Judge,
    threads: int,
    journal: Journal,
    tell: Callable[[float], object],
) -> LimitFit:
    """Return the fit to all inputs (n, d) with the ridge that is best when the rows ``held`` are left out.

    The fit to all rows goes on from that to the rows ``kept``, to the same relative residual.

    Cost: O(n²) per step and output, some twenty steps, O(n²d) for the kernel, again and again for what does not fit.
    """
    order = np.concatenate([kept, held])
    first, left, whole = (data.at(some) for some in (kept, held, order))
    rank, outputs = min(RANK, len(order) // 8), data.targets.shape[1]
    room = _ROOM * available_bytes() - len(order) * (4 * rank + 128 * outputs * (len(ridges) + 1))
    matrix = LimitMatrix(inputs[order], shift, memory=max(room, 0.0), threads=threads)
    low = random_pivots(np.full(len(order), matrix.diagonal), matrix.columns, rank=rank)

    def begin(begun: Solved | None) -> Solved | None:
        return solve_ridges(
            matrix,
            low,
            first,
            ridges=ridges,
            judge=lambda outputs: judge(left, outputs[left.row]),
            stop=Stop(),
            start=None if begun is None else begun.alpha,
            tell=lambda share: tell(0.7 * share),
            save=journal.save,
        )

    solved = journal.step(begin)
    if solved is None:
        raise InvalidInput(f"the kernel of these rows is not positive with shift={shift:g}. Use a larger ridge.")

    def go_on(begun: Solved | None) -> Solved:
        zeros = np.zeros((len(held), outputs))
        alpha = refine(
            matrix,
            low,
            whole,
            ridge=solved.ridge,
            residual=solved.residual,
            steps=solved.steps,
            start=np.concatenate([solved.alpha, zeros]) if begun is None else begun.alpha,
            tell=lambda share: tell(0.7 + 0.3 * share),
            save=lambda alpha: journal.save(solved._replace(alpha=alpha)),
        )
        return solved._replace(alpha=alpha)

    final = journal.step(go_on)
    assert final is not None
    alpha = np.empty_like(final.alpha)
    alpha[order] = final.alpha
    before, core = _describe(
        inputs, data, order, low, level=solved.ridge * matrix.diagonal, shift=shift, held=len(held)
    )
    return LimitFit(
        inputs,
        alpha,
        solved.ridge,
        solved.error,
        LeftOut(left, solved.outputs[left.row], lambda: before.at(inputs[held])[left.row], 1.0),
        order[low.pivots[:_PIVOTS]],
        core,
    )


def _describe(
    inputs: Single, data: Observations, order: Numbers, low: LowRank, *, level: float, shift: float, held: int
) -> tuple[Variance, Matrix | None]:
    """Return what is known without the last ``held`` rows of an order, and the core of what is known with them."""
    kept, left = np.split(order, [len(order) - held])
    about = Variance.of_pivots(inputs[order[low.pivots[:_PIVOTS]]], shift)
    before = about.with_rows(inputs[kept], level / data.weights[kept])
    return before, before.with_rows(inputs[left], level / data.weights[left]).core
