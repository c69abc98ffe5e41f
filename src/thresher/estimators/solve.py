"""The solve: ridge regression on a chosen kernel, by the way that suits the number of rows.

- Up to 4,096 rows by a Cholesky factor, with exact leave-one-out.
- Beyond, as far as a coefficient for each row is bearable, by conjugate gradients; some rows are held out while the
  ridge is chosen, and fitted in the end.
- Beyond that on centres, or by exact fits in the leaves of a tree; rows held out decide, and stay so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.errors import InvalidInput
from thresher.estimators.centres import Centres, fit_centres
from thresher.estimators.conjugate_gradients import Solved, Stop, refine, search_ridges, solve_ridges
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.streams import Stream
from thresher.estimators.interfaces import Backend, Operator
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import fit_kernel, mean_square
from thresher.estimators.leaves import Leaves, LeavesFit, fit_leaves
from thresher.estimators.settings import Sizes
from thresher.estimators.variance import Variance

__all__ = ["LeftOut", "ManyRows", "Solution", "choose_way", "solve_beyond", "solve_by_gradients", "solve_directly"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_CLEARLY = 0.98  # share of the error of centres that an exact fit must leave
_ROOM = 0.8  # share of the free memory that the kernel may take
_BESIDE = 0.2  # share of the error on rows left out that a solve may leave
_SOLVED = 1.5  # times the residual that is asked for, which a solve may leave
_MORE_STEPS = 120  # that a solve takes at most where the usual number was not enough


class LeftOut(NamedTuple):
    """Observations that were left out, and what was predicted for them."""

    data: Observations
    outputs: Matrix  # (c, k)
    variances: Callable[[], Matrix]  # (c,): of the limit at each, when it is left out
    # Squared errors of new rows, as a multiple of those left out: above 1 where features were learnt on what was left
    # out, below 1 where many rows that were left out are fitted in the end.
    optimism: float = 1.0


class Solution(NamedTuple):
    """A kernel fitted to inputs, and what it predicted for observations that were left out before."""

    inputs: NDArray[Any]  # (n, d), lifted
    alpha: Matrix  # (n, k)
    penalty: Matrix  # (n,): what the ridge adds to the diagonal
    ridge: float
    error: float  # weighted mean of squares of observations left out, summed over outputs
    left_out: LeftOut
    pivots: Single | None = None  # (r, d): inputs that error bars are made of, None for all
    core: Matrix | None = None  # (r, r), see Variance
    way: str = "exact"  # or "centres", "leaves"
    errors: dict[str, float] = {}  # of the ways that were tried, on observations left out  # noqa: RUF012
    leaves: Leaves | None = None  # whose rows and coefficients these are
    residual: float = 0.0  # relative, at which the solve for all rows was to stop


class ManyRows(NamedTuple):
    """Many rows to fit, those that are held out to judge by, and with what they are fitted."""

    data: Observations
    kept: Numbers  # of the rows to fit, in random order
    held: Numbers  # of those that are held out
    kernel: SphereKernel
    ridges: list[float]  # to choose from
    backend: Backend
    sizes: Sizes


def solve_directly(
    data: Observations,
    kernel: SphereKernel,
    *,
    ridge: float | None,
    guess: float,
    most: int,
    backend: Backend,
    tell: Callable[[int], object] = lambda tried: None,
) -> Solution:
    """Return the fit of few rows (n, r) by a Cholesky factor, with the ridge that leaving out ``most`` rows prefers.

    Cost: O(n³), and O(r³) for each ridge tried, on r = min(n, most) rows.
    """
    inputs = kernel.lift(data.X, data.weights).inputs
    matrix = backend.dense(kernel, inputs)
    fit = fit_kernel(matrix, data, diagonal=kernel.diagonal, last=most, ridge=ridge, guess=guess, tell=tell)
    if fit is None:
        said = "'auto'" if ridge is None else f"{ridge:g}"
        raise InvalidInput(f"the kernel of these rows is not positive with ridge={said}. Use a larger ridge.")
    held = data.last(most)
    seen = LeftOut(held, fit.left_out(held), lambda: np.maximum(fit.left_out_variance(held), 0.0))
    return Solution(inputs, fit.alpha, kernel.penalty(fit.ridge, data.weights), fit.ridge, fit.error, seen)


def solve_by_gradients(inputs: Single, given: ManyRows, *, tell: Callable[[float], object]) -> Solution:
    """Return the fit to all inputs (n, d) with the ridge that is best when some rows are left out.

    The fit to all rows goes on from that to the rows that were kept, to the same relative residual, or to one that is
    small beside the error on rows left out: after few steps these may be best by chance, and what was asked for is the
    solution.

    Cost: O(n²) per step and output, some twenty steps, O(n²d) for the kernel, again and again for what does not fit.
    """
    data, order, backend = given.data, np.concatenate([given.kept, given.held]), given.backend
    held_data, outputs = data.at(given.held), data.targets.shape[1]
    rank = min(given.sizes.rank, len(order) // 8)
    room = _ROOM * backend.spare() - len(order) * (4 * rank + 128 * outputs * (len(given.ridges) + 1))
    matrix = backend.operator(given.kernel, inputs[order], memory=max(room, 0.0))
    low = backend.pivots(matrix, rank=rank)
    if outputs > given.sizes.ridge_outputs and len(given.ridges) > 1:  # each ridge costs as much as all outputs
        some = given._replace(data=data.mixed(given.sizes.ridge_outputs))
        rough = _fit_kept(matrix, low, some, some.data.at(given.held), lambda share: tell(0.5 * share))
        given = given if rough is None else given._replace(ridges=[rough.ridge])
    solved = _fit_kept(matrix, low, given, held_data, tell)
    if solved is None:
        raise InvalidInput("the kernel of these rows is not positive. Use a larger ridge.")
    guess = mean_square(data, np.zeros_like(data.target)) or 1.0
    error = math.sqrt(mean_square(held_data, solved.outputs[held_data.row]) / guess)
    wanted = min(solved.residual, max(_BESIDE * min(error, 1.0), Stop().residual))
    final = _fit_all(matrix, low, data.at(order), solved, wanted, backend, tell)
    alpha = np.empty_like(final.alpha)
    alpha[order] = final.alpha
    penalty, kept, held = given.kernel.penalty(solved.ridge, data.weights), given.kept, given.held
    about = Variance.of_pivots(matrix.inputs[low.pivots[: given.sizes.pivots]], given.kernel, backend=backend)
    before = about.with_rows(inputs[kept], penalty[kept])
    core = before.with_rows(inputs[held], penalty[held]).core
    seen = LeftOut(held_data, solved.outputs[held_data.row], lambda: before.at(inputs[held])[held_data.row])
    return Solution(
        inputs,
        alpha,
        penalty,
        solved.ridge,
        solved.error,
        seen,
        about.pivots,
        core,
        residual=max(wanted, final.residual),
    )


def _fit_kept(
    matrix: Operator, low: LowRank, given: ManyRows, held_data: Observations, tell: Callable[[float], object]
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
    backend: Backend,
    tell: Callable[[float], object],
) -> Solved:
    """Return the solution for all rows, from that for some.

    ``wanted`` is the relative residual at which it stops. As many steps are made as were best with some rows left out.
    Rows that are far from all that the others say, such as a target of a thousand deviations, may need more.
    """
    zeros = np.zeros((len(whole) - len(solved.alpha), solved.alpha.shape[1]))
    alpha, residual = np.concatenate([solved.alpha, zeros]), np.inf
    for steps in (solved.steps, _MORE_STEPS):
        alpha, residual = refine(
            matrix,
            low,
            whole,
            backend=backend,
            ridge=solved.ridge,
            residual=wanted,
            steps=steps,
            start=alpha,
            tell=lambda share: tell(0.7 + 0.3 * share),
        )
        if residual <= _SOLVED * wanted:
            break
    return solved._replace(alpha=alpha, residual=residual)


def choose_way(
    some: Observations,
    kernel: SphereKernel,
    ridge: float,
    *,
    rows: int,
    approximation: str,
    backend: Backend,
    sizes: Sizes,
) -> tuple[str, dict[str, float]]:
    """Return how all rows are fitted, and the errors of fits to some rows (s, r) that this was decided by.

    From some number of rows on an exact fit costs several times as much as others. It is made if it is clearly better
    than half as many centres on some of the rows; more rows make it better still. Cost: O(s³).
    """
    if approximation != "auto":
        return approximation, {}
    if rows > sizes.exact:
        return "auto", {}
    if rows <= sizes.exact_cheap or not backend.exact_is_costly:
        return "exact", {}
    held, kept = np.split(np.arange(len(some)), [len(some) // 5])
    fitted, left = some.at(kept), some.at(held)
    inputs, _, last = kernel.lift(fitted.X, fitted.weights)
    others = kernel.lift(left.X, last=last).inputs
    alpha = backend.dense(kernel, inputs).solve(kernel.penalty(ridge, fitted.weights), fitted.targets)
    made = fit_centres(
        np.concatenate([others, inputs]).astype(np.float32),
        np.concatenate([left.targets, fitted.targets]),
        np.concatenate([left.weights, fitted.weights]),
        kept=kept,
        held=held,
        kernel=kernel,
        ridges=[ridge],
        centres=len(kept) // 8,
        sample=sizes.sample,
        backend=backend,
    )
    exact = math.inf
    if alpha is not None:
        exact = mean_square(left, backend.product(kernel, others, inputs, alpha, double=True)[left.row])
    errors = {"exact": exact, "centres": mean_square(left, made.held_outputs[left.row])}
    way = "exact" if exact < _CLEARLY * errors["centres"] else "auto"
    return way, {f"{name} on {len(kept):,} rows": error for name, error in errors.items()}


def solve_beyond(
    inputs: Stream,
    rows: Callable[[], Matrix] | None,
    given: ManyRows,
    *,
    way: str,
    tell: Callable[[float], object],
) -> Solution:
    """Return the fit on centres or in leaves, or the better of both with ``way="auto"``.

    ``inputs`` (n, r + 1) are lifted rows. For leaves ``rows`` returns them before they are lifted, (n, r), those to fit
    and then those held out; None for no leaves. Rows held out stay so. Leaves are given up if the first of them are no
    better than a few centres; where they win, more centres are not tried.

    Cost: O(n) times the centres, or the rows of a leaf, for each step of conjugate gradients.
    """
    sizes, tried = given.sizes, dict[str, Solution]()

    def centres(number: int, first: float, last: float) -> tuple[Solution, Matrix]:
        made = fit_centres(
            inputs,
            given.data.targets,
            given.data.weights,
            kept=given.kept,
            held=given.held,
            kernel=given.kernel,
            ridges=given.ridges,
            centres=number,
            sample=sizes.sample,
            backend=given.backend,
            tell=lambda share: tell(first + (last - first) * share),
        )
        return _judged(made, given, "centres"), made.held_outputs

    rival = None
    if way != "leaves":
        tried["centres"], rival = centres(sizes.centres, 0.0, 0.2)
    if way != "centres" and rows is not None:
        order = np.concatenate([given.kept, given.held])
        made = fit_leaves(
            rows(),
            given.data.targets[order],
            given.data.weights[order],
            held=len(given.held),
            kernel=given.kernel._replace(metric=None),
            ridges=given.ridges,
            size=sizes.leaf,
            enough=sizes.leaves_judged,
            rival=rival,
            backend=given.backend,
            tell=lambda share: tell(0.2 + 0.4 * share),
        )
        tried |= {} if made is None else {"leaves": _judged(made, given, "leaves")._replace(leaves=made.leaves)}
    errors = {name: fit.error for name, fit in tried.items() if math.isfinite(fit.error)}
    if not errors:
        raise InvalidInput("no fit gave finite predictions. Use a larger ridge.")
    best = tried[min(errors, key=lambda name: errors[name])]
    if best.way == "centres":
        more, _ = centres(sizes.more_centres, 0.6, 1.0)
        best = more if more.error < best.error else best
        errors[f"{sizes.more_centres} centres"] = best.error
    return _with_variance(best, inputs, given)._replace(errors=errors)


def _judged(made: Centres | LeavesFit, given: ManyRows, way: str) -> Solution:
    """Return what was fitted with its error on rows held out; variances and a penalty come at the end."""
    held_data = given.data.at(given.held)
    outputs = made.held_outputs[held_data.row]
    error, seen = mean_square(held_data, outputs), LeftOut(held_data, outputs, lambda: np.zeros(0))
    return Solution(made.inputs, made.alpha, np.zeros(0), made.ridge, error, seen, way=way)


def _with_variance(fit: Solution, inputs: Stream, given: ManyRows) -> Solution:
    """Return the fit with what error bars are made of: pivots, and what some of the rows say of their span."""
    sizes, backend, weights = given.sizes, given.backend, given.data.weights
    some = given.kept[: sizes.known]
    known_rows = inputs.take(some)
    few = known_rows[: 16 * sizes.pivots]
    low = backend.pivots(backend.operator(given.kernel, few, memory=0.0), rank=sizes.pivots)
    share = weights[some].sum() / weights[given.kept].sum()  # the rows stand for all
    penalty = share * given.kernel.penalty(fit.ridge, weights[some])
    known = Variance.of_pivots(few[low.pivots], given.kernel, backend=backend).with_rows(known_rows, penalty)
    variances = known.at(inputs.take(given.held))[fit.left_out.data.row]
    return fit._replace(
        penalty=given.kernel.penalty(fit.ridge, np.ones(len(fit.inputs))),
        pivots=few[low.pivots],
        core=known.core,
        left_out=fit.left_out._replace(variances=lambda: variances),
    )
