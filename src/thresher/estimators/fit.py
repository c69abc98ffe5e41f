"""The fit of a table: one straight line from observations to a fitted model.

    categories -> scale -> bias -> metric -> parts of the kernel -> ridge and solve -> one check

Everything is chosen on at most 4,096 rows, whatever their number; only the solve (``solve.py``) depends on that.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.choose import FIRST_RIDGE, BiasChoice, Choice, Choices, choose_bias, choose_indicators
from thresher.estimators.conjugate_gradients import share_that_remains
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import SCALE, Scaling
from thresher.estimators.data.single_columns import Angles, Indicators
from thresher.estimators.data.streams import Stream, norm_of_blocks
from thresher.estimators.gradients import fit_outer_products
from thresher.estimators.kernel import SphereKernel, basis_of
from thresher.estimators.leave_one_out import fit_kernel, mean_square
from thresher.estimators.memory import require_memory
from thresher.estimators.metric import LearntMetric, learn_metric
from thresher.estimators.model import KernelModel
from thresher.estimators.progress import Progress
from thresher.estimators.ridges import ridges_near
from thresher.estimators.settings import Settings
from thresher.estimators.solve import (
    LeftOut,
    ManyRows,
    Solution,
    choose_way,
    solve_beyond,
    solve_by_gradients,
    solve_directly,
)
from thresher.parallel import blas_for_size
from thresher.tables.rows_on_disk import BLOCK
from thresher.theory import Parts, Shares

__all__ = ["Fit", "fit_table"]

Matrix = NDArray[np.float64]
_COLUMNS = 128  # that are seen one by one at most, unless parts were asked for
_SOLVED = 1.5  # times the residual that a solve says it left, which may all be at the rows asked about
_ROUNDING = 0.05  # share of the targets that the rounding of answers may be
_AGREE = 0.1  # share of the error of rows left out by which answers may miss the outputs they had then
_NOTHING = 1e-6  # distance that is none; targets have a deviation of about 1
_NO_FIT, _WORSE = (
    0.4,
    2.0,
)  # typical errors of a fit that failed, in deviations of the targets, and in those of few rows


class Fit(NamedTuple):
    """A fitted model, and all that is known of it."""

    model: KernelModel
    data: Observations  # all that were fitted, at their lifted inputs where they are few, else at raw rows
    left_out: LeftOut
    raw: Matrix  # (s, d), the rows of what was left out
    error: float  # weighted mean of squares of observations left out, summed over outputs
    rounds: int  # of the metric
    importances: Matrix  # (d,)
    choices: Choices


def fit_table(data: Observations, settings: Settings, progress: Progress) -> Fit:
    """Return the fit of observations at raw rows. Cost: see :class:`ThresherRegressor`."""
    require_memory(data, settings)
    progress.plan(_costs(data, settings))
    progress.begin("choosing columns")
    with settings.backend.session(), blas_for_size(0 if len(data) > settings.sizes.chosen_on else len(data)):
        indicators, tried = choose_indicators(data, settings)
        choices = [Choice("whole numbers", tried, _say_columns(indicators))] if tried else []
        given = data
        if indicators is not None:
            data = data.with_rows(indicators.apply(data.X))
            settings = settings._replace(groups=indicators.groups(settings.groups))
        chosen = _choose(data, settings, progress)
        progress.begin("fitting all rows")
        few = len(data) <= settings.sizes.chosen_on
        solve = _solve_few if few else _solve_many
        solution, last, raw, promised = solve(data, chosen, settings, progress)
        lift = chosen.lift(last, indicators)
        model = KernelModel.of(lift, chosen.kernel, solution)
        raw = raw if indicators is None else indicators.undo(raw)
        model = _checked(model, solution, raw, promised, settings)
        importances = chosen.importances(settings)
    progress.end()
    ridge = Choice("ridge", {}, f"{solution.ridge:.3g}")
    how = Choice("solve", solution.errors, solution.way)
    return Fit(
        model,
        data.shuffled(settings.sizes.left_out).with_rows(solution.inputs) if few else given,
        solution.left_out,
        raw,
        solution.error,
        chosen.rounds,
        importances if indicators is None else indicators.by_column(importances),
        Choices([*choices, *chosen.choices, ridge, how]),
    )


def _costs(data: Observations, settings: Settings) -> dict[str, float]:
    """Return roughly what each stage costs, in multiplications: how progress is told and time left guessed."""
    (n, d), outputs = data.X.shape, data.targets.shape[1]
    some = float(min(n, settings.sizes.chosen_on))
    few = 20.0 * min(n, settings.sizes.bias_rows) ** 3
    solve = 3 * some**3 if n == some else n * min(n, settings.sizes.exact) * (50.0 + 2.5 * d + 300 * (1 + outputs))
    return {"choosing columns": few, "learning features": few + 10 * some**3, "fitting all rows": solve}


def _say_columns(indicators: Indicators | None) -> str:
    if indicators is None:
        return "numbers"
    return "categories" if len(indicators.kept) == 0 or "category" in indicators.told.values() else "both"


class _Chosen(NamedTuple):
    """The kernel, and how its rows are made of raw rows."""

    scaling: Scaling
    basis: Matrix | None  # (d, r), of the span of few rows
    angles: Angles | None  # what sees single columns, where the kernel has such parts
    kernel: SphereKernel
    ridge: float
    rounds: int
    optimism: float  # by how much errors left out one at a time are too low, since the metric was learnt on them
    some: Observations  # at scaled rows, by which importances are told
    few: Observations  # at coordinates: those that everything was chosen on
    choices: list[Choice]

    def coordinates(self, rows: Matrix) -> Matrix:
        """Return raw rows (k, d) as the kernel takes them."""
        return _coordinates(rows, self.scaling, self.basis, self.angles)

    def turned(self, rows: Matrix) -> Matrix:
        """Return the same under the metric."""
        return self.kernel.coordinates(self.coordinates(rows))

    def lift(self, last: float, indicators: Indicators | None) -> SphereLift:
        """Return what makes inputs of raw rows."""
        metric = self.kernel.metric
        if self.basis is not None:
            metric = self.basis if metric is None else self.basis @ metric
        return SphereLift.made(
            self.scaling,
            scale=SCALE,
            bias=self.kernel.bias,
            metric=metric,
            rest=self.kernel.rest and self.kernel.metric is None,
            last=last,
            indicators=indicators,
            angles=self.angles,
        )

    def importances(self, settings: Settings) -> Matrix:
        """Return the mean square of the gradient by each scaled column (d,), as a share of the sum of all."""
        kernel, backend = self.kernel._replace(parts=None), settings.backend
        d = self.some.X.shape[1] if self.basis is None else len(self.basis)
        with blas_for_size(len(self.some)):
            inputs = kernel.lift(self.some.X, self.some.weights).inputs
            penalty = kernel.penalty(self.ridge, self.some.weights)
            alpha = backend.dense(kernel, inputs).solve(penalty, self.some.targets)
            if alpha is None:
                return np.full(d, 1 / d)
            inner = fit_outer_products(kernel, self.some, alpha, backend)
        matrix = kernel.metric
        if self.basis is not None:
            matrix = self.basis if matrix is None else self.basis @ matrix
        squares = np.maximum(inner.diagonal() if matrix is None else ((matrix @ inner) * matrix).sum(axis=1), 0.0)
        return squares / squares.sum() if squares.sum() > 0 else np.full(d, 1 / d)


def _coordinates(rows: Matrix, scaling: Scaling, basis: Matrix | None, angles: Angles | None) -> Matrix:
    scaled = scaling.apply(rows)
    scaled = scaled if basis is None else scaled @ basis
    return scaled if angles is None else np.hstack([scaled, angles.apply(rows)])


def _choose(data: Observations, settings: Settings, progress: Progress) -> _Chosen:
    """Return the scale, the bias, the metric and the parts of the kernel, chosen on few of the rows."""
    sizes, backend = settings.sizes, settings.backend
    few, scaled_on = _chosen_on(data, settings)
    scaling = Scaling.of(scaled_on.X, scale=SCALE, weights=scaled_on.weights)
    shares, angles = settings.shares, None
    d, columns = data.X.shape[1], data.X.shape[1] - sum(len(group) - 1 for group in settings.groups)
    if shares != (Shares(),) and (settings.asked_for_parts or columns <= _COLUMNS):
        angles = Angles.of(scaled_on.X, settings.groups, weights=scaled_on.weights)
    shares = (Shares(),) if angles is None else shares
    plain = scaling.apply(few.X)
    basis = basis_of(plain, most=sizes.spanned) if len(few) == len(data) else None
    at = few.with_rows(_coordinates(few.X, scaling, basis, angles))
    wide = plain.shape[1] if basis is None else basis.shape[1]
    first = SphereKernel(settings.biases[0], settings.shift, rest=basis is not None)
    if not first.single and len(few) < len(data):
        raise InvalidInput(f"shift={settings.shift:g} is beyond single precision, which many rows need.")

    def bias_of(kernel: SphereKernel, guess: float, biases: tuple[float, ...]) -> BiasChoice:
        some = at.some(sizes.bias_rows)
        seen = kernel.split(some.X[:, :wide])[0] if kernel.parts is None else some.X
        return choose_bias(some.with_rows(seen), kernel, biases, ridge=settings.ridge, guess=guess, backend=backend)

    before = bias_of(first, FIRST_RIDGE, settings.biases)
    progress.begin("learning features")
    observations = float(few.count.sum())
    learns = shares[0].whole > 0 and (settings.rounds is not None or (min(d, len(few)) <= sizes.columns))
    learnt, more = LearntMetric(before.kernel, 0, [], {}), None
    if len(scaled_on) > len(few):
        large = scaled_on.at(np.arange(min(sizes.learnt, len(scaled_on))))
        more = large.with_rows(_coordinates(large.X, scaling, basis, None))
    if learns or len(shares) > 1:
        judged = observations >= sizes.for_judging
        learnt = learn_metric(
            at,
            before.kernel,
            columns=0 if angles is None else len(angles),
            shares=shares,
            ridge=settings.ridge,
            guess=before.ridge,
            rounds=settings.rounds if learns else 0,
            judged=judged and (settings.rounds is None or len(shares) > 1),
            one_fold=observations >= sizes.folds,
            more=more,
            backend=backend,
        )
    after = before
    if learnt.rounds:
        after = bias_of(learnt.kernel, before.ridge, settings.biases)
    by_shares = learnt.by_shares
    if not by_shares and len(shares) > 1 and observations >= sizes.for_judging:  # without a metric this is exact
        some = at.some(sizes.left_out)
        by_shares = {
            one: _left_out(some, wide, _with_parts(after.kernel, angles, one), after.ridge, settings) for one in shares
        }
    taken = min(by_shares, key=lambda one: by_shares[one], default=shares[0])
    kernel = _with_parts(after.kernel, angles, taken)
    choices = [
        Choice("bias", {f"{bias:g}": error for bias, error in after.errors.items()}, f"{kernel.bias:g}"),
        Choice("rounds of the metric", {str(k): error for k, error in enumerate(learnt.errors)}, str(learnt.rounds)),
    ]
    if by_shares:
        tried = {f"{1 - one.whole:g}": error for one, error in by_shares.items()}
        choices.append(Choice("share of single columns", tried, f"{1 - taken.whole:g}"))
    some = at.some(sizes.bias_rows)
    return _Chosen(
        scaling,
        basis,
        angles if kernel.parts is not None else None,
        kernel,
        after.ridge,
        learnt.rounds,
        learnt.optimism,
        some.with_rows(some.X[:, :wide]),
        at if kernel.parts is not None else at.with_rows(at.X[:, :wide]),
        choices,
    )


def _with_parts(kernel: SphereKernel, angles: Angles | None, shares: Shares) -> SphereKernel:
    """Return the kernel with parts of these shares, on rows that end with the angles of single columns."""
    if angles is None or shares == Shares():
        return kernel
    return kernel._replace(parts=Parts.of(len(angles), shares))


def _left_out(data: Observations, wide: int, kernel: SphereKernel, guess: float, settings: Settings) -> float:
    """Return the leave-one-out error with the best ridge, at rows (n, r) that end with angles. Cost: O(n³)."""
    rows = data if kernel.parts is not None else data.with_rows(data.X[:, :wide])
    matrix = settings.backend.dense(kernel, kernel.lift(rows.X, rows.weights).inputs)
    fit = fit_kernel(matrix, rows, diagonal=kernel.diagonal, ridge=settings.ridge, last=len(rows), guess=guess)
    return math.inf if fit is None else fit.error


def _chosen_on(data: Observations, settings: Settings) -> tuple[Observations, Observations]:
    """Return the rows that everything is chosen on, and those that scales are learnt from; all in memory.

    Where rows are many, none of those that are held out is among them.
    """
    sizes, (n, d) = settings.sizes, data.X.shape
    if n <= sizes.chosen_on:
        return data, data
    _, kept = data.held_out(sizes.held)
    scaled_on = data.at(kept[: max(sizes.chosen_on, min(sizes.scaled, sizes.sorted // d))])
    return scaled_on.at(np.arange(min(sizes.chosen_on, len(scaled_on)))), scaled_on


def _solve_few(
    data: Observations, chosen: _Chosen, settings: Settings, progress: Progress
) -> tuple[Solution, float, Matrix, Matrix]:
    """Return the solution, the bias coordinate, the rows that were left out, and what it promises for these."""
    most = settings.sizes.left_out
    at = chosen.few.shuffled(most)
    raw = data.shuffled(most).last(most).X
    kernel = chosen.kernel
    last = kernel.lift(at.X, at.weights).last
    found = solve_directly(
        at,
        kernel,
        ridge=settings.ridge,
        guess=chosen.ridge,
        most=most,
        backend=settings.backend,
        tell=progress.tried,
    )
    found = found._replace(left_out=found.left_out._replace(optimism=chosen.optimism))
    promised = at.targets - found.penalty[:, None] * found.alpha
    return found, last, raw, promised[-len(raw) :]


def _solve_many(
    data: Observations, chosen: _Chosen, settings: Settings, progress: Progress
) -> tuple[Solution, float, Matrix, Matrix]:
    """Return the same of many rows, some of which are held out."""
    sizes, kernel = settings.sizes, chosen.kernel
    held, kept = data.held_out(sizes.held)
    way, errors = choose_way(
        chosen.few,
        kernel,
        chosen.ridge,
        rows=len(data),
        approximation=settings.approximation,
        backend=settings.backend,
        sizes=sizes,
    )
    ridges = ridges_near(chosen.ridge) if settings.ridge is None else [settings.ridge]
    bare = data.with_rows(np.zeros((len(data), 0)))  # without the inputs, which are large
    given = ManyRows(bare, kept, held, kernel, ridges, settings.backend, sizes)
    weights = np.zeros(len(data))
    weights[kept] = data.weights[kept]
    turned = kernel._replace(metric=None)
    last = kernel.bias * norm_of_blocks(data.X, lambda rows: kernel.split(chosen.turned(rows))[0], weights)

    def lifted(rows: Matrix) -> Matrix:
        return turned.lift(chosen.turned(rows), last=last).inputs

    if way == "exact":
        rows = data.X if isinstance(data.X, np.ndarray) else data.X[np.arange(len(data))]
        found = solve_by_gradients(lifted(rows).astype(np.float32), given, tell=progress.share)
    else:
        stream, order = Stream(data.X, lifted), np.concatenate([kept, held])
        rows_of = partial(_in_blocks, chosen, data.X, order) if kernel.bias > 0 and not data.on_disk else None
        stream = stream if data.on_disk else stream.in_memory()
        found = solve_beyond(stream, rows_of, given, way=way, tell=progress.share)
    rough = _fit_roughly(chosen, settings)
    _compare(found, rough, bare)
    raw = data.X[held]
    said = found.left_out.outputs
    if found.way == "exact":
        promised = data.targets[held] - found.penalty[held, None] * found.alpha[held]
        found = found._replace(left_out=found.left_out._replace(optimism=_gain(found, rough, len(kept), len(data))))
    else:
        promised = np.empty_like(data.targets[held])
        promised[found.left_out.data.row] = said
    return found._replace(errors=errors | found.errors), last, raw, promised


def _gain(found: Solution, rough: _Rough | None, kept: int, whole: int) -> float:
    """Return what share of the squared error on rows held out remains when they are fitted as well."""
    if rough is None:
        return 1.0
    before, after = (mean_square(one.data, one.outputs) for one in (rough, found.left_out))
    return share_that_remains(before, after, few=rough.fitted, kept=kept, whole=whole)


class _Rough(NamedTuple):
    """What a fit to half of the rows that everything was chosen on says of the other half."""

    data: Observations
    outputs: Matrix  # (c, k)
    fitted: int


def _fit_roughly(chosen: _Chosen, settings: Settings) -> _Rough | None:
    """Return the fit to half of the few rows; None if there is none. Cost: O(s³) for s of them."""
    few, kernel = chosen.few, chosen.kernel
    half = len(few) // 2
    some, others = few.at(np.arange(half)), few.at(np.arange(half, len(few)))
    inputs, _, last = kernel.lift(some.X, some.weights)
    alpha = settings.backend.dense(kernel, inputs).solve(kernel.penalty(chosen.ridge, some.weights), some.targets)
    if alpha is None:
        return None
    outputs = settings.backend.product(kernel, kernel.lift(others.X, last=last).inputs, inputs, alpha, double=True)
    return _Rough(others, outputs[others.row], half)


def _compare(found: Solution, rough: _Rough | None, data: Observations) -> None:
    """Refuse a fit of many rows that says less of those held out than one to few rows of others, by another solver.

    What rows held out have shown comes from the solver itself. Typical errors are compared, which a few targets far
    from all others do not affect.
    """
    if rough is None:
        return
    size = math.sqrt(mean_square(data, np.zeros_like(data.target)))
    typical, few = (
        float(np.median(np.linalg.norm(one.data.target - one.outputs, axis=1))) for one in (found.left_out, rough)
    )
    if typical > max(_NO_FIT * size, _WORSE * few):
        raise InvalidInput(
            f"the fit of {len(data):,} rows misses those held out by {typical:.3g}, where one of {rough.fitted:,} rows "
            f"misses others by {few:.3g}, with ridge={found.ridge:.3g}: its solve has failed. Give a larger ridge."
        )


def _in_blocks(chosen: _Chosen, rows: Any, order: NDArray[np.int64]) -> Matrix:
    """Return raw rows under the metric, in this order, block by block."""
    return np.concatenate([chosen.turned(rows[order[k : k + BLOCK]]) for k in range(0, len(order), BLOCK)])


def _checked(model: KernelModel, solution: Solution, raw: Matrix, promised: Matrix, settings: Settings) -> KernelModel:
    """Return the model, in double precision where single would show; refuse one that does not answer as promised.

    It is asked about rows that were left out while choices were made, as it would be about new rows. A fit of all rows
    by ridge regression, (H + p) alpha = y, says y - p alpha at a fitted row; rows that stay left out have answers
    already. What a solve left of its right-hand side, and the rounding of products, may lie between.

    Cost: that of predicting at most 4,096 rows.
    """
    data, left_out = solution.left_out.data, solution.left_out
    inputs = model.lift.transform(raw)
    model = model.precise(inputs, math.sqrt(solution.error), settings)
    answers = model.outputs(inputs, settings.backend)
    if not np.isfinite(answers).all() or not np.isfinite(left_out.outputs).all():
        raise InvalidInput("the fit gives outputs that are not finite numbers. Give a larger ridge.")
    error, size = (
        math.sqrt(mean_square(data, left_out.outputs)),
        math.sqrt(mean_square(data, np.zeros_like(data.target))),
    )
    rounding = model.rounding * float(np.linalg.norm(model.alpha)) / math.sqrt(len(model.alpha))
    allowed = min(rounding, _ROUNDING * size) + _NOTHING
    if solution.way == "exact":
        whole = max(size, 1.0) * math.sqrt(len(model.alpha) / len(raw))  # as if all of the residual were here
        allowed += min(_SOLVED * solution.residual * whole, 0.5 * error) if solution.residual else 0.0
    else:
        allowed += _AGREE * error
    distance = math.sqrt(float(((answers - promised) ** 2).sum()) / len(raw))
    if not distance <= allowed:
        raise InvalidInput(
            f"the fit does not answer as its solve promised: on {len(raw):,} rows it is {distance:.3g} away, at most "
            f"{allowed:.3g} was expected, with ridge={solution.ridge:.3g}. Give a larger ridge."
        )
    return model
